/* The driver API: initialisation, devices, contexts.
 *
 * Mostly only the newest variant of a call is there: cuGetProcAddress gives that one whatever version is asked for. */

static void in_child(void) { /* of a fork */
    forked = initialised;
    locked = 0;
    pthread_mutex_init(&lock, 0);
}

API CUresult cuInit(u32 flags) {
    LOCKED;
    if (forked) return NOT_INITIALIZED;
    if (flags) return INVALID_VALUE;
    if (!options.devices) return NO_DEVICE;
    if (!initialised) pthread_atfork(0, 0, in_child);
    initialised = 1;
    return SUCCESS;
}

API CUresult cuDriverGetVersion(int *version) {
    *version = options.driver_version;
    return SUCCESS;
}

API CUresult cuGetErrorName(int error, const char **text) {
    *text = 0;
    for (size_t i = 0; i < COUNT_OF(errors); i++)
        if (errors[i].code == error) *text = errors[i].name;
    return *text ? SUCCESS : INVALID_VALUE;
}

API CUresult cuGetErrorString(int error, const char **text) {
    *text = 0;
    for (size_t i = 0; i < COUNT_OF(errors); i++)
        if (errors[i].code == error) *text = errors[i].text;
    return *text ? SUCCESS : INVALID_VALUE;
}

API CUresult cuGetProcAddress_v2(const char *name, void **function, int version, u64 flags, int *status) {
    static const char *const suffixes[] = {"_v4", "_v3", "_v2", ""};
    static const struct { /* whose parameters changed: older callers get what is called with suffixes[suffix] */
        const char *name;
        int since, suffix;
    } changed[] = {{"cuCtxGetDevice", 13000, 3},   {"cuCtxSynchronize", 13000, 3},
                   {"cuStreamGetCtx", 12050, 3},   {"cuLaunchHostFunc", 13020, 3},
                   {"cuGetProcAddress", 12000, 3}, {"cuStreamGetCaptureInfo", 12030, 2}};
    int first = 0;
    for (size_t i = 0; i < COUNT_OF(changed); i++)
        if (!strcmp(changed[i].name, name) && version < changed[i].since) first = changed[i].suffix;
    if (flags & 2) per_thread_default = 1;
    *function = 0;
    Dl_info here, there;
    int known = dladdr((void *)cuInit, &here);
    if (!self) resolve("cuInit"); /* opens this library */
    for (int i = first; known && i < 4 && !*function && *name; i++) {
        char full[128];
        snprintf(full, sizeof full, "%s%s", name, suffixes[i]);
        void *p = dlsym(self, full);
        int ours = p && dladdr(p, &there) && there.dli_fbase == here.dli_fbase; /* not a library's that this one uses */
        if (ours) *function = p;
    }
    if (status) *status = !*function;
    if (options.trace && !*function) fprintf(stderr, "hostcuda> cuGetProcAddress(%s): none\n", name);
    return *function ? SUCCESS : NOT_FOUND;
}

API CUresult cuGetProcAddress(const char *name, void **function, int version, u64 flags) {
    return cuGetProcAddress_v2(name, function, version, flags, 0);
}

/* ---------------------------------------------------------------------------------------------------------- devices */
#define DEVICE(i) \
    if ((i) < 0 || (i) >= options.devices) return INVALID_DEVICE

API CUresult cuDeviceGetCount(int *n) {
    ENTER;
    *n = options.devices;
    return SUCCESS;
}

API CUresult cuDeviceGet(int *device, int i) {
    ENTER;
    DEVICE(i);
    *device = i;
    return SUCCESS;
}

API CUresult cuDeviceGetName(char *name, int size, int device) {
    ENTER;
    DEVICE(device);
    snprintf(name, size, "hostcuda device");
    return SUCCESS;
}

API CUresult cuDeviceTotalMem_v2(size_t *bytes, int device) {
    ENTER;
    DEVICE(device);
    *bytes = options.memory;
    return SUCCESS;
}

API CUresult cuDeviceGetUuid_v2(unsigned char *uuid, int device) {
    ENTER;
    DEVICE(device);
    memcpy(uuid, "hostcuda-device", 15);
    uuid[15] = device;
    return SUCCESS;
}

API CUresult cuDeviceGetPCIBusId(char *text, int size, int device) {
    ENTER;
    DEVICE(device);
    snprintf(text, size, "0000:%02x:00.0", device + 1);
    return SUCCESS;
}

API CUresult cuDeviceComputeCapability(int *major, int *minor, int device) {
    ENTER;
    DEVICE(device);
    *major = options.cc / 10;
    *minor = options.cc % 10;
    return SUCCESS;
}

