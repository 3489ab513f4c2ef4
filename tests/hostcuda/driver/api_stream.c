/* The driver API: streams, events, callbacks, capture, graphs. */

API CUresult cuStreamCreateWithPriority(Handle **handle, u32 flags, int priority) {
    CONTEXT;
    if (flags > 1) return INVALID_VALUE;
    *handle = handle_for(new_stream(ctx, flags, priority));
    stats.streams++;
    return SUCCESS;
}

API CUresult cuStreamCreate(Handle **handle, u32 flags) { return cuStreamCreateWithPriority(handle, flags, 0); }

API CUresult cuStreamDestroy_v2(Handle *handle) { /* its work is still done */
    ENTER;
    if ((u64)handle < 3 || !valid(handle) || !handle->stream) return INVALID_HANDLE;
    Stream *stream = handle->stream;
    Capture *capture = stream->capture;
    stream->dead = 1;
    handle->stream = 0;
    handle->next = destroyed;
    destroyed = handle;
    stats.streams--;
    if (capture) {
        capture->broken = 1;
        stream->capture = 0;
        clear_nodes(&stream->tips);
        if (capture->origin == stream) drop_capture(capture);
    }
    drop_if_done(stream);
    return SUCCESS;
}

#define STREAM      \
    CONTEXT;        \
    Stream *stream; \
    TRY(known_stream(&stream, handle, ctx))
#define STREAM_TO_WAIT_FOR \
    CONTEXT;               \
    Stream *stream;        \
    TRY(stream_to_wait_for(&stream, handle, ctx))
#define STREAM_FOR_WORK \
    CONTEXT;            \
    Stream *stream;     \
    TRY(stream_for_work(&stream, handle, ctx))

API CUresult cuStreamSynchronize(void *handle) {
    STREAM_TO_WAIT_FOR;
    stats.stream_syncs++;
    wait_for(stream, stream->submitted);
    trim_at_wait();
    return stream->context->error;
}

API CUresult cuStreamQuery(void *handle) {
    STREAM_TO_WAIT_FOR;
    if (stream->context->error) return stream->context->error;
    return poll(stream, stream->submitted) ? SUCCESS : NOT_READY;
}

API CUresult cuStreamGetFlags(void *handle, u32 *flags) {
    STREAM;
    *flags = stream->flags;
    return SUCCESS;
}

API CUresult cuStreamGetPriority(void *handle, int *priority) {
    STREAM;
    *priority = stream->priority;
    return SUCCESS;
}

API CUresult cuStreamGetId(void *handle, u64 *id) {
    STREAM;
    *id = stream->id;
    return SUCCESS;
}

API CUresult cuStreamGetCtx(void *handle, Context **c) {
    STREAM;
    *c = stream->context;
    return SUCCESS;
}

API CUresult cuStreamGetCtx_v2(void *handle, Context **c, void **green) {
    STREAM;
    *c = stream->context;
    if (green) *green = 0;
    return SUCCESS;
}

API CUresult cuStreamGetDevice(void *handle, int *device) {
    STREAM;
    *device = stream->context->device;
    return SUCCESS;
}

API CUresult cuStreamWaitEvent(void *handle, Event *event, u32 flags) {
    STREAM_FOR_WORK;
    if (!valid(event) || event->dead) return INVALID_HANDLE;
    if (!event->recorded) return SUCCESS;
    if (event->capture || stream->capture) return captured_wait(stream, event);
    Op *op = new_op(WAIT);
    depend(op, event->at.stream, event->at.index);
    submit(op, stream);
    return SUCCESS;
}

API CUresult cuStreamAddCallback(void *handle, void (*callback)(void *, int, void *), void *user, u32 flags) {
    STREAM_FOR_WORK;
    if (stream->capture) return break_capture(stream->capture, STREAM_CAPTURE_UNSUPPORTED);
    Op *op = new_op(CALLBACK);
    op->callback = callback;
    op->user = user;
    op->handle = handle;
    submit(op, stream);
    return SUCCESS;
}

API CUresult cuLaunchHostFunc(void *handle, void (*function)(void *), void *user) {
    STREAM_FOR_WORK;
    Op *op = new_op(CALLBACK);
    op->function = function;
    op->user = user;
    submit(op, stream);
    return SUCCESS;
}

API CUresult cuLaunchHostFunc_v2(void *handle, void (*function)(void *), void *user, u32 mode) {
    return cuLaunchHostFunc(handle, function, user);
}

/* ----------------------------------------------------------------------------------------------------------- events */
API CUresult cuEventCreate(Event **event, u32 flags) { /* 1 blocking, 2 no timing, 4 interprocess */
    CONTEXT;
    if (flags > 7) return INVALID_VALUE;
    *event = new_handle(sizeof **event);
    **event = (Event){.context = ctx, .flags = flags};
    stats.events++;
    return SUCCESS;
}

#define EVENT \
    ENTER;    \
    if (!valid(event) || event->dead) return INVALID_HANDLE

API CUresult cuEventDestroy_v2(Event *event) {
    EVENT;
    event->dead = 1;
    clear_nodes(&event->tips);
    stats.events--;
    return SUCCESS;
}

