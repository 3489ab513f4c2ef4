/* The driver API: allocation, pointer attributes, pools, copies, fills. */

API CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
    CONTEXT;
    *total = options.memory;
    *free_bytes = options.memory - taken[ctx->device];
    return SUCCESS;
}

static CUresult allocate_now(u64 *p, Context *ctx, int kind, size_t bytes, u32 flags) {
    TRY(unsafe_call());
    if (!bytes || !p) return INVALID_VALUE;
    Allocation *a = allocate(ctx, kind, bytes, NOW, 0, 0);
    if (!a) return OUT_OF_MEMORY;
    a->flags = flags;
    *p = a->base;
    return SUCCESS;
}

API CUresult cuMemAlloc_v2(CUdeviceptr *p, size_t bytes) {
    CONTEXT;
    return allocate_now(p, ctx, DEVICE_MEMORY, bytes, 0);
}

API CUresult cuMemAllocManaged(CUdeviceptr *p, size_t bytes, u32 flags) { /* 1 all, 2 host, 4 single stream */
    CONTEXT;
    if (flags != 1 && flags != 2 && flags != 4) return INVALID_VALUE;
    return allocate_now(p, ctx, MANAGED_MEMORY, bytes, flags);
}

API CUresult cuMemHostAlloc(void **p, size_t bytes, u32 flags) { /* 1 portable, 2 mapped, 4 write-combined */
    CONTEXT;
    if (flags > 7) return INVALID_VALUE;
    return allocate_now((u64 *)p, ctx, HOST_MEMORY, bytes, flags);
}

API CUresult cuMemAllocHost_v2(void **p, size_t bytes) { return cuMemHostAlloc(p, bytes, 0); }

API CUresult cuMemFree_v2(CUdeviceptr p) {
    ENTER;
    if (!p) return SUCCESS;
    TRY(unsafe_call());
    Allocation *a = find(p);
    if (!a || a->base != p || (a->kind != DEVICE_MEMORY && a->kind != MANAGED_MEMORY)) {
        say("cuMemFree(%#lx): %s", p, describe(p));
        return INVALID_VALUE;
    }
    if (a->graph) { /* the next launch allocates it again */
        if (!a->outstanding) return INVALID_VALUE;
        a->outstanding = 0;
        wait_for_all(0);
        if (a->alive) {
            disarm(a);
            count_out(a);
        }
        return SUCCESS;
    }
    forget(a);
    count_out(a);
    if (a->pool) {
        a->pool->used -= a->size;
        a->pool->held -= a->size;
    }
    release_later(a);
    return SUCCESS;
}

API CUresult cuMemFreeHost(void *p) {
    ENTER;
    if (!p) return SUCCESS;
    TRY(unsafe_call());
    Allocation *a = find((u64)p);
    if (!a || a->base != (u64)p || a->kind != HOST_MEMORY || a->pool) {
        say("cuMemFreeHost(%p): %s", p, describe((u64)p));
        return INVALID_VALUE;
    }
    forget(a);
    count_out(a);
    release_later(a);
    return SUCCESS;
}

static Allocation *foreign_memory(Context *ctx, int kind, u64 base, size_t size, u32 flags) {
    Allocation *a = calloc(1, sizeof *a);
    *a = (Allocation){.kind = kind, .base = base, .size = size, .map = base, .map_size = size, .flags = flags};
    a->device = ctx->device;
    a->context = ctx;
    a->id = ++last_id;
    a->alive = 1;
    insert(a);
    return a;
}

API CUresult cuMemHostRegister_v2(void *p, size_t bytes, u32 flags) {
    CONTEXT;
    TRY(unsafe_call());
    if (!p || !bytes) return INVALID_VALUE;
    size_t i = live_position((u64)p + bytes - 1);
    Allocation *a = i ? live.item[i - 1] : 0;
    if (a && a->base + a->size > (u64)p)
        return a->kind == DEVICE_MEMORY ? INVALID_VALUE : HOST_MEMORY_ALREADY_REGISTERED;
    foreign_memory(ctx, REGISTERED_MEMORY, (u64)p, bytes, flags);
    return SUCCESS;
}

