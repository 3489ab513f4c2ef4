/* Streams: queues of work, and the order it is done in.
 *
 * An operation is done in the call that submits it (async=sync), or when something waits for it: then as little as
 * possible (lazy), or the newest that can be done first (reverse), or a random one (random). */

enum { COPY, SET, LAUNCH, MARK, WAIT, CALLBACK, ALLOCATE, FREE };

typedef struct Op {
    struct Op *next;
    Stream *stream;
    u64 sequence; /* among all operations */
    int kind, n_deps;
    Dep *deps;

    u64 target, source; /* COPY, SET */
    size_t bytes;
    char *staged; /* a copy of a pageable source, taken at submission */
    u32 value, unit;
    u64 *count; /* where copies of this kind are counted: copies, bytes */

    Image *image; /* LAUNCH */
    u32 grid[3], block[3], dynamic;
    void **parameters; /* one block of memory, with the values behind the pointers */
    size_t parameters_size;

    Event *event; /* MARK */
    u64 event_index;

    void (*function)(void *); /* CALLBACK, of one kind or the other */
    void (*callback)(void *, int, void *);
    void *user, *handle;

    Allocation *allocation; /* ALLOCATE, FREE */

    Allocation **touched; /* host and managed memory that it will use, */
    char *writes;         /* and whether it may write it */
    int n_touched;
} Op;

static u64 last_sequence;

static Op *new_op(int kind) {
    Op *op = calloc(1, sizeof *op);
    op->kind = kind;
    return op;
}

static void free_op(Op *op) {
    free(op->staged);
    free(op->deps);
    free(op->parameters);
    free(op->touched);
    free(op->writes);
    free(op);
}

static void depend(Op *op, Stream *stream, u64 index) {
    if (stream->done >= index) return;
    op->deps = realloc(op->deps, (op->n_deps + 1) * sizeof *op->deps);
    op->deps[op->n_deps++] = (Dep){stream, index};
}

/* ---------------------------------------------------------------------- host and managed memory used by queued work */
static void touch(Op *op, Allocation *a, int writes) {
    if (!a || (a->kind != HOST_MEMORY && a->kind != MANAGED_MEMORY)) return;
    op->touched = realloc(op->touched, (op->n_touched + 1) * sizeof *op->touched);
    op->writes = realloc(op->writes, op->n_touched + 1);
    op->touched[op->n_touched] = a;
    op->writes[op->n_touched++] = writes;
    *(writes ? &a->writers : &a->readers) += 1;
    protect(a);
}

static u64 address_parameter(Op *op, u32 i) { /* the value of a parameter, if it is an address in our memory, else 0 */
    if (PARAMETER_SIZE(op->image->info->parameters[i]) != 8) return 0;
    u64 value = *(u64 *)op->parameters[i];
    return arenas && value - arenas < arena_size * (options.devices + 2) ? value : 0;
}

static void touch_all(Op *op) {
    if (op->kind == COPY && !op->staged) touch(op, find(op->source), 0);
    if (op->kind == COPY || op->kind == SET) touch(op, find(op->target), 1);
    for (u32 i = 0; op->kind == LAUNCH && i < op->image->info->n_parameters; i++)
        touch(op, find(address_parameter(op, i)), 1);
}

static void touch_no_more(Op *op) {
    for (int i = 0; i < op->n_touched; i++) {
        Allocation *a = op->touched[i];
        *(op->writes[i] ? &a->writers : &a->readers) -= 1;
        protect(a);
    }
}

/* ----------------------------------------------------------------------------------------------- doing an operation */
static void set_memory(Op *op) {
    char *p = (char *)op->target;
    if (op->unit == 1) memset(p, op->value, op->bytes);
    else
        for (size_t i = 0; i < op->bytes; i += op->unit) memcpy(p + i, &op->value, op->unit);
}

static void perform(Op *op) {
    Allocation *a = op->allocation;
    switch (op->kind) {
    case COPY:
        if (options.idle) break;
        open_for_operation(find(op->target));
        open_for_operation(find(op->source));
        memmove((void *)op->target, op->staged ? op->staged : (void *)op->source, op->bytes);
        break;
    case SET:
        if (options.idle) break;
        open_for_operation(find(op->target));
        set_memory(op);
        break;
    case LAUNCH:
        if (options.idle) break;
        for (u32 i = 0; i < op->image->info->n_parameters; i++) open_for_operation(find(address_parameter(op, i)));
        run_kernel(op->image, op->parameters, op->grid, op->block, op->dynamic, op->stream->context);
        fflush(stdout);
        break;
    case ALLOCATE:
        if (a->graph && !a->alive) count_in(a);
        arm(a);
        break;
    case FREE:
        if (a->pool) back_in_pool(a->pool, a->size, op->stream);
        if (!a->graph) release(a);
        else if (a->alive) {
            disarm(a);
            count_out(a);
        }
        break;
    }
}