API CUresult cuDeviceGetAttribute(int *value, int attribute, int device) {
    static const int known[][2] = {
        {1, 1024},  {2, 1024},      {3, 1024},   {4, 64},          {5, 2147483647}, {6, 65535},    {7, 65535},
        {8, 49152}, {9, 65536},     {10, 32},    {11, 2147483647}, {12, 65536},     {13, 1980000}, {14, 512},
        {15, 1},    {16, 8},        {19, 1},     {30, 512},        {31, 1},         {32, 1},       {36, 2619000},
        {37, 5120}, {38, 52428800}, {39, 2048},  {40, 3},          {41, 1},         {78, 1},       {79, 1},
        {80, 1},    {81, 233472},   {82, 65536}, {83, 1},          {87, 2},         {89, 1},       {90, 1},
        {91, 1},    {97, 232448},   {99, 1},     {106, 32},        {111, 1024},     {115, 1},      {120, 1},
        {131, -1},  {134, -1}};
    ENTER;
    DEVICE(device);
    if (attribute < 1 || attribute > 160) return INVALID_VALUE;
    *value = 0;
    for (size_t i = 0; i < COUNT_OF(known); i++)
        if (known[i][0] == attribute) *value = known[i][1];
    if (attribute == 33) *value = device + 1; /* PCI bus */
    if (attribute == 75) *value = options.cc / 10;
    if (attribute == 76) *value = options.cc % 10;
    return SUCCESS;
}

API CUresult cuDeviceCanAccessPeer(int *can, int device, int peer) {
    ENTER;
    DEVICE(device);
    DEVICE(peer);
    *can = device != peer;
    return SUCCESS;
}

API CUresult cuDeviceGetP2PAttribute(int *value, int attribute, int from, int to) {
    ENTER; /* 1 rank, 2 access, 3 atomics, 4 arrays */
    DEVICE(from);
    DEVICE(to);
    if (from == to || attribute < 1 || attribute > 4) return INVALID_VALUE;
    *value = attribute == 1 ? 0 : attribute < 4;
    return SUCCESS;
}

/* --------------------------------------------------------------------------------------------------------- contexts */
static Context *primary_context(int device) {
    if (!primary_contexts[device]) {
        primary_contexts[device] = new_context(device, 1);
        primary_contexts[device]->dead = 1; /* until somebody retains it */
    }
    return primary_contexts[device];
}

/* A primary context that was released or reset comes back when it is made current: cuda.core keeps its handle. */
static void revive(Context *c) {
    if (c->primary) c->dead = 0;
}

API CUresult cuDevicePrimaryCtxRetain(Context **c, int device) {
    ENTER;
    DEVICE(device);
    *c = primary_context(device);
    if (!(*c)->references++) (*c)->dead = 0;
    return SUCCESS;
}

API CUresult cuDevicePrimaryCtxRelease_v2(int device) {
    ENTER;
    DEVICE(device);
    Context *c = primary_context(device);
    if (!c->references) return INVALID_CONTEXT;
    if (--c->references) return SUCCESS;
    clear_context(c);
    c->dead = 1;
    return SUCCESS;
}

API CUresult cuDevicePrimaryCtxReset_v2(int device) {
    ENTER;
    DEVICE(device);
    clear_context(primary_context(device));
    return SUCCESS;
}

API CUresult cuDevicePrimaryCtxGetState(int device, u32 *flags, int *active) {
    ENTER;
    DEVICE(device);
    Context *c = primary_contexts[device];
    *flags = c ? c->flags : 0;
    *active = c && !c->dead;
    return SUCCESS;
}

API CUresult cuDevicePrimaryCtxSetFlags_v2(int device, u32 flags) {
    ENTER;
    DEVICE(device);
    primary_context(device)->flags = flags;
    return SUCCESS;
}

API CUresult cuCtxCreate_v4(Context **c, void *parameters, u32 flags, int device) {
    ENTER;
    DEVICE(device);
    if (depth == COUNT_OF(context_stack)) return UNKNOWN;
    *c = context_stack[depth++] = new_context(device, 0);
    (*c)->flags = flags;
    return SUCCESS;
}

API CUresult cuCtxDestroy_v2(Context *c) {
    ENTER;
    if (!valid(c) || c->primary || c->dead) return INVALID_CONTEXT;
    clear_context(c);
    c->dead = 1;
    if (current() == c) depth--;
    return SUCCESS;
}

API CUresult cuCtxPushCurrent_v2(Context *c) {
    ENTER;
    if (!valid(c) || depth == COUNT_OF(context_stack)) return INVALID_CONTEXT;
    revive(c);
    context_stack[depth++] = c;
    return SUCCESS;
}

API CUresult cuCtxPopCurrent_v2(Context **c) {
    ENTER;
    if (!depth) return INVALID_CONTEXT;
    depth--;
    if (c) *c = context_stack[depth];
    return SUCCESS;
}

