/* Allocations, pools, page protection.
 *
 * Each device has a part of one range of addresses.  Each allocation has pages of its own, ends where they end, and the
 * page behind is never mapped, so reading or writing beyond it faults; no address is used twice.  Device memory can be
 * touched only while an operation is being done, host and managed memory only as far as queued operations leave it. */

#define CANARY 0xC5         /* around an allocation */
#define FILL 0xCB           /* new memory */
#define RESERVE (2ul << 20) /* what pools take from the device at a time */

static uintptr_t arenas; /* one for each device, one for managed and one for host memory */
static size_t arena_size;
static uintptr_t arena_top[MAX_DEVICES + 2];
static u64 taken[MAX_DEVICES]; /* bytes of each device's memory */

static struct { /* sorted by address */
    Allocation **item;
    size_t n, room;
} live;
static Allocation **freed; /* for messages about use after free */
static size_t n_freed, freed_room;
static struct { /* freed while there was work that may use it */
    Allocation *allocation;
    u64 sequence;
} *zombies;
static size_t n_zombies, zombies_room;
static Allocation *leaving; /* freed in the order of streams that have not got there: what comes before may use it */

#define GROW(array, n, room) \
    if ((n) == (room)) array = realloc(array, (room = room ? 2 * room : 64) * sizeof *array)

/* --------------------------------------------------------------------------------------------------------- look-ups */
static size_t live_position(uintptr_t p) { /* of the first allocation that starts after p */
    size_t low = 0, high = live.n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (live.item[middle]->base <= p) low = middle + 1;
        else high = middle;
    }
    return low;
}

static Allocation *find(u64 p) {
    size_t i = live_position(p);
    if (!i) return 0;
    Allocation *a = live.item[i - 1];
    return p < a->base + (a->size ? a->size : 1) ? a : 0;
}

static Allocation *find_range(u64 p, size_t bytes) {
    Allocation *a = find(p);
    return a && p + bytes <= a->base + a->size ? a : 0;
}

static Allocation *find_mapped(uintptr_t p) { /* whose pages p is in */
    size_t i = live_position(p);
    for (size_t k = i ? i - 1 : 0; k <= i && k < live.n; k++)
        if (p >= live.item[k]->map && p < live.item[k]->map + live.item[k]->map_size) return live.item[k];
    for (size_t k = 0; k < n_zombies; k++) {
        Allocation *a = zombies[k].allocation;
        if (p >= a->map && p < a->map + a->map_size) return a;
    }
    for (Allocation *a = leaving; a; a = a->next_leaving)
        if (p >= a->map && p < a->map + a->map_size) return a;
    return 0;
}

static void insert(Allocation *a) {
    GROW(live.item, live.n, live.room);
    size_t i = live_position(a->base);
    memmove(live.item + i + 1, live.item + i, (live.n++ - i) * sizeof *live.item);
    live.item[i] = a;
}

static void forget(Allocation *a) {
    size_t i = live_position(a->base);
    if (i && live.item[i - 1] == a) memmove(live.item + i - 1, live.item + i, (live.n-- - i) * sizeof *live.item);
}

static const char *describe(uintptr_t p) {
    static char text[200];
    size_t i = live_position(p);
    Allocation *a = i ? live.item[i - 1] : 0;
    if (a && a->kind < REGISTERED_MEMORY && p < a->map + a->map_size + PAGE) {
        const char *format = a->alive ? "%ld bytes past the start of allocation #%lu of %zu bytes"
                                      : "%ld bytes into stream-ordered allocation #%lu of %zu bytes, not yet allocated"
                                        " in stream order";
        snprintf(text, sizeof text, format, (long)(p - a->base), a->id, a->size);
        return text;
    }
    for (i = n_freed; i--;) {
        a = freed[i];
        if (p < a->map || p >= a->map + a->map_size + PAGE) continue;
        snprintf(text, sizeof text, "in allocation #%lu of %zu bytes, already freed", a->id, a->size);
        return text;
    }
    int inside = arenas && p >= arenas && p - arenas < arena_size * (options.devices + 2);
    return inside ? "in device memory never allocated" : "not device memory";
}

