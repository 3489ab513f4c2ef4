/* Stream capture and graphs.
 *
 * A graph keeps its operations in the order they were captured in, and a launch puts copies of them into one stream in
 * that order.  Which node depends on which matters only for finding captured work that was never joined. */

enum { GLOBAL_MODE, THREAD_MODE, RELAXED_MODE };

typedef struct Node {
    Op *op;
    Nodes deps;
} Node;

typedef struct UserObject { /* something the caller wants to live as long as a graph */
    void *what;
    void (*destroy)(void *);
    long references;
} UserObject;

typedef struct Held {
    UserObject *object;
    long references;
    struct Held *next;
} Held;

typedef struct Graph {
    int references, destroyed; /* executable graphs and the caller hold references */
    Node *node;
    u32 n;
    Held *held;
} Graph;

typedef struct Executable {
    Graph *graph;
    u64 flags;
    Held *held;
    Dep last; /* the end of its last launch */
} Executable;

typedef struct Capture {
    u64 id;
    int mode, broken;
    void *thread;
    Stream *origin;
    Graph *graph;
    struct Capture *next;
} Capture;

static Capture *captures;
static __thread int interaction; /* this thread's mode; its address names the thread */

static void add_nodes(Nodes *to, const Nodes *from) {
    for (u32 i = 0; i < from->n; i++) {
        u32 k = 0;
        while (k < to->n && to->item[k] != from->item[i]) k++;
        if (k < to->n) continue;
        to->item = realloc(to->item, (to->n + 1) * sizeof *to->item);
        to->item[to->n++] = from->item[i];
    }
}

static void clear_nodes(Nodes *nodes) {
    free(nodes->item);
    *nodes = (Nodes){0};
}

static void capture_op(Op *op, Stream *stream) {
    Graph *graph = stream->capture->graph;
    u32 i = graph->n++;
    graph->node = realloc(graph->node, graph->n * sizeof *graph->node);
    graph->node[i] = (Node){op, stream->tips};
    stream->tips = (Nodes){0};
    add_nodes(&stream->tips, &(Nodes){&i, 1});
}

static Capture *capture_of(Event *event) {
    Capture *c = captures;
    while (c && c->id != event->capture) c = c->next;
    return event->capture ? c : 0;
}

static int joined(Capture *c) { /* does all captured work come before the end of the origin stream? */
    Graph *graph = c->graph;
    char *seen = calloc(1, graph->n + 1);
    Nodes *tips = &c->origin->tips;
    u32 n = 0;
    for (u32 i = 0; i < tips->n; i++) seen[tips->item[i]] = 1;
    for (u32 i = graph->n; i--;) {
        Nodes *deps = &graph->node[i].deps;
        if (!seen[i]) continue;
        n++;
        for (u32 k = 0; k < deps->n; k++) seen[deps->item[k]] = 1;
    }
    free(seen);
    return n == graph->n;
}

/* ------------------------------------------------------------------------------------ what a capture does not allow */
static CUresult break_capture(Capture *c, CUresult error) {
    if (c) c->broken = 1;
    return error;
}

/* Those of a context, or only those that its legacy stream would wait for. */
static int break_captures(Context *ctx, int blocking) {
    int n = 0;
    for (Stream *s = streams; s; s = s->next) {
        if (s->context != ctx || !s->capture || (blocking && s->flags & 1)) continue;
        s->capture->broken = 1;
        n++;
    }
    return n;
}

static CUresult unsafe_call(void) { /* what CUDA calls potentially unsafe: allocating, waiting, loading code, ... */
    int n = 0;
    for (Capture *c = captures; c && interaction != RELAXED_MODE; c = c->next) {
        int own = c->thread == &interaction;
        int hit = own ? c->mode != RELAXED_MODE : interaction == GLOBAL_MODE && c->mode == GLOBAL_MODE;
        if (hit) c->broken = 1;
        n += hit;
    }
    return n ? STREAM_CAPTURE_UNSUPPORTED : SUCCESS;
}

static CUresult known_stream(Stream **stream, void *handle, Context *ctx) {
    *stream = stream_of(handle, ctx);
    if (!*stream) return INVALID_HANDLE;
    return (*stream)->context->dead ? CONTEXT_IS_DESTROYED : SUCCESS;
}

static CUresult stream_for_work(Stream **stream, void *handle, Context *ctx) {
    TRY(known_stream(stream, handle, ctx));
    Stream *s = *stream;
    if (s == s->context->legacy && break_captures(s->context, 1)) return STREAM_CAPTURE_IMPLICIT;
    return s->capture && s->capture->broken ? STREAM_CAPTURE_INVALIDATED : SUCCESS;
}

static CUresult stream_to_wait_for(Stream **stream, void *handle, Context *ctx) { /* or to ask */
    TRY(known_stream(stream, handle, ctx));
    Stream *s = *stream;
    if (s == s->context->legacy && break_captures(s->context, 1)) return STREAM_CAPTURE_IMPLICIT;
    if (s->capture) return break_capture(s->capture, STREAM_CAPTURE_UNSUPPORTED);
    return unsafe_call();
}