API CUresult cuMemHostUnregister(void *p) {
    ENTER;
    TRY(unsafe_call());
    Allocation *a = find((u64)p);
    if (!a || a->kind != REGISTERED_MEMORY || a->base != (u64)p) return HOST_MEMORY_NOT_REGISTERED;
    forget(a);
    free(a);
    return SUCCESS;
}

API CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *device_pointer, void *p, u32 flags) {
    CONTEXT;
    Allocation *a = find((u64)p);
    if (flags || !a || (a->kind != HOST_MEMORY && a->kind != REGISTERED_MEMORY)) return INVALID_VALUE;
    *device_pointer = (u64)p;
    return SUCCESS;
}

API CUresult cuMemHostGetFlags(u32 *flags, void *p) {
    CONTEXT;
    Allocation *a = find((u64)p);
    if (!a || a->kind != HOST_MEMORY) return INVALID_VALUE;
    *flags = a->flags;
    return SUCCESS;
}

API CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr p) {
    CONTEXT;
    Allocation *a = find(p);
    if (!a) return NOT_FOUND;
    if (base) *base = a->base;
    if (size) *size = a->size;
    return SUCCESS;
}

/* ----------------------------------------------------------------------------------------------- pointer attributes */
/* clang-format off */
enum { A_CONTEXT = 1, A_MEMORY_TYPE, A_DEVICE_POINTER, A_HOST_POINTER, A_SYNC_MEMOPS = 6, A_BUFFER_ID, A_IS_MANAGED,
       A_DEVICE_ORDINAL, A_IS_LEGACY_IPC, A_RANGE_START, A_RANGE_SIZE, A_MAPPED, A_HANDLE_TYPES, A_GPU_DIRECT,
       A_ACCESS_FLAGS, A_POOL, A_MAPPING_SIZE, A_MAPPING_BASE, A_BLOCK_ID, A_DECOMPRESS };
/* clang-format on */

static int attribute_size(int attribute) {
    static const char four[A_DECOMPRESS + 1] = {[A_MEMORY_TYPE] = 4,    [A_SYNC_MEMOPS] = 1,   [A_IS_MANAGED] = 1,
                                                [A_DEVICE_ORDINAL] = 4, [A_IS_LEGACY_IPC] = 1, [A_MAPPED] = 1,
                                                [A_GPU_DIRECT] = 1,     [A_ACCESS_FLAGS] = 4,  [A_DECOMPRESS] = 1};
    return four[attribute] ? four[attribute] : 8;
}

static CUresult pointer_attribute(void *out, int attribute, u64 p) {
    Allocation *a = find(p);
    if (attribute < A_CONTEXT || attribute > A_DECOMPRESS || attribute == 5) return INVALID_VALUE;
    memset(out, 0, attribute_size(attribute));
    if (attribute == A_DEVICE_ORDINAL) *(int *)out = -2; /* for what CUDA does not know */
    if (!a) return INVALID_VALUE;
    int on_device = a->kind == DEVICE_MEMORY || a->kind == MODULE_MEMORY;
    int host = a->kind == HOST_MEMORY || a->kind == REGISTERED_MEMORY;
    u64 value = 0;
    switch (attribute) {
    case A_CONTEXT: value = (u64)a->context; break;
    case A_MEMORY_TYPE: value = host ? 1 : 2; break;
    case A_DEVICE_POINTER: value = p; break;
    case A_HOST_POINTER:
        if (on_device) return INVALID_VALUE;
        value = p;
        break;
    case A_BUFFER_ID:
    case A_BLOCK_ID: value = a->id; break;
    case A_IS_MANAGED: value = a->kind == MANAGED_MEMORY; break;
    case A_DEVICE_ORDINAL: value = a->device; break;
    case A_RANGE_START: value = a->base; break;
    case A_RANGE_SIZE: value = a->size; break;
    case A_MAPPED: value = 1; break;
    case A_ACCESS_FLAGS: value = 3; break;
    case A_POOL: value = (u64)a->pool; break;
    case A_MAPPING_BASE: value = a->map; break;
    case A_MAPPING_SIZE: value = a->map_size; break;
    }
    memcpy(out, &value, attribute_size(attribute));
    return SUCCESS;
}