/* ------------------------------------------------------------------------------------------------------- protection */
static void protect(Allocation *a) { /* as the options and the queued operations want it */
    if (a->kind >= REGISTERED_MEMORY || a->unmapped || !a->alive) return;
    int access = PROT_READ | PROT_WRITE;
    if (options.protect && !a->opened) {
        if (a->kind == DEVICE_MEMORY || a->writers) access = PROT_NONE;
        else if (a->readers) access = PROT_READ;
    }
    mprotect((void *)a->map, a->map_size, access);
}

static Allocation **opened;
static size_t n_opened, opened_room;

static int open_for_operation(Allocation *a) { /* the operation that is being done may use it; 0 if it could already */
    if (!a || a->opened || !a->alive || a->kind >= REGISTERED_MEMORY) return 0;
    if (a->kind != DEVICE_MEMORY && !a->readers && !a->writers) return 0;
    GROW(opened, n_opened, opened_room);
    opened[n_opened++] = a;
    a->opened = 1;
    protect(a);
    return 1;
}

static void close_opened(void) {
    while (n_opened) {
        Allocation *a = opened[--n_opened];
        a->opened = 0;
        protect(a);
    }
}

/* ------------------------------------------------------------------------------------------ allocations come and go */
static void arm(Allocation *a) { /* make it usable and fill it */
    a->alive = 1;
    if (a->unmapped) return;
    mprotect((void *)a->map, a->map_size, PROT_READ | PROT_WRITE);
    a->poisoned = options.poison;
    if (a->poisoned) {
        memset((void *)a->map, CANARY, a->base - a->map);
        memset((void *)a->base, FILL, a->size);
        memset((void *)(a->base + a->size), CANARY, a->map + a->map_size - a->base - a->size);
    }
    a->opened = 0;
    protect(a);
}

static void check_canary(Allocation *a) {
    unsigned char *byte = (unsigned char *)a->map;
    size_t start = a->base - a->map;
    for (size_t i = 0; i < a->map_size; i++) {
        if (i == start) i += a->size;
        if (i >= a->map_size || byte[i] == CANARY) continue;
        stats.overruns++;
        say("allocation #%lu of %zu bytes: the byte %ld bytes from its start was overwritten", a->id, a->size,
            (long)i - (long)start);
        return;
    }
}

static void disarm(Allocation *a) { /* its contents go away */
    if (!a->alive) return;
    if (!a->unmapped) {
        mprotect((void *)a->map, a->map_size, PROT_READ | PROT_WRITE);
        if (a->poisoned) check_canary(a);
        madvise((void *)a->map, a->map_size, MADV_DONTNEED);
        mprotect((void *)a->map, a->map_size, PROT_NONE);
    }
    a->alive = 0;
}

static void release(Allocation *a) { /* it is in no list any more */
    for (Allocation **p = &leaving; *p; p = &(*p)->next_leaving)
        if (*p == a) {
            *p = a->next_leaving;
            break;
        }
    if (a->kind >= REGISTERED_MEMORY) return;
    disarm(a);
    GROW(freed, n_freed, freed_room);
    freed[n_freed++] = a;
}

static int arena_of(Allocation *a) {
    return a->kind == DEVICE_MEMORY ? a->device : options.devices + (a->kind == HOST_MEMORY);
}

static int open_arenas(void) {
    int n = options.devices + 2;
    for (size_t size = 1ul << 42; !arenas && size >= 1ul << 34; size >>= 1) {
        void *p = mmap(0, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED) continue;
        arenas = (uintptr_t)p;
        arena_size = size / n & -PAGE;
        for (int i = 0; i < n; i++) arena_top[i] = arenas + i * arena_size;
    }
    return arenas != 0;
}

static int place(Allocation *a) { /* give it addresses: its last byte is before the end of a 256-byte unit and a page */
    int arena = arena_of(a);
    size_t units = (a->size + 255) & ~255ul, pages = (units + PAGE - 1) & -PAGE;
    if (!open_arenas() || pages + PAGE > arenas + (arena + 1) * arena_size - arena_top[arena]) return 0;
    a->map = arena_top[arena];
    a->map_size = pages;
    a->base = a->map + pages - units;
    arena_top[arena] += pages + PAGE;
    return 1;
}

