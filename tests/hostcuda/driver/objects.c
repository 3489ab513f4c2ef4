/* Contexts, streams, events, allocations, pools: what they are, and which handles are valid. */

typedef struct Dep { /* the first `index` operations of a stream */
    struct Stream *stream;
    u64 index;
} Dep;

typedef struct Context {
    int device, primary, dead, references;
    int error;        /* sticky: what every later call returns */
    u32 flags, peers; /* peers: the devices whose memory kernels may use, one bit each */
    u64 id;
    struct Stream *legacy; /* its legacy default stream */
    struct Stream *marks;  /* where cuCtxRecordEvent records */
    Dep *waits;            /* what cuCtxWaitEvent asked of all future streams */
    int n_waits;
    struct Context *next;
} Context;

typedef struct Nodes { /* a set of a graph's nodes, by number */
    u32 *item, n;
} Nodes;

typedef struct Stream {
    Context *context;
    u32 flags; /* 1: not ordered with the legacy default stream */
    int priority, busy, dead;
    u64 id, submitted, done; /* numbers of operations */
    struct Op *head, *tail;
    struct Capture *capture;
    Nodes tips;            /* of the capture: what the next operation comes after */
    struct Pool *freed_to; /* whose memory is freed in it, by work that is not done: */
    u64 freed;             /* so many bytes of that, which later allocations in this stream may have */
    struct Stream *next;
} Stream;

typedef struct Handle { /* what the caller has for a stream; once the stream is destroyed, it is nobody's */
    Stream *stream;
    struct Handle *next;
} Handle;

typedef struct Event {
    Context *context;
    u32 flags;
    int recorded, dead;
    Dep at;      /* what it stands for */
    u64 capture; /* the id of the capture it was recorded in, or 0, and what it stands for there */
    Nodes tips;
    double time; /* in ns */
} Event;

typedef struct Pool {
    int device, created, dead; /* device -1: pinned host memory */
    u32 access;                /* the devices that may use its memory, one bit each */
    u64 attributes[16];        /* by CUmemPool_attribute, but for those that follow */
    u64 reserved, used;        /* bytes taken from the device, and of these, in allocations; */
    u64 held;                  /* the latter and freed ones whose free has not been reached in stream order */
    struct Pool *next;
} Pool;

enum { DEVICE_MEMORY = 1, MANAGED_MEMORY, HOST_MEMORY, REGISTERED_MEMORY, MODULE_MEMORY };

typedef struct Allocation {
    uintptr_t base, map;
    size_t size, map_size;
    int kind, device;
    int alive;    /* usable: stream-ordered allocations are once their stream has got there, and until it frees them */
    int poisoned; /* the bytes around it hold a pattern */
    int unmapped; /* made while nothing is executed (option idle): there is no memory */
    int opened;   /* by the operation that is being done */
    int readers, writers; /* operations that are queued and use it: counted for host and managed memory */
    int outstanding;      /* of a graph: allocated and not freed, as far as submitted */
    u32 flags;
    u64 id;
    Context *context;
    Pool *pool;
    struct Graph *graph; /* which allocates it anew with each launch */
    struct Allocation *next_leaving;
} Allocation;

/* ---------------------------------------------------------------------------------------------------- valid handles */
static struct { /* a set, with open addressing; what was valid once is never freed, so that stale handles are known */
    void **slot;
    size_t n, size;
} handles;

static size_t handle_slot(void **slots, size_t size, void *p) {
    size_t i = ((uintptr_t)p >> 4) * 0x9E3779B97F4A7C15ull % size;
    while (slots[i] && slots[i] != p) i = (i + 1) % size;
    return i;
}

static int valid(void *p) { return p && handles.size && handles.slot[handle_slot(handles.slot, handles.size, p)] == p; }

static void *new_handle(size_t bytes) {
    void *p = calloc(1, bytes);
    if (2 * ++handles.n > handles.size) {
        size_t size = handles.size ? handles.size * 2 : 1024;
        void **slots = calloc(size, sizeof *slots);
        for (size_t i = 0; i < handles.size; i++)
            if (handles.slot[i]) slots[handle_slot(slots, size, handles.slot[i])] = handles.slot[i];
        free(handles.slot);
        handles.slot = slots;
        handles.size = size;
    }
    handles.slot[handle_slot(handles.slot, handles.size, p)] = p;
    return p;
}

/* ------------------------------------------------------------------------------------------------ what there is now */
static Context *contexts, *primary_contexts[MAX_DEVICES];
static Stream *streams;
static Pool *pools, *default_pools[MAX_DEVICES], *current_pools[MAX_DEVICES];
static u64 last_id;

static __thread Context *context_stack[64];
static __thread int depth;

static Context *current(void) { return depth ? context_stack[depth - 1] : 0; }

#define CONTEXT                                 \
    ENTER;                                      \
    Context *ctx = current();                   \
    if (!ctx) return INVALID_CONTEXT;           \
    if (ctx->dead) return CONTEXT_IS_DESTROYED; \
    if (ctx->error) return ctx->error
