/* Kernels: the blocks of a grid one after the other, and the threads of each.
 *
 * Threads that never wait for each other are a loop, in the image.  Else each is a fiber, with a stack of its own, that
 * runs until it ends or comes to a barrier. */

/* What kernels read of where they are; rewriting.py and compiling.py know the offsets. */
struct Place {
    u32 thread[3], block_size[3], block[3], grid_size[3];
    u32 dynamic_shared; /* bytes */
    u32 unused;
    u64 arena, arena_size; /* the memory of the device it runs on */
};
API struct Place hostcuda_place;

#define MOST_DYNAMIC (228 * 1024)
#define GUARD 128 /* bytes behind the dynamic shared memory */
API char hostcuda_dynamic[MOST_DYNAMIC + GUARD] __attribute__((aligned(1024)));

/* ----------------------------------------------------------------------------------------------------------- fibers */
enum { RUNNING, AT_BARRIER, AT_WARP, ENDED };

typedef struct Fiber {
    void *sp;
    char *stack;
    int state, number;
    u32 thread[3];
    int kind, mode; /* of what it waits for: */
    u32 mask;       /* with which lanes */
    u64 value, argument, result;
} Fiber;

static Fiber *fibers; /* of the block that runs */
static int n_fibers, n_alive, n_waiting, n_true;
static Fiber *running;
static void *scheduler_sp;
static char **stacks;
static int n_stacks;

static struct { /* the kernel that runs */
    Image *image;
    void **parameters;
    Context *context;
    char *frame; /* stack below this is the kernel's, if its threads are a loop */
} now;

static __thread sigjmp_buf *guard; /* set while an operation is done: where to go if it fails, */
static __thread int failure;       /* and with what error */

static void __attribute__((noreturn)) fail(int error) {
    failure = error;
    siglongjmp(*guard, 1);
}

static void __attribute__((noreturn)) fail_in_kernel(int error, const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    struct Place *p = &hostcuda_place;
    stats.faults++;
    say("kernel %s, block (%u,%u,%u) thread (%u,%u,%u): %s", now.image->info->title, p->block[0], p->block[1],
        p->block[2], p->thread[0], p->thread[1], p->thread[2], text);
    fail(error);
}

/* Saves the registers that a call keeps and the stack pointer at *from, and takes up what was saved at `to`. */
void hostcuda_switch(void **from, void *to) __attribute__((visibility("hidden")));
__asm__(".text\n"
        ".globl hostcuda_switch\n"
        ".hidden hostcuda_switch\n"
        ".type hostcuda_switch, @function\n"
        "hostcuda_switch:\n"
        "    push %rbp\n    push %rbx\n    push %r12\n    push %r13\n    push %r14\n    push %r15\n"
        "    mov %rsp, (%rdi)\n"
        "    mov %rsi, %rsp\n"
        "    pop %r15\n    pop %r14\n    pop %r13\n    pop %r12\n    pop %rbx\n    pop %rbp\n"
        "    ret\n"
        ".size hostcuda_switch, .-hostcuda_switch\n");

static void stop(int state) { /* this thread, until somebody sets it running again */
    running->state = state;
    hostcuda_switch(&running->sp, scheduler_sp);
}