API CUresult cuCtxSetCurrent(Context *c) { /* 0: none */
    ENTER;
    if (c && !valid(c)) return INVALID_CONTEXT;
    if (depth) depth--;
    if (!c) return SUCCESS;
    revive(c);
    context_stack[depth++] = c;
    return SUCCESS;
}

API CUresult cuCtxGetCurrent(Context **c) {
    ENTER;
    *c = current();
    return SUCCESS;
}

API CUresult cuCtxGetDevice(int *device) {
    ENTER;
    if (!current()) return INVALID_CONTEXT;
    *device = current()->device;
    return SUCCESS;
}

API CUresult cuCtxGetDevice_v2(int *device, Context *c) {
    ENTER;
    if (!c) c = current();
    if (!valid(c)) return INVALID_CONTEXT;
    *device = c->device;
    return SUCCESS;
}

API CUresult cuCtxGetFlags(u32 *flags) {
    ENTER;
    if (!current()) return INVALID_CONTEXT;
    *flags = current()->flags;
    return SUCCESS;
}

API CUresult cuCtxGetId(Context *c, u64 *id) {
    ENTER;
    if (!c) c = current();
    if (!valid(c)) return INVALID_CONTEXT;
    *id = c->id;
    return SUCCESS;
}

API CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
    ENTER;
    if (least) *least = 0;
    if (greatest) *greatest = -5;
    return SUCCESS;
}

static CUresult synchronize(Context *c) {
    TRY(may_wait_for_context(c));
    stats.context_syncs++;
    wait_for_all(c);
    trim_at_wait();
    return c->error;
}

API CUresult cuCtxSynchronize(void) {
    CONTEXT;
    return synchronize(ctx);
}

#define KNOWN_CONTEXT                      \
    if (!valid(c)) return INVALID_CONTEXT; \
    if (c->dead) return CONTEXT_IS_DESTROYED

API CUresult cuCtxSynchronize_v2(Context *c) {
    ENTER;
    if (!c) c = current();
    KNOWN_CONTEXT;
    return synchronize(c);
}

API CUresult cuCtxRecordEvent(Context *c, Event *event) { /* in a stream of its own, behind all work of the context */
    ENTER;
    KNOWN_CONTEXT;
    if (!valid(event) || event->dead || event->context != c) return INVALID_HANDLE;
    if (break_captures(c, 0)) return STREAM_CAPTURE_UNSUPPORTED;
    event->recorded = 1;
    event->capture = 0;
    clear_nodes(&event->tips);
    event->at.stream = c->marks;
    Op *op = new_op(MARK);
    op->event = event;
    for (Stream *s = streams; s; s = s->next)
        if (s->context == c) depend(op, s, s->submitted);
    enqueue(op, c->marks);
    return SUCCESS;
}

API CUresult cuCtxWaitEvent(Context *c, Event *event) {
    ENTER;
    KNOWN_CONTEXT;
    if (!valid(event) || event->dead) return INVALID_HANDLE;
    Capture *capture = capture_of(event);
    if (break_captures(c, 0) || capture) return break_capture(capture, STREAM_CAPTURE_UNSUPPORTED);
    if (event->capture) return CAPTURED_EVENT;
    Dep at = event->at;
    if (!event->recorded || at.stream->done >= at.index) return SUCCESS;
    for (Stream *s = streams; s; s = s->next) {
        if (s->context != c || s == at.stream || s->dead) continue;
        Op *op = new_op(WAIT);
        depend(op, at.stream, at.index);
        enqueue(op, s);
    }
    int n = 0; /* and for streams yet to come */
    for (int i = 0; i < c->n_waits; i++)
        if (c->waits[i].stream->done < c->waits[i].index) c->waits[n++] = c->waits[i];
    c->waits = realloc(c->waits, (n + 1) * sizeof *c->waits);
    c->waits[n++] = at;
    c->n_waits = n;
    return SUCCESS;
}

API CUresult cuCtxEnablePeerAccess(Context *peer, u32 flags) { /* to memory that does not come from pools */
    CONTEXT;
    if (flags) return INVALID_VALUE;
    if (!valid(peer) || peer == ctx || peer->device == ctx->device) return INVALID_CONTEXT;
    if (ctx->peers >> peer->device & 1) return PEER_ACCESS_ALREADY_ENABLED;
    ctx->peers |= 1u << peer->device;
    return SUCCESS;
}

API CUresult cuCtxDisablePeerAccess(Context *peer) {
    CONTEXT;
    if (!valid(peer)) return INVALID_CONTEXT;
    if (!(ctx->peers >> peer->device & 1)) return PEER_ACCESS_NOT_ENABLED;
    ctx->peers &= ~(1u << peer->device);
    return SUCCESS;
}