static void reap(void) { /* memory freed while work was queued goes when that work is done */
    if (!n_zombies) return;
    u64 oldest = ~0ull;
    for (Stream *s = streams; s; s = s->next)
        if (s->head && s->head->sequence < oldest) oldest = s->head->sequence;
    size_t kept = 0;
    for (size_t i = 0; i < n_zombies; i++)
        if (zombies[i].sequence < oldest) release(zombies[i].allocation);
        else zombies[kept++] = zombies[i];
    n_zombies = kept;
}

static void release_later(Allocation *a) {
    if (!stats.pending) {
        release(a);
        return;
    }
    GROW(zombies, n_zombies, zombies_room);
    zombies[n_zombies].allocation = a;
    zombies[n_zombies++].sequence = last_sequence;
}

static void drop_if_done(Stream *stream) { /* a destroyed stream */
    if (!stream->dead || stream->head) return;
    Stream **p = &streams;
    while (*p && *p != stream) p = &(*p)->next;
    if (*p) *p = stream->next;
}

static void call_back(Op *op, int error) {
    drop_lock();
    in_callback++;
    if (op->callback) op->callback(op->handle, error, op->user);
    else op->function(op->user);
    in_callback--;
    take_lock();
}

static void attempt(Op *op, Context *ctx) { /* faults become the context's error */
    sigjmp_buf back, *outer = guard;
    fenv_t rounding;
    catch_faults();
    fegetenv(&rounding);
    if (!sigsetjmp(back, 0)) {
        guard = &back;
        perform(op);
    } else {
        ctx->error = failure;
        fesetenv(&rounding);
    }
    close_opened();
    guard = outer;
    now.image = 0;
}

static void step(Stream *stream) { /* do its first operation, whose dependencies are met */
    Op *op = stream->head;
    Context *ctx = stream->context;
    stream->busy = 1;
    stats.pending--;
    if (op->kind == CALLBACK) call_back(op, ctx->error);
    else if (op->kind == MARK) {
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        int newest = op->event->at.index == op->event_index && op->event->at.stream == stream;
        if (newest) op->event->time = t.tv_sec * 1e9 + t.tv_nsec;
    } else if (op->kind != WAIT && !ctx->error && !ctx->dead) attempt(op, ctx);
    touch_no_more(op);
    stream->head = op->next;
    if (!stream->head) stream->tail = 0;
    stream->done++;
    stream->busy = 0;
    free_op(op);
    reap();
    drop_if_done(stream);
    pthread_cond_broadcast(&moved);
}

/* ---------------------------------------------------------------------------------------------------------- waiting */
static int can_be_done(Op *op) {
    for (int i = 0; i < op->n_deps; i++)
        if (op->deps[i].stream->done < op->deps[i].index) return 0;
    return 1;
}

static void do_what_is_needed(Stream *stream, u64 index) {
    while (stream->done < index) {
        if (stream->busy) { /* another thread is in its callback */
            pthread_cond_wait(&moved, &lock);
            continue;
        }
        Op *op = stream->head;
        Dep *unmet = 0;
        for (int i = 0; i < op->n_deps && !unmet; i++)
            if (op->deps[i].stream->done < op->deps[i].index) unmet = op->deps + i;
        if (unmet) do_what_is_needed(unmet->stream, unmet->index);
        else step(stream);
    }
}

static Stream *choose(void) { /* whose next operation can be done: the newest, or a random one */
    Stream *chosen = 0;
    int n = 0;
    for (Stream *s = streams; s; s = s->next) {
        if (!s->head || s->busy || !can_be_done(s->head)) continue;
        n++;
        int better = options.async == RANDOM_FIRST ? random_number() % n == 0
                                                   : !chosen || s->head->sequence > chosen->head->sequence;
        if (better) chosen = s;
    }
    return chosen;
}

static void wait_for(Stream *stream, u64 index) {
    Stream *chosen;
    while (options.async > LAZY && stream->done < index && (chosen = choose())) step(chosen);
    do_what_is_needed(stream, index);
}

static void wait_for_all(Context *ctx) { /* of a context, or of all if it is 0 */
    for (Stream *s = streams; s; s = s->next)
        if (!ctx || s->context == ctx) wait_for(s, s->submitted);
}

static int poll(Stream *stream, u64 index) { /* asking makes one step of progress, so that loops that ask end */
    if (stream->done >= index) return 1;
    Stream *chosen = choose();
    if (chosen) step(chosen);
    return 0;
}

static void *run_callback_soon(void *argument) { /* callbacks are called even if nobody waits for them */
    Dep *at = argument;
    usleep(30000);
    take_lock();
    wait_for(at->stream, at->index);
    drop_lock();
    free(at);
    return 0;
}

/* ------------------------------------------------------------------------------------------------------- submitting */
static int bad_argument(Op *op) { /* a pointer to memory that CUDA does not know would do here, but not on a GPU */
    const KernelInfo *info = op->image->info;
    for (u32 i = 0; options.check_args && i < info->n_parameters; i++) {
        if (!PARAMETER_IS_POINTER(info->parameters[i])) continue;
        u64 p = *(u64 *)op->parameters[i]; /* Numba passes an array as ..., items, bytes of an item, data, ... */
        int counted = i > 1 && PARAMETER_SIZE(info->parameters[i - 2]) == 8;
        if (!p || (counted && !*(u64 *)op->parameters[i - 2]) || find(p)) continue;
        stats.faults++;
        say("kernel %s: argument %u is the address %#lx, %s", info->title, i, p, describe(p));
        return 1;
    }
    return 0;
}