static void count_in(Allocation *a) {
    if (a->kind == HOST_MEMORY) {
        stats.host_live++;
        return;
    }
    stats.live++;
    stats.bytes += a->size;
    if (stats.bytes > stats.peak) stats.peak = stats.bytes;
    if (!a->pool) taken[a->device] += a->size;
}

static void count_out(Allocation *a) {
    stats.frees++;
    if (a->kind == HOST_MEMORY) {
        stats.host_live--;
        return;
    }
    stats.live--;
    stats.bytes -= a->size;
    if (!a->pool) taken[a->device] -= a->size;
}

/* ------------------------------------------------------------------------------------------------------------ pools */
enum { P_THRESHOLD = 4, P_RESERVED, P_RESERVED_HIGH, P_USED, P_USED_HIGH }; /* attributes */

static void reserve(Pool *pool, u64 bytes) { /* have this much of the device's memory */
    if (pool->device >= 0) taken[pool->device] += bytes - pool->reserved;
    pool->reserved = bytes;
    if (bytes > pool->attributes[P_RESERVED_HIGH]) pool->attributes[P_RESERVED_HIGH] = bytes;
}

static void trim(Pool *pool, u64 keep) {
    u64 least = (pool->held + RESERVE - 1) & -RESERVE;
    if (keep < least) keep = least;
    if (pool->reserved > keep) reserve(pool, keep);
}

static void trim_at_wait(void) { /* a wait gives memory back, above each pool's release threshold */
    for (Pool *pool = pools; pool; pool = pool->next) trim(pool, pool->attributes[P_THRESHOLD]);
}

static int take_from_pool(Pool *pool, u64 bytes, Stream *stream) {
    u64 freed = stream->freed_to == pool ? stream->freed : 0, again = freed < bytes ? freed : bytes;
    u64 held = pool->held + bytes - again;
    if (held > pool->reserved) {
        u64 wanted = (held + RESERVE - 1) & -RESERVE;
        if (pool->device >= 0 && taken[pool->device] + wanted - pool->reserved > options.memory) return 0;
        reserve(pool, wanted);
    }
    stream->freed -= again;
    pool->held = held;
    pool->used += bytes;
    if (pool->used > pool->attributes[P_USED_HIGH]) pool->attributes[P_USED_HIGH] = pool->used;
    return 1;
}

static void free_to_pool(Pool *pool, u64 bytes, Stream *stream) { /* when the free is submitted, */
    pool->used -= bytes;
    if (stream->freed_to != pool && stream->freed) return;
    stream->freed_to = pool;
    stream->freed += bytes;
}

static void back_in_pool(Pool *pool, u64 bytes, Stream *stream) { /* and when it is done */
    u64 freed = stream->freed_to == pool ? stream->freed : bytes;
    if (freed > bytes) freed = bytes;
    if (stream->freed_to == pool) stream->freed -= freed;
    pool->held -= freed;
}

/* ------------------------------------------------------------------------------------------------------- allocating */
static u64 attempts, fail_from, fail_to; /* on purpose: the attempts from fail_from on, before fail_to */

enum { NOW, IN_STREAM_ORDER, IN_GRAPH }; /* when it becomes usable */

static Allocation *allocate(Context *ctx, int kind, size_t size, int when, Pool *pool, Stream *stream) {
    stats.allocs++;
    if (++attempts >= fail_from && attempts < fail_to) return 0;
    if (!pool && kind != HOST_MEMORY && taken[ctx->device] + size > options.memory) return 0;
    Allocation *a = calloc(1, sizeof *a);
    *a = (Allocation){.kind = kind, .device = ctx->device, .context = ctx, .size = size, .pool = pool};
    a->unmapped = options.idle;
    if (!place(a) || (pool && !take_from_pool(pool, size, stream))) {
        free(a);
        return 0;
    }
    a->id = ++last_id;
    if (when == NOW) arm(a);
    insert(a);
    if (when != IN_GRAPH) count_in(a);
    return a;
}