API CUresult cuEventRecordWithFlags(Event *event, void *handle, u32 flags) {
    EVENT;
    Stream *stream;
    TRY(stream_for_work(&stream, handle, current()));
    if (stream->context != event->context) return INVALID_HANDLE;
    if (stream->capture && flags) return NOT_SUPPORTED; /* a node that records an event */
    event->recorded = 1;
    event->capture = 0;
    clear_nodes(&event->tips);
    if (stream->capture) {
        event->capture = stream->capture->id;
        add_nodes(&event->tips, &stream->tips);
        return SUCCESS;
    }
    event->at.stream = stream;
    Op *op = new_op(MARK);
    op->event = event;
    submit(op, stream);
    return SUCCESS;
}

API CUresult cuEventRecord(Event *event, void *handle) { return cuEventRecordWithFlags(event, handle, 0); }

API CUresult cuEventQuery(Event *event) {
    EVENT;
    TRY(may_wait_for_event(event));
    if (!event->recorded) return SUCCESS;
    Stream *stream = event->at.stream;
    if (stream->context->error) return stream->context->error;
    return poll(stream, event->at.index) ? SUCCESS : NOT_READY;
}

API CUresult cuEventSynchronize(Event *event) {
    EVENT;
    TRY(may_wait_for_event(event));
    stats.event_syncs++;
    if (!event->recorded) return SUCCESS;
    wait_for(event->at.stream, event->at.index);
    trim_at_wait();
    return event->at.stream->context->error;
}

API CUresult cuEventElapsedTime_v2(float *ms, Event *event, Event *end) {
    EVENT;
    if (!valid(end) || end->dead || !event->recorded || !end->recorded) return INVALID_HANDLE;
    if ((event->flags | end->flags) & 2) return INVALID_HANDLE;
    if (event->capture || end->capture) return CAPTURED_EVENT;
    if (event->at.stream->done < event->at.index || end->at.stream->done < end->at.index) return NOT_READY;
    *ms = (end->time - event->time) / 1e6;
    return SUCCESS;
}

/* ---------------------------------------------------------------------------------------------------------- capture */
API CUresult cuThreadExchangeStreamCaptureMode(int *mode) {
    ENTER;
    int was = interaction;
    if (*mode < GLOBAL_MODE || *mode > RELAXED_MODE) return INVALID_VALUE;
    interaction = *mode;
    *mode = was;
    return SUCCESS;
}

API CUresult cuStreamBeginCapture_v2(void *handle, int mode) {
    STREAM_FOR_WORK;
    if (mode < GLOBAL_MODE || mode > RELAXED_MODE) return INVALID_VALUE;
    if (stream == ctx->legacy) return STREAM_CAPTURE_UNSUPPORTED;
    if (stream->capture) return ILLEGAL_STATE;
    Capture *c = calloc(1, sizeof *c);
    *c = (Capture){.id = ++last_id, .mode = mode, .thread = &interaction, .origin = stream, .next = captures};
    c->graph = new_handle(sizeof *c->graph);
    c->graph->references = 1;
    captures = stream->capture = c;
    stats.captures++;
    return SUCCESS;
}

API CUresult cuStreamEndCapture(void *handle, Graph **graph) {
    STREAM;
    *graph = 0;
    Capture *c = stream->capture;
    if (!c) return ILLEGAL_STATE;
    if (c->origin != stream) return break_capture(c, STREAM_CAPTURE_UNMATCHED);
    if (c->mode != RELAXED_MODE && c->thread != &interaction) return STREAM_CAPTURE_WRONG_THREAD;
    CUresult error = c->broken ? STREAM_CAPTURE_INVALIDATED : joined(c) ? SUCCESS : STREAM_CAPTURE_UNJOINED;
    if (error) {
        drop_capture(c);
        return error;
    }
    *graph = c->graph;
    stats.graphs++;
    end_capture(c);
    return SUCCESS;
}

enum { NOT_CAPTURING, CAPTURING, INVALIDATED };

static CUresult capture_status(Stream *stream, int *status) { /* asking breaks nothing */
    *status = NOT_CAPTURING;
    Context *ctx = stream->context;
    for (Stream *s = streams; s && stream == ctx->legacy; s = s->next)
        if (s->context == ctx && s->capture && !(s->flags & 1)) return STREAM_CAPTURE_IMPLICIT;
    if (stream->capture) *status = stream->capture->broken ? INVALIDATED : CAPTURING;
    return SUCCESS;
}

API CUresult cuStreamIsCapturing(void *handle, int *status) {
    STREAM;
    return capture_status(stream, status);
}