static CUresult may_wait_for_event(Event *event) {
    return event->capture ? break_capture(capture_of(event), CAPTURED_EVENT) : unsafe_call();
}

static CUresult may_wait_for_context(Context *ctx) {
    return break_captures(ctx, 0) ? STREAM_CAPTURE_UNSUPPORTED : unsafe_call();
}

static CUresult captured_wait(Stream *stream, Event *event) { /* an event wait with a capture on either side */
    Capture *c = capture_of(event);
    if (!c) return stream->capture ? break_capture(stream->capture, STREAM_CAPTURE_ISOLATION) : CAPTURED_EVENT;
    if (c->broken) return STREAM_CAPTURE_INVALIDATED;
    if (stream == stream->context->legacy) return break_capture(c, STREAM_CAPTURE_UNSUPPORTED);
    if (stream->capture && stream->capture != c) {
        stream->capture->broken = 1;
        return break_capture(c, STREAM_CAPTURE_MERGE);
    }
    stream->capture = c;
    add_nodes(&stream->tips, &event->tips);
    return SUCCESS;
}

/* ----------------------------------------------------------------------------------------------------- user objects */
static void release_object(UserObject *object, long n) {
    object->references -= n;
    if (object->references > 0 || !object->destroy) return;
    void (*destroy)(void *) = object->destroy;
    object->destroy = 0;
    drop_lock();
    in_callback++;
    destroy(object->what);
    in_callback--;
    take_lock();
}

static void hold(Held **list, UserObject *object, long references) {
    Held *held = malloc(sizeof *held);
    *held = (Held){object, references, *list};
    *list = held;
}

static void let_go(Held **list) {
    Held *held = *list;
    *list = 0;
    while (held) {
        Held *next = held->next;
        release_object(held->object, held->references);
        free(held);
        held = next;
    }
}

/* ----------------------------------------------------------------------------------------------------------- graphs */
static void forget_allocation(Allocation *a) { /* memory in use stays, as if it had been allocated without a graph */
    a->graph = 0;
    if (!a->alive) { /* it never was, or was freed */
        forget(a);
        release(a);
    } else if (!a->outstanding) { /* its free is queued */
        forget(a);
        count_out(a);
    }
}

static void drop_graph(Graph *graph) {
    if (--graph->references) return;
    let_go(&graph->held);
    for (u32 i = 0; i < graph->n; i++) {
        Op *op = graph->node[i].op;
        if (op->kind == ALLOCATE) forget_allocation(op->allocation);
        clear_nodes(&graph->node[i].deps);
        free_op(op);
    }
    free(graph->node);
    graph->node = 0;
    graph->n = 0;
}

static void end_capture(Capture *c) {
    for (Stream *s = streams; s; s = s->next) {
        if (s->capture != c) continue;
        s->capture = 0;
        clear_nodes(&s->tips);
    }
    Capture **p = &captures;
    while (*p != c) p = &(*p)->next;
    *p = c->next;
    free(c);
    stats.captures--;
}

static void drop_capture(Capture *c) {
    drop_graph(c->graph);
    end_capture(c);
}

static Op *copy_op(const Op *from) {
    Op *op = malloc(sizeof *op);
    *op = *from;
    if (!from->parameters) return op;
    op->parameters = malloc(from->parameters_size);
    memcpy(op->parameters, from->parameters, from->parameters_size);
    for (u32 i = 0; i < from->image->info->n_parameters; i++)
        op->parameters[i] = (char *)op->parameters + ((char *)from->parameters[i] - (char *)from->parameters);
    return op;
}

static int allocates(Graph *graph) {
    for (u32 i = 0; i < graph->n; i++)
        if (graph->node[i].op->kind == ALLOCATE || graph->node[i].op->kind == FREE) return 1;
    return 0;
}

static CUresult launch_graph(Executable *x, Stream *stream) {
    Graph *graph = x->graph;
    if (stream->capture && allocates(graph)) return NOT_SUPPORTED;
    for (u32 i = 0; i < graph->n && !(x->flags & 1); i++) { /* unless it frees its memory when it is launched again */
        Op *op = graph->node[i].op;
        if (op->kind == ALLOCATE && op->allocation->outstanding) return INVALID_VALUE;
    }
    for (u32 i = 0; i < graph->n; i++) {
        Op *op = copy_op(graph->node[i].op);
        if (op->kind == ALLOCATE || op->kind == FREE) op->allocation->outstanding = op->kind == ALLOCATE;
        int after = !i && !stream->capture && x->last.stream; /* a graph never runs beside itself */
        if (after) depend(op, x->last.stream, x->last.index);
        submit(op, stream);
    }
    if (!stream->capture) x->last = (Dep){stream, stream->submitted};
    return stream->context->error;
}

static void drop_executable(Executable *x) {
    Graph *graph = x->graph;
    x->graph = 0;
    int needed = x->held || allocates(graph); /* by work that is under way */
    if (x->last.stream && needed) wait_for(x->last.stream, x->last.index);
    let_go(&x->held);
    drop_graph(graph);
}
