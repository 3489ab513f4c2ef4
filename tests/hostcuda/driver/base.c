/* Types, errors, options, counters, the lock. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <fenv.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

typedef uint64_t u64;
typedef uint32_t u32;
typedef int CUresult;
typedef u64 CUdeviceptr;

#define API __attribute__((visibility("default")))
#define COUNT_OF(array) (sizeof(array) / sizeof *(array))
#define PAGE ((size_t)4096)
#define MAX_DEVICES 16

/* ----------------------------------------------------------------------------------------------------------- errors */
#define ERRORS(X)                                                                                                   \
    X(0, SUCCESS, "no error")                                                                                       \
    X(1, INVALID_VALUE, "invalid argument")                                                                         \
    X(2, OUT_OF_MEMORY, "out of memory")                                                                            \
    X(3, NOT_INITIALIZED, "initialization error")                                                                   \
    X(4, DEINITIALIZED, "driver shutting down")                                                                     \
    X(100, NO_DEVICE, "no CUDA-capable device is detected")                                                         \
    X(101, INVALID_DEVICE, "invalid device ordinal")                                                                \
    X(200, INVALID_IMAGE, "device kernel image is invalid")                                                         \
    X(201, INVALID_CONTEXT, "invalid device context")                                                               \
    X(400, INVALID_HANDLE, "invalid resource handle")                                                               \
    X(401, ILLEGAL_STATE, "the operation cannot be performed in the present state")                                 \
    X(500, NOT_FOUND, "named symbol not found")                                                                     \
    X(600, NOT_READY, "device not ready")                                                                           \
    X(700, ILLEGAL_ADDRESS, "an illegal memory access was encountered")                                             \
    X(704, PEER_ACCESS_ALREADY_ENABLED, "peer access is already enabled")                                           \
    X(705, PEER_ACCESS_NOT_ENABLED, "peer access has not been enabled")                                             \
    X(709, CONTEXT_IS_DESTROYED, "context is destroyed")                                                            \
    X(712, HOST_MEMORY_ALREADY_REGISTERED, "part or all of the requested memory range is already mapped")           \
    X(713, HOST_MEMORY_NOT_REGISTERED, "pointer does not correspond to a registered memory region")                 \
    X(716, MISALIGNED_ADDRESS, "misaligned address")                                                                \
    X(719, LAUNCH_FAILED, "unspecified launch failure")                                                             \
    X(800, NOT_PERMITTED, "operation not permitted")                                                                \
    X(801, NOT_SUPPORTED, "operation not supported")                                                                \
    X(900, STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing")                          \
    X(901, STREAM_CAPTURE_INVALIDATED, "operation failed due to a previous error during capture")                   \
    X(902, STREAM_CAPTURE_MERGE, "operation would result in a merge of separate capture sequences")                 \
    X(903, STREAM_CAPTURE_UNMATCHED, "capture was not ended in the same stream as it began")                        \
    X(904, STREAM_CAPTURE_UNJOINED, "capturing stream has unjoined work")                                           \
    X(905, STREAM_CAPTURE_ISOLATION, "dependency created on uncaptured work in another stream")                     \
    X(906, STREAM_CAPTURE_IMPLICIT, "operation would make the legacy stream depend on a capturing blocking stream") \
    X(907, CAPTURED_EVENT, "operation not permitted on an event last recorded in a capturing stream")               \
    X(908, STREAM_CAPTURE_WRONG_THREAD, "attempt to terminate a thread-local capture sequence from another thread") \
    X(999, UNKNOWN, "unknown error")

#define ERROR_CODE(code, name, text) name = code,
enum { ERRORS(ERROR_CODE) };
#define ERROR_ROW(code, name, text) {code, "CUDA_ERROR_" #name, text},
static const struct {
    int code;
    const char *name, *text;
} errors[] = {ERRORS(ERROR_ROW)};

#define TRY(call)                  \
    do {                           \
        CUresult failed = call;    \
        if (failed) return failed; \
    } while (0)

/* ---------------------------------------------------------------------------------------------------------- options */
enum { FORWARD, REVERSE, RANDOM };               /* order of the threads of a block, and of blocks */
enum { SYNC, LAZY, NEWEST_FIRST, RANDOM_FIRST }; /* when the work in streams is done */

static struct {
    int order, async, trace, verbose, poison, protect, check_args, check_align, lazy_htod, reuse_streams, idle;
    int devices, cc, driver_version; /* these and the next do not change after loading */
    u64 memory, stack, seed;
} options;

static const struct {
    const char *name;
    int *value, initial;
} switches[] = {
    {"HOSTCUDA_TRACE", &options.trace, 0},
    {"HOSTCUDA_VERBOSE", &options.verbose, 1},
    {"HOSTCUDA_POISON", &options.poison, 1},
    {"HOSTCUDA_PROTECT", &options.protect, 1},
    {"HOSTCUDA_CHECK_ARGS", &options.check_args, 1},
    {"HOSTCUDA_CHECK_ALIGN", &options.check_align, 1},
    {"HOSTCUDA_LAZY_HTOD", &options.lazy_htod, 1},
    {"HOSTCUDA_REUSE_STREAMS", &options.reuse_streams, 0},
    {"HOSTCUDA_IDLE", &options.idle, 0},
};

static u64 number(const char *name, u64 otherwise) {
    const char *text = getenv(name);
    return text && *text ? strtoull(text, 0, 0) : otherwise;
}

static void set_seed(u64 seed) { options.seed = seed ? seed : 1; }

static u64 random_number(void) { /* xorshift */
    options.seed ^= options.seed << 13;
    options.seed ^= options.seed >> 7;
    return options.seed ^= options.seed << 17;
}

static int choice(const char *text, const char *const *names, int n) { /* which of the names; "random:7" has a seed */
    size_t length = text ? strcspn(text, ":") : 0;
    for (int i = 0; i < n; i++)
        if (length && !strncmp(text, names[i], length) && !names[i][length]) {
            if (text[length]) set_seed(strtoull(text + length + 1, 0, 0));
            return i;
        }
    return 0;
}

static const char *const order_names[] = {"forward", "reverse", "random"};
static const char *const async_names[] = {"sync", "lazy", "reverse", "random"};

static void read_order(const char *text) { options.order = choice(text, order_names, 3); }
static void read_async(const char *text) { options.async = choice(text, async_names, 4); }

__attribute__((constructor)) static void read_environment(void) {
    set_seed(number("HOSTCUDA_SEED", 1));
    read_order(getenv("HOSTCUDA_ORDER"));
    read_async(getenv("HOSTCUDA_ASYNC"));
    for (size_t i = 0; i < COUNT_OF(switches); i++) *switches[i].value = number(switches[i].name, switches[i].initial);
    options.devices = number("HOSTCUDA_DEVICES", 1);
    if (options.devices > MAX_DEVICES) options.devices = MAX_DEVICES;
    options.memory = number("HOSTCUDA_MEM_MB", 16384) << 20;
    options.stack = number("HOSTCUDA_STACK_KB", 256) << 10;
    options.cc = number("HOSTCUDA_CC", 90);
    options.driver_version = number("HOSTCUDA_DRIVER_VERSION", 13000);
}

/* --------------------------------------------------------------------------------------------------------- counters */
#define EXISTING(X) /* what there is now: reset_stats() leaves these alone */ \
    X(live) X(bytes) X(host_live) X(pools) X(streams) X(events) X(captures) X(graphs) X(modules) X(pending)
#define HAPPENED(X) /* what was done since */                                                                    \
    X(peak)                                                                                                      \
    X(allocs) X(frees) X(launches) X(threads) X(h2d) X(h2d_bytes) X(d2h) X(d2h_bytes) X(d2d) X(d2d_bytes) X(p2p) \
        X(p2p_bytes) X(h2h) X(h2h_bytes) X(memsets) X(stream_syncs) X(context_syncs) X(event_syncs) X(calls)     \
            X(overruns) X(faults)

#define FIELD(name) u64 name;
static struct {
    EXISTING(FIELD) HAPPENED(FIELD)
} stats;
#define NAME(name) #name " "
static const char stats_names[] = EXISTING(NAME) HAPPENED(NAME);

typedef struct Tally { /* a counter by name */
    const char *name;
    u64 n;
    struct Tally *next;
} Tally;
enum { CALLS, KERNELS };
static Tally *tallies[2];

static u64 *tally(int which, const char *name) {
    Tally *t = tallies[which];
    while (t && strcmp(t->name, name)) t = t->next;
    if (!t) {
        t = calloc(1, sizeof *t);
        *t = (Tally){strdup(name), 0, tallies[which]};
        tallies[which] = t;
    }
    return &t->n;
}

/* ----------------------------------------------------------------------------------------------- messages, the lock */
static char last_error[1024];

static void say(const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(last_error, sizeof last_error, format, args);
    va_end(args);
    if (options.verbose) fprintf(stderr, "hostcuda: %s\n", last_error);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER; /* an operation of a stream is done */
static int initialised, forked;
static __thread int locked;      /* by this thread */
static __thread int in_callback; /* this thread runs a host callback, which may make no driver calls */

static void take_lock(void) {
    pthread_mutex_lock(&lock);
    locked = 1;
}

static void drop_lock(void) {
    locked = 0;
    pthread_mutex_unlock(&lock);
}

static int enter(const char *function, u64 **count) {
    if (options.trace) fprintf(stderr, "hostcuda> %s\n", function);
    take_lock();
    if (!*count) *count = tally(CALLS, function);
    ++**count;
    stats.calls++;
    return 1;
}

static void leave(int *entered) {
    if (*entered) drop_lock();
}

/* Every entry point begins with one of these: LOCKED, ENTER (after cuInit), or CONTEXT (with a context; see objects.c),
 * and holds the lock until it returns. */
#define LOCKED              \
    static u64 *call_count; \
    __attribute__((cleanup(leave), unused)) int entered = enter(__func__, &call_count)
#define ENTER                                           \
    LOCKED;                                             \
    if (!initialised || forked) return NOT_INITIALIZED; \
    if (in_callback) return NOT_PERMITTED