static char *stack_of(int i) {
    for (; n_stacks <= i; n_stacks++) {
        char *p = mmap(0, options.stack + PAGE, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
        if (p == MAP_FAILED) fail(OUT_OF_MEMORY);
        mprotect(p, PAGE, PROT_NONE);
        stacks = realloc(stacks, (n_stacks + 1) * sizeof *stacks);
        stacks[n_stacks] = p + PAGE;
    }
    return stacks[i];
}

/* ---------------------------------------------------------------------------------------------- barriers of a block */
enum { PLAIN, COUNTED, ALL, ANY };

static void open_barrier(void) {
    for (int i = 0; i < n_fibers; i++) {
        Fiber *f = fibers + i;
        if (f->state != AT_BARRIER) continue;
        f->result = f->kind == COUNTED ? n_true : f->kind == ALL ? n_true == n_waiting : n_true > 0;
        f->state = RUNNING;
    }
    n_waiting = n_true = 0;
}

API int hc_barrier(int kind, int predicate) {
    running->kind = kind;
    running->state = AT_BARRIER;
    n_true += predicate != 0;
    if (++n_waiting == n_alive) open_barrier();
    else stop(AT_BARRIER);
    return running->result;
}

/* ------------------------------------------------------------------------------------------------ warps of 32 lanes */
enum { SHUFFLE, VOTE, JOIN };

static u64 shuffled(Fiber *warp, int n, int lane) { /* the value in the low half, whether it is another's in the high */
    Fiber *f = warp + lane;
    int clamp = f->argument & 31, segment = f->argument >> 8 & 31, operand = f->argument >> 16 & 31;
    int last = (lane & segment) | (clamp & ~segment), from, inside;
    switch (f->mode) { /* idx, up, down, xor */
    case 0: from = (lane & segment) | (operand & ~segment); break;
    case 1: from = lane - operand; break;
    case 2: from = lane + operand; break;
    default: from = lane ^ operand;
    }
    inside = f->mode == 1 ? from >= last : from <= last;
    if (!inside || from < 0 || from >= n) from = lane;
    return (u32)warp[from].value | (u64)inside << 32;
}

static u64 voted(Fiber *warp, int n, int lane) { /* the ballot in the low half, whether the vote carries in the high */
    u32 present = 0, yes = 0;
    for (int i = 0; i < n; i++) {
        if (!(warp[lane].mask >> i & 1) || warp[i].state == ENDED) continue;
        present |= 1u << i;
        if (warp[i].value) yes |= 1u << i;
    }
    int carried[] = {yes == present, yes != 0, yes == present || !yes, 0}; /* all, any, uniform, ballot */
    return yes | (u64)carried[warp[lane].mode & 3] << 32;
}

static void check_warp(int number) { /* lanes whose partners have all come go on */
    int first = number & ~31, n = n_fibers - first < 32 ? n_fibers - first : 32;
    Fiber *warp = fibers + first;
    for (int lane = 0; lane < n; lane++) {
        if (warp[lane].state != AT_WARP) continue;
        u32 mask = warp[lane].mask, ready = 1;
        for (int i = 0; i < n; i++)
            if (mask >> i & 1 && warp[i].state != ENDED)
                ready &= warp[i].state == AT_WARP && warp[i].mask == mask && warp[i].kind == warp[lane].kind;
        if (!ready) continue;
        u64 results[32];
        for (int i = 0; i < n; i++)
            results[i] = warp[i].kind == SHUFFLE ? shuffled(warp, n, i) : warp[i].kind == VOTE ? voted(warp, n, i) : 0;
        for (int i = 0; i < n; i++) {
            if (!(mask >> i & 1) || warp[i].state != AT_WARP) continue;
            warp[i].result = results[i];
            warp[i].state = RUNNING;
        }
    }
}

static u64 meet_lanes(int kind, int mode, u32 mask, u64 value, u64 argument) {
    Fiber *f = running;
    f->kind = kind;
    f->mode = mode;
    f->mask = mask | 1u << (f->number & 31);
    f->value = value;
    f->argument = argument;
    f->state = AT_WARP;
    check_warp(f->number);
    if (f->state != RUNNING) stop(AT_WARP);
    return f->result;
}

API u64 hc_shuffle(u32 mask, u32 mode, u32 value, u32 operand, u32 clamp) {
    return meet_lanes(SHUFFLE, mode, mask, value, (clamp & 0x1F1F) | (operand & 31) << 16);
}
API u64 hc_vote(u32 mask, u32 mode, int predicate) { return meet_lanes(VOTE, mode, mask, predicate != 0, 0); }
API void hc_join(u32 mask) { meet_lanes(JOIN, 0, mask, 0, 0); }
API u32 hc_lane(void) {
    struct Place *p = &hostcuda_place;
    return ((p->thread[2] * p->block_size[1] + p->thread[1]) * p->block_size[0] + p->thread[0]) & 31;
}

/* ---------------------------------------------------------------------------------------------- a block, and a grid */
static void __attribute__((noreturn)) fiber_main(void) {
    now.image->thread(now.parameters);
    n_alive--;
    running->state = ENDED;
    if (n_waiting && n_waiting == n_alive) open_barrier();
    check_warp(running->number);
    stop(ENDED);
    __builtin_unreachable();
}

static void start_fiber(Fiber *f, int i, const u32 *size) {
    *f = (Fiber){.number = i, .state = RUNNING, .stack = stack_of(i)};
    f->thread[0] = i % size[0];
    f->thread[1] = i / size[0] % size[1];
    f->thread[2] = i / (size[0] * size[1]);
    void **sp = (void **)(f->stack + options.stack);
    *--sp = 0;
    *--sp = (void *)fiber_main;
    for (int k = 0; k < 6; k++) *--sp = 0; /* what hostcuda_switch takes up */
    f->sp = sp;
}

static void order(int *numbers, int n) { /* 0 ... n-1, as the option wants them */
    for (int i = 0; i < n; i++) numbers[i] = options.order == REVERSE ? n - 1 - i : i;
    for (int i = n; options.order == RANDOM && i-- > 1;) {
        int k = random_number() % (i + 1), swapped = numbers[i];
        numbers[i] = numbers[k];
        numbers[k] = swapped;
    }
}

static void run_fibers(int n, const u32 *size) {
    static Fiber room[1024];
    int numbers[1024];
    fibers = room;
    n_fibers = n_alive = n;
    n_waiting = n_true = 0;
    for (int i = 0; i < n; i++) start_fiber(fibers + i, i, size);
    while (n_alive) {
        int progress = 0;
        order(numbers, n);
        for (int i = 0; i < n; i++) {
            running = fibers + numbers[i];
            if (running->state != RUNNING) continue;
            memcpy(hostcuda_place.thread, running->thread, sizeof running->thread);
            hostcuda_switch(&scheduler_sp, running->sp);
            progress = 1;
        }
        if (progress || !n_alive) continue;
        fail_in_kernel(LAUNCH_FAILED, "deadlock, %d threads wait at barriers that cannot complete", n_alive);
    }
}

static void fill_shared(void) { /* each block finds it uninitialised */
    u32 bytes = hostcuda_place.dynamic_shared;
    memset(now.image->shared, FILL, now.image->shared_size);
    memset(hostcuda_dynamic, FILL, bytes);
    memset(hostcuda_dynamic + bytes, CANARY, GUARD);
}

static void check_shared(void) {
    u32 bytes = hostcuda_place.dynamic_shared;
    for (int i = 0; i < GUARD; i++)
        if ((unsigned char)hostcuda_dynamic[bytes + i] != CANARY)
            fail_in_kernel(ILLEGAL_ADDRESS, "wrote past its %u bytes of dynamic shared memory", bytes);
}

static void run_block(u64 number, const u32 *size) {
    struct Place *p = &hostcuda_place;
    p->block[0] = number % p->grid_size[0];
    p->block[1] = number / p->grid_size[0] % p->grid_size[1];
    p->block[2] = number / ((u64)p->grid_size[0] * p->grid_size[1]);
    fill_shared();
    if (now.image->info->barriers) run_fibers(size[0] * size[1] * size[2], size);
    else now.image->block(now.parameters, options.order == RANDOM ? random_number() & 1 : options.order == REVERSE);
    check_shared();
}

static void run_kernel(Image *image, void **parameters, const u32 *grid, const u32 *size, u32 dynamic, Context *ctx) {
    struct Place *p = &hostcuda_place;
    u64 blocks = (u64)grid[0] * grid[1] * grid[2];
    now.image = image;
    now.parameters = parameters;
    now.context = ctx;
    now.frame = __builtin_frame_address(0);
    memcpy(p->grid_size, grid, sizeof p->grid_size);
    memcpy(p->block_size, size, sizeof p->block_size);
    p->dynamic_shared = dynamic;
    p->arena = arenas + ctx->device * arena_size;
    p->arena_size = arenas ? arena_size : 0;
    int shuffled = options.order == RANDOM && blocks <= 1 << 20;
    int *numbers = shuffled ? malloc(blocks * sizeof *numbers) : 0;
    if (shuffled) order(numbers, blocks);
    for (u64 i = 0; i < blocks; i++)
        run_block(shuffled ? (u64)numbers[i] : options.order == REVERSE ? blocks - 1 - i : i, size);
    free(numbers);
}

/* ------------------------------------------------------------------------------------- what kernels may not do here */
/* Called before an access that is misaligned, or is to memory other than that of the kernel's own device. */
API void hc_access(uintptr_t p, u32 align, u32 bytes) {
    if (options.check_align && p % align)
        fail_in_kernel(MISALIGNED_ADDRESS, "access to %u bytes at %#lx, which is no multiple of %u, %s", bytes, p,
                       align, describe(p));
    struct Place *place = &hostcuda_place;
    if (!options.check_args || p - place->arena < place->arena_size) return;
    if (p - (uintptr_t)now.image->map < now.image->size) return;
    if (p - (uintptr_t)hostcuda_dynamic < sizeof hostcuda_dynamic) return;
    uintptr_t top = (uintptr_t)now.frame, bottom = (uintptr_t)__builtin_frame_address(0);
    if (now.image->info->barriers) {
        bottom = (uintptr_t)running->stack;
        top = bottom + options.stack;
    }
    if (p >= bottom && p < top) return;
    Allocation *a = find(p);
    if (!a) a = find_mapped(p);
    if (a && a->kind == DEVICE_MEMORY) {
        u32 allowed = a->pool ? a->pool->access : now.context->peers;
        if (!(allowed >> (a->pool ? now.context->device : a->device) & 1))
            fail_in_kernel(ILLEGAL_ADDRESS, "access to %#lx, %s, of device %d, from device %d", p, describe(p),
                           a->device, now.context->device);
    } else if (!a) fail_in_kernel(ILLEGAL_ADDRESS, "access to %#lx, %s", p, describe(p));
}

API void hc_unsupported(const char *what) { fail_in_kernel(LAUNCH_FAILED, "%s is not supported", what); }

/* ----------------------------------------------------------------------------------------------------------- faults */
static struct sigaction before[3];
static const int signals[3] = {SIGSEGV, SIGBUS, SIGFPE};

static int forgiven(uintptr_t p) { /* host code may not touch memory that queued work uses: noted, then it may */
    int ours = !locked;
    if (ours) take_lock();
    Allocation *a = find_mapped(p);
    int used = a && a->alive && a->kind != DEVICE_MEMORY && (a->readers || a->writers);
    if (used) {
        stats.faults++;
        say("host code touched %#lx, %s, while work in a stream that %s it is pending", p, describe(p),
            a->writers ? "may write" : "reads");
        mprotect((void *)a->map, a->map_size, PROT_READ | PROT_WRITE);
    }
    if (ours) drop_lock();
    return used;
}

static void on_fault(int signal, siginfo_t *info, void *context) {
    uintptr_t p = (uintptr_t)info->si_addr;
    if (guard) {
        if (signal == SIGSEGV && open_for_operation(find_mapped(p))) return;
        if (now.image)
            fail_in_kernel(signal == SIGFPE ? LAUNCH_FAILED : ILLEGAL_ADDRESS, "signal %d at address %#lx, %s", signal,
                           p, describe(p));
        stats.faults++;
        say("memory operation: signal %d at address %#lx, %s", signal, p, describe(p));
        fail(ILLEGAL_ADDRESS);
    }
    int mine = signal == SIGSEGV && arenas && p - arenas < arena_size * (options.devices + 2);
    if (mine && forgiven(p)) return;
    if (mine) {
        char text[300];
        int n = snprintf(text, sizeof text, "hostcuda: host code touched %#lx, %s\n", p, describe(p));
        if (write(2, text, n) < 0) mine = 0;
    }
    struct sigaction *next = before + (signal == SIGSEGV ? 0 : signal == SIGBUS ? 1 : 2);
    if (next->sa_flags & SA_SIGINFO && next->sa_sigaction) next->sa_sigaction(signal, info, context);
    else if (next->sa_handler != SIG_DFL && next->sa_handler != SIG_IGN) next->sa_handler(signal);
    sigaction(signal, next, 0); /* the instruction faults again */
}

static void catch_faults(void) {
    static __thread void *handler_stack;
    if (!handler_stack) {
        stack_t stack = {0};
        stack.ss_size = 1 << 16;
        stack.ss_sp = handler_stack =
            mmap(0, stack.ss_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        sigaltstack(&stack, 0);
    }
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER}, was;
    for (int i = 0; i < 3; i++) {
        sigaction(signals[i], 0, &was);
        if (was.sa_sigaction == on_fault) continue;
        before[i] = was;
        sigaction(signals[i], &action, 0);
    }
}