API CUresult cuStreamGetCaptureInfo_v3(void *handle, int *status, u64 *id, Graph **graph, Op ***nodes, void **edges,
                                       size_t *n) {
    static __thread Op **buffer; /* good until the thread asks again */
    static __thread u64 *zeros;
    STREAM;
    TRY(capture_status(stream, status));
    if (*status != CAPTURING) return SUCCESS;
    Graph *to = stream->capture->graph;
    Nodes *tips = &stream->tips;
    buffer = realloc(buffer, (tips->n + 1) * sizeof *buffer);
    zeros = realloc(zeros, (tips->n + 1) * sizeof *zeros);
    memset(zeros, 0, tips->n * sizeof *zeros); /* plain edges */
    for (u32 i = 0; i < tips->n; i++) buffer[i] = to->node[tips->item[i]].op;
    if (id) *id = stream->capture->id;
    if (graph) *graph = to;
    if (nodes) *nodes = buffer;
    if (edges) *edges = zeros;
    if (n) *n = tips->n;
    return SUCCESS;
}

API CUresult cuStreamGetCaptureInfo_v2(void *handle, int *status, u64 *id, Graph **graph, Op ***nodes, size_t *n) {
    return cuStreamGetCaptureInfo_v3(handle, status, id, graph, nodes, 0, n);
}

/* ----------------------------------------------------------------------------------------------------------- graphs */
#define GRAPH \
    ENTER;    \
    if (!valid(graph) || graph->destroyed) return INVALID_VALUE

API CUresult cuGraphGetNodes(Graph *graph, Op **nodes, size_t *n) {
    GRAPH;
    size_t room = nodes ? *n : 0;
    *n = graph->n;
    for (size_t i = 0; i < graph->n && i < room; i++) nodes[i] = graph->node[i].op;
    return SUCCESS;
}

API CUresult cuGraphNodeGetType(Op *node, int *type) {
    static const int types[] = {[LAUNCH] = 0, [COPY] = 1, [SET] = 2, [CALLBACK] = 3, [ALLOCATE] = 10, [FREE] = 11};
    ENTER;
    *type = types[node->kind];
    return SUCCESS;
}

API CUresult cuGraphDestroy(Graph *graph) {
    GRAPH;
    graph->destroyed = 1;
    stats.graphs--;
    let_go(&graph->held);
    drop_graph(graph);
    return SUCCESS;
}

API CUresult cuGraphInstantiateWithFlags(Executable **x, Graph *graph, u64 flags) {
    GRAPH;
    *x = new_handle(sizeof **x);
    (*x)->graph = graph;
    (*x)->flags = flags;
    graph->references++;
    stats.graphs++;
    for (Held *held = graph->held; held; held = held->next) {
        held->object->references += held->references;
        hold(&(*x)->held, held->object, held->references);
    }
    return SUCCESS;
}

API CUresult cuGraphInstantiate(Executable **x, Graph *graph, u64 flags) {
    return cuGraphInstantiateWithFlags(x, graph, flags);
}

typedef struct InstantiateParameters {
    u64 flags;
    void *upload, *failed;
    int result;
} InstantiateParameters;

API CUresult cuGraphInstantiateWithParams(Executable **x, Graph *graph, InstantiateParameters *parameters) {
    parameters->failed = 0;
    parameters->result = 0;
    return cuGraphInstantiateWithFlags(x, graph, parameters->flags);
}

#define EXECUTABLE \
    if (!valid(x) || !x->graph) return INVALID_VALUE

API CUresult cuGraphLaunch(Executable *x, void *handle) {
    STREAM_FOR_WORK;
    EXECUTABLE;
    return launch_graph(x, stream);
}

API CUresult cuGraphUpload(Executable *x, void *handle) {
    STREAM_FOR_WORK;
    EXECUTABLE;
    return SUCCESS;
}

API CUresult cuGraphExecDestroy(Executable *x) {
    ENTER;
    EXECUTABLE;
    stats.graphs--;
    drop_executable(x);
    return SUCCESS;
}

/* ----------------------------------------------------------------------------------- objects that graphs keep alive */
API CUresult cuUserObjectCreate(UserObject **object, void *what, void (*destroy)(void *), u32 references, u32 flags) {
    ENTER;
    if (!destroy || !references || flags != 1) return INVALID_VALUE;
    *object = new_handle(sizeof **object);
    **object = (UserObject){what, destroy, references};
    return SUCCESS;
}

#define OBJECT \
    ENTER;     \
    if (!valid(object) || !object->destroy || !n) return INVALID_VALUE

API CUresult cuUserObjectRetain(UserObject *object, u32 n) {
    OBJECT;
    object->references += n;
    return SUCCESS;
}

API CUresult cuUserObjectRelease(UserObject *object, u32 n) {
    OBJECT;
    release_object(object, n);
    return SUCCESS;
}

API CUresult cuGraphRetainUserObject(Graph *graph, UserObject *object, u32 n, u32 flags) {
    OBJECT;
    if (!valid(graph) || graph->destroyed || flags > 1) return INVALID_VALUE;
    if (!flags) object->references += n; /* 1: the graph takes over references that the caller has */
    hold(&graph->held, object, n);
    return SUCCESS;
}

API CUresult cuGraphReleaseUserObject(Graph *graph, UserObject *object, u32 n) {
    OBJECT;
    if (!valid(graph) || graph->destroyed) return INVALID_VALUE;
    Held *held = graph->held;
    while (held && (held->object != object || held->references < n)) held = held->next;
    if (!held) return INVALID_VALUE;
    held->references -= n;
    release_object(object, n);
    return SUCCESS;
}