API CUresult cuPointerGetAttribute(void *out, int attribute, CUdeviceptr p) {
    CONTEXT;
    return pointer_attribute(out, attribute, p);
}

API CUresult cuPointerGetAttributes(u32 n, int *attributes, void **out, CUdeviceptr p) {
    CONTEXT; /* what is not known gives zeros, not an error */
    for (u32 i = 0; i < n; i++) pointer_attribute(out[i], attributes[i], p);
    return SUCCESS;
}

/* ------------------------------------------------------------------------------------------ managed memory's advice */
typedef struct Location {
    int type, id; /* type 1: a device */
} Location;

static CUresult managed_range(u64 p, size_t bytes) {
    Allocation *a = find_range(p, bytes);
    return a && a->kind == MANAGED_MEMORY ? SUCCESS : INVALID_VALUE;
}

API CUresult cuMemAdvise_v2(CUdeviceptr p, size_t bytes, int advice, Location location) {
    CONTEXT;
    return managed_range(p, bytes);
}

API CUresult cuMemPrefetchAsync_v2(CUdeviceptr p, size_t bytes, Location location, u32 flags, void *handle) {
    CONTEXT;
    Stream *stream;
    TRY(stream_for_work(&stream, handle, ctx));
    return managed_range(p, bytes);
}

/* ------------------------------------------------------------------------------------------------------------ pools */
static Pool *new_pool(int device, int created) {
    Pool *pool = new_handle(sizeof *pool);
    *pool = (Pool){.device = device, .created = created, .next = pools};
    for (int i = 1; i < P_THRESHOLD; i++) pool->attributes[i] = 1; /* memory is reused in all three ways */
    return pools = pool;
}

static Pool *default_pool(int device) {
    if (!default_pools[device]) default_pools[device] = new_pool(device, 0);
    return default_pools[device];
}

static Pool *current_pool(int device) { return current_pools[device] ? current_pools[device] : default_pool(device); }

#define POOL \
    if (!valid(pool) || pool->dead) return INVALID_VALUE

API CUresult cuDeviceGetDefaultMemPool(Pool **pool, int device) {
    ENTER;
    DEVICE(device);
    *pool = default_pool(device);
    return SUCCESS;
}

API CUresult cuDeviceGetMemPool(Pool **pool, int device) {
    ENTER;
    DEVICE(device);
    *pool = current_pool(device);
    return SUCCESS;
}

API CUresult cuDeviceSetMemPool(int device, Pool *pool) {
    ENTER;
    DEVICE(device);
    POOL;
    if (pool->device != device) return INVALID_VALUE;
    current_pools[device] = pool;
    return SUCCESS;
}

typedef struct PoolProperties {
    int allocation_type, handle_types;
    Location location;
    void *security;
    size_t most;
    char reserved[56];
} PoolProperties;

API CUresult cuMemPoolCreate(Pool **pool, const PoolProperties *properties) {
    ENTER;
    Location where = properties->location;
    if (properties->allocation_type != 1) return INVALID_VALUE;
    if (properties->handle_types) return NOT_SUPPORTED;
    if (where.type == 1 && (where.id < 0 || where.id >= options.devices)) return INVALID_VALUE;
    *pool = new_pool(where.type == 1 ? where.id : -1, 1);
    stats.pools++;
    return SUCCESS;
}

API CUresult cuMemPoolDestroy(Pool *pool) { /* its memory goes when the last allocation is freed */
    ENTER;
    POOL;
    if (!pool->created) return INVALID_VALUE;
    for (int i = 0; i < options.devices; i++)
        if (current_pools[i] == pool) current_pools[i] = 0;
    pool->dead = 1;
    pool->attributes[P_THRESHOLD] = 0;
    trim(pool, 0);
    stats.pools--;
    return SUCCESS;
}