static void count_op(Op *op) {
    if (op->kind == COPY) {
        op->count[0]++;
        op->count[1] += op->bytes;
    }
    if (op->kind == SET) stats.memsets++;
    if (op->kind != LAUNCH) return;
    stats.launches++;
    stats.threads += (u64)op->block[0] * op->block[1] * op->block[2] * op->grid[0] * op->grid[1] * op->grid[2];
    ++*op->image->launches;
}

static void enqueue(Op *op, Stream *stream) { /* behind what the stream has, with no order against others */
    op->stream = stream;
    op->sequence = ++last_sequence;
    if (stream->tail) stream->tail->next = op;
    else stream->head = op;
    stream->tail = op;
    stream->submitted++;
    stats.pending++;
    count_op(op);
    if (op->kind == MARK) op->event_index = op->event->at.index = stream->submitted;
    if (options.async == SYNC) {
        do_what_is_needed(stream, stream->submitted);
        return;
    }
    touch_all(op);
    if (op->kind != CALLBACK) return;
    Dep *at = malloc(sizeof *at);
    *at = (Dep){stream, stream->submitted};
    pthread_t thread;
    if (!pthread_create(&thread, 0, run_callback_soon, at)) pthread_detach(thread);
}

static void capture_op(Op *op, Stream *stream);

static void submit(Op *op, Stream *stream) {
    Context *ctx = stream->context;
    if (stream->capture) {
        capture_op(op, stream);
        return;
    }
    if (op->kind == LAUNCH && bad_argument(op)) {
        free_op(op);
        ctx->error = ILLEGAL_ADDRESS;
        return;
    }
    if (stream == ctx->legacy) { /* it and the blocking streams wait for each other */
        for (Stream *s = streams; s; s = s->next)
            if (s != stream && s->context == ctx && !(s->flags & 1)) depend(op, s, s->submitted);
    } else if (!(stream->flags & 1)) depend(op, ctx->legacy, ctx->legacy->submitted);
    enqueue(op, stream);
}

/* --------------------------------------------------------------------------------------------- streams and contexts */
static Stream *new_stream(Context *ctx, u32 flags, int priority) {
    Stream *stream = calloc(1, sizeof *stream);
    *stream = (Stream){.context = ctx, .flags = flags, .priority = priority, .id = ++last_id, .next = streams};
    streams = stream;
    Op *op = new_op(WAIT); /* for what cuCtxWaitEvent asked of all future work */
    for (int i = 0; i < ctx->n_waits; i++) depend(op, ctx->waits[i].stream, ctx->waits[i].index);
    if (op->n_deps) enqueue(op, stream);
    else free_op(op);
    return stream;
}

static Context *new_context(int device, int is_primary) {
    Context *ctx = new_handle(sizeof *ctx);
    *ctx = (Context){.device = device, .primary = is_primary, .id = ++last_id, .next = contexts};
    contexts = ctx;
    ctx->legacy = new_stream(ctx, 0, 0);
    ctx->marks = new_stream(ctx, 1, 0);
    return ctx;
}

static void clear_context(Context *ctx) { /* frees all that it owns */
    wait_for_all(ctx);
    ctx->error = 0;
    for (size_t i = live.n; i--;) {
        Allocation *a = live.item[i];
        if (a->context != ctx) continue;
        forget(a);
        if (a->kind < REGISTERED_MEMORY && (a->alive || !a->graph)) count_out(a);
        release(a);
    }
}

static int per_thread_default; /* handle 0 is the thread's stream, as cuGetProcAddress was asked for */

static Stream *stream_of_thread(Context *ctx) {
    static __thread struct {
        Context *context;
        Stream *stream;
    } mine[2 * MAX_DEVICES];
    for (size_t i = 0; i < COUNT_OF(mine); i++) {
        if (mine[i].context == ctx) return mine[i].stream;
        if (mine[i].context) continue;
        mine[i].context = ctx;
        return mine[i].stream = new_stream(ctx, 0, 0);
    }
    return 0;
}

static Stream *stream_of(void *handle, Context *ctx) { /* 0, 1 legacy, 2 per thread, or one that was created */
    if (!handle) handle = (void *)(per_thread_default ? 2ul : 1ul);
    if ((u64)handle == 1) return ctx ? ctx->legacy : 0;
    if ((u64)handle == 2) return ctx ? stream_of_thread(ctx) : 0;
    return valid(handle) ? ((Handle *)handle)->stream : 0;
}

static Handle *destroyed; /* handles that may be given out again */

static Handle *handle_for(Stream *stream) {
    Handle *handle = options.reuse_streams ? destroyed : 0;
    if (handle) destroyed = handle->next;
    else handle = new_handle(sizeof *handle);
    handle->stream = stream;
    return handle;
}