API CUresult cuMemPoolSetAttribute(Pool *pool, int attribute, void *value) {
    ENTER;
    POOL;
    if (attribute < 1 || attribute > P_USED_HIGH || attribute == P_RESERVED || attribute == P_USED)
        return INVALID_VALUE;
    u64 wanted = attribute < P_THRESHOLD ? *(u32 *)value : *(u64 *)value;
    if (attribute > P_THRESHOLD && wanted) return INVALID_VALUE; /* high-water marks can only be reset */
    if (attribute == P_RESERVED_HIGH) wanted = pool->reserved;
    if (attribute == P_USED_HIGH) wanted = pool->used;
    pool->attributes[attribute] = wanted;
    return SUCCESS;
}

API CUresult cuMemPoolGetAttribute(Pool *pool, int attribute, void *value) {
    ENTER;
    POOL;
    if (attribute < 1 || attribute > P_USED_HIGH) return INVALID_VALUE;
    pool->attributes[P_RESERVED] = pool->reserved;
    pool->attributes[P_USED] = pool->used;
    if (attribute < P_THRESHOLD) *(u32 *)value = pool->attributes[attribute];
    else *(u64 *)value = pool->attributes[attribute];
    return SUCCESS;
}

API CUresult cuMemPoolTrimTo(Pool *pool, size_t keep) {
    ENTER;
    POOL;
    trim(pool, keep);
    return SUCCESS;
}

typedef struct Access {
    Location location;
    u32 flags; /* 0 none, 3 read and write */
} Access;

API CUresult cuMemPoolSetAccess(Pool *pool, const Access *access, size_t n) {
    ENTER;
    POOL;
    for (size_t i = 0; i < n; i++) {
        int device = access[i].location.id;
        if (access[i].location.type != 1 || device < 0 || device >= options.devices) return INVALID_VALUE;
        if (device == pool->device && !access[i].flags) return INVALID_VALUE;
        if (access[i].flags) pool->access |= 1u << device;
        else pool->access &= ~(1u << device);
    }
    return SUCCESS;
}

API CUresult cuMemPoolGetAccess(u32 *flags, Pool *pool, Location *location) {
    ENTER;
    POOL;
    *flags = location->id == pool->device || pool->access >> location->id & 1 ? 3 : 0;
    return SUCCESS;
}

static CUresult allocate_in_stream(CUdeviceptr *p, size_t bytes, Pool *pool, Stream *stream) {
    *p = 0;
    if (!bytes) return INVALID_VALUE;
    Context *owner = stream->context; /* the pool's device counts, not the stream's */
    if (pool->device >= 0 && pool->device != owner->device) owner = primary_context(pool->device);
    Graph *graph = stream->capture ? stream->capture->graph : 0;
    int kind = pool->device < 0 ? HOST_MEMORY : DEVICE_MEMORY;
    Allocation *a = allocate(owner, kind, bytes, graph ? IN_GRAPH : IN_STREAM_ORDER, graph ? 0 : pool, stream);
    if (!a) return OUT_OF_MEMORY;
    a->graph = graph;
    *p = a->base;
    Op *op = new_op(ALLOCATE);
    op->allocation = a;
    submit(op, stream);
    return SUCCESS;
}

API CUresult cuMemAllocAsync(CUdeviceptr *p, size_t bytes, void *handle) {
    CONTEXT;
    Stream *stream;
    TRY(stream_for_work(&stream, handle, ctx));
    return allocate_in_stream(p, bytes, current_pool(stream->context->device), stream);
}

API CUresult cuMemAllocFromPoolAsync(CUdeviceptr *p, size_t bytes, Pool *pool, void *handle) {
    CONTEXT;
    Stream *stream;
    TRY(stream_for_work(&stream, handle, ctx));
    POOL;
    return allocate_in_stream(p, bytes, pool, stream);
}

API CUresult cuMemFreeAsync(CUdeviceptr p, void *handle) {
    CONTEXT;
    Stream *stream;
    TRY(stream_for_work(&stream, handle, ctx));
    if (!p) return SUCCESS;
    Allocation *a = find(p);
    if (!a || a->base != p || a->kind > HOST_MEMORY) {
        say("cuMemFreeAsync(%#lx): %s", p, describe(p));
        return INVALID_VALUE;
    }
    int wrong = stream->capture ? !a->graph : a->graph && !a->outstanding; /* a graph frees only graphs' memory */
    if (wrong) return INVALID_VALUE;
    if (a->pool) free_to_pool(a->pool, a->size, stream);
    if (!a->graph) {
        forget(a);
        count_out(a);
        a->next_leaving = leaving;
        leaving = a;
    } else if (!stream->capture) a->outstanding = 0;
    Op *op = new_op(FREE);
    op->allocation = a;
    submit(op, stream);
    return SUCCESS;
}

/* ----------------------------------------------------------------------------------------------------------- copies */
enum { ON_DEVICE = 1, ANYWHERE };

static CUresult check_copy_range(u64 p, size_t bytes, int where, const char *what) {
    if (find_range(p, bytes) || (where == ANYWHERE && !find(p))) return SUCCESS;
    say("copy %s %#lx, %zu bytes: %s", what, p, bytes, describe(p));
    return INVALID_VALUE;
}

static u64 *copies_between(Allocation *target, Allocation *source) {
    int from_host = !source || source->kind == HOST_MEMORY || source->kind == REGISTERED_MEMORY;
    int to_host = !target || target->kind == HOST_MEMORY || target->kind == REGISTERED_MEMORY;
    if (from_host) return to_host ? &stats.h2h : &stats.h2d;
    if (to_host) return &stats.d2h;
    return source->device != target->device ? &stats.p2p : &stats.d2d;
}

/* A synchronous copy (async 0) goes to the legacy stream. */
static CUresult copy(Context *ctx, u64 to, int to_where, u64 from, int from_where, size_t bytes, int async,
                     void *handle) {
    Stream *stream;
    TRY(stream_for_work(&stream, async ? handle : 0, ctx));
    if (!async) TRY(unsafe_call());
    if (!bytes) return SUCCESS;
    TRY(check_copy_range(to, bytes, to_where, "to"));
    TRY(check_copy_range(from, bytes, from_where, "from"));
    Allocation *target = find(to), *source = find(from);
    Op *op = new_op(COPY);
    op->target = to;
    op->source = from;
    op->bytes = bytes;
    op->count = copies_between(target, source);
    if (stream->capture) { /* a graph looks at pageable memory when it runs */
        submit(op, stream);
        return SUCCESS;
    }
    if (!source && !options.idle) {
        op->staged = malloc(bytes);
        memcpy(op->staged, (void *)from, bytes);
    }
    int waits = !target; /* pageable memory is written before the call returns */
    if (!async) waits |= source ? op->count != &stats.d2d && op->count != &stats.p2p : !options.lazy_htod;
    submit(op, stream);
    if (waits) wait_for(stream, stream->submitted);
    return waits ? stream->context->error : SUCCESS;
}

API CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) {
    CONTEXT;
    return copy(ctx, to, ON_DEVICE, (u64)from, ANYWHERE, bytes, 0, 0);
}

API CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) {
    CONTEXT;
    return copy(ctx, (u64)to, ANYWHERE, from, ON_DEVICE, bytes, 0, 0);
}

API CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
    CONTEXT;
    return copy(ctx, to, ON_DEVICE, from, ON_DEVICE, bytes, 0, 0);
}

API CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
    CONTEXT;
    return copy(ctx, to, ANYWHERE, from, ANYWHERE, bytes, 0, 0);
}

API CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, void *stream) {
    CONTEXT;
    return copy(ctx, to, ON_DEVICE, (u64)from, ANYWHERE, bytes, 1, stream);
}

API CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, void *stream) {
    CONTEXT;
    return copy(ctx, (u64)to, ANYWHERE, from, ON_DEVICE, bytes, 1, stream);
}

API CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, void *stream) {
    CONTEXT;
    return copy(ctx, to, ON_DEVICE, from, ON_DEVICE, bytes, 1, stream);
}

API CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, void *stream) {
    CONTEXT;
    return copy(ctx, to, ANYWHERE, from, ANYWHERE, bytes, 1, stream);
}

static CUresult peers(u64 to, Context *to_context, u64 from, Context *from_context) {
    if (!valid(to_context) || !valid(from_context)) return INVALID_CONTEXT;
    if (to_context->dead || from_context->dead) return CONTEXT_IS_DESTROYED;
    Allocation *target = find(to), *source = find(from);
    if (target && target->kind == DEVICE_MEMORY && target->device != to_context->device) return INVALID_VALUE;
    if (source && source->kind == DEVICE_MEMORY && source->device != from_context->device) return INVALID_VALUE;
    return SUCCESS;
}

API CUresult cuMemcpyPeer(CUdeviceptr to, Context *tc, CUdeviceptr from, Context *fc, size_t bytes) {
    CONTEXT;
    TRY(peers(to, tc, from, fc));
    return copy(ctx, to, ON_DEVICE, from, ON_DEVICE, bytes, 0, 0);
}

API CUresult cuMemcpyPeerAsync(CUdeviceptr to, Context *tc, CUdeviceptr from, Context *fc, size_t bytes, void *stream) {
    CONTEXT;
    TRY(peers(to, tc, from, fc));
    return copy(ctx, to, ON_DEVICE, from, ON_DEVICE, bytes, 1, stream);
}

/* ------------------------------------------------------------------------------------------------------------ fills */
static CUresult fill(Context *ctx, u64 p, u32 unit, u32 value, size_t count, int async, void *handle) {
    Stream *stream;
    size_t bytes = count * unit;
    TRY(stream_for_work(&stream, async ? handle : 0, ctx));
    if (!async) TRY(unsafe_call());
    if (!bytes) return SUCCESS;
    Allocation *a = find_range(p, bytes);
    if (!a || p % unit) {
        say("memset of %zu bytes at %#lx: %s", bytes, p, describe(p));
        return INVALID_VALUE;
    }
    Op *op = new_op(SET);
    op->target = p;
    op->bytes = bytes;
    op->unit = unit;
    op->value = value;
    submit(op, stream);
    if (!async && a->kind != DEVICE_MEMORY && a->kind != MODULE_MEMORY) wait_for(stream, stream->submitted);
    return async ? SUCCESS : stream->context->error;
}

API CUresult cuMemsetD8_v2(CUdeviceptr p, unsigned char value, size_t n) {
    CONTEXT;
    return fill(ctx, p, 1, value, n, 0, 0);
}

API CUresult cuMemsetD16_v2(CUdeviceptr p, unsigned short value, size_t n) {
    CONTEXT;
    return fill(ctx, p, 2, value, n, 0, 0);
}

API CUresult cuMemsetD32_v2(CUdeviceptr p, u32 value, size_t n) {
    CONTEXT;
    return fill(ctx, p, 4, value, n, 0, 0);
}

API CUresult cuMemsetD8Async(CUdeviceptr p, unsigned char value, size_t n, void *stream) {
    CONTEXT;
    return fill(ctx, p, 1, value, n, 1, stream);
}

API CUresult cuMemsetD16Async(CUdeviceptr p, unsigned short value, size_t n, void *stream) {
    CONTEXT;
    return fill(ctx, p, 2, value, n, 1, stream);
}

API CUresult cuMemsetD32Async(CUdeviceptr p, u32 value, size_t n, void *stream) {
    CONTEXT;
    return fill(ctx, p, 4, value, n, 1, stream);
}
