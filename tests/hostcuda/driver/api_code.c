/* The driver API: code, and launching it.  A CUfunction is a CUkernel here, and a CUmodule a CUlibrary. */

typedef struct Library {
    Image *image; /* or 0 for code that is not for this CPU, which can be looked up, but not run */
    char *text;
    size_t length;
    int dead;
    struct Kernel *kernels;
} Library;

typedef struct Kernel {
    Library *library;
    char *name;
    int attributes[16]; /* by CUfunction_attribute */
    struct Kernel *next;
} Kernel;

/* ---------------------------------------------------------------------------------------------------------- loading */
static size_t length_of_code(const char *code) {
    if (strstr(code, ".version") || strstr(code, ".target")) return strlen(code) + 1; /* PTX */
    if (memcmp(code, ELFMAG, SELFMAG)) return 0;
    const Elf64_Ehdr *elf = (const void *)code;
    return elf->e_shoff + (size_t)elf->e_shentsize * elf->e_shnum;
}

static CUresult load(Library **library, const char *code) {
    if (!code) return INVALID_VALUE;
    Image *image = 0;
    size_t length = 0;
    if (is_object_file(code)) image = load_image(code);
    else length = length_of_code(code);
    if (image ? !image->info : !length) return INVALID_IMAGE;
    Library *l = *library = new_handle(sizeof *l);
    l->image = image;
    l->length = length;
    l->text = memcpy(malloc(length + 1), code, length);
    stats.modules++;
    return SUCCESS;
}

API CUresult cuLibraryLoadData(Library **library, const void *code, void *o, void *v, u32 n, void *lo, void *lv,
                               u32 ln) {
    CONTEXT;
    TRY(unsafe_call());
    return load(library, code);
}

API CUresult cuModuleLoadData(Library **library, const void *code) {
    CONTEXT;
    TRY(unsafe_call());
    return load(library, code);
}

API CUresult cuModuleLoadDataEx(Library **library, const void *code, u32 n, void *o, void *v) {
    CONTEXT;
    TRY(unsafe_call());
    return load(library, code);
}

API CUresult cuLibraryLoadFromFile(Library **library, const char *path, void *o, void *v, u32 n, void *lo, void *lv,
                                   u32 ln) {
    CONTEXT;
    TRY(unsafe_call());
    size_t length;
    char *code = read_file(path, &length);
    CUresult error = code ? load(library, code) : 301; /* file not found */
    free(code);
    return error;
}

API CUresult cuLibraryUnload(Library *l) {
    ENTER;
    if (!valid(l) || l->dead) return INVALID_HANDLE;
    l->dead = 1;
    stats.modules--;
    return SUCCESS;
}

API CUresult cuModuleUnload(Library *l) { return cuLibraryUnload(l); }

API CUresult cuModuleGetLoadingMode(int *mode) {
    *mode = 2; /* lazy */
    return SUCCESS;
}

/* ----------------------------------------------------------------------------------------------- what a library has */
#define LIBRARY \
    CONTEXT;    \
    if (!valid(l) || l->dead) return INVALID_HANDLE

API CUresult cuLibraryGetKernel(Kernel **kernel, Library *l, const char *name) {
    LIBRARY;
    const KernelInfo *info = l->image ? l->image->info : 0;
    for (Kernel *k = l->kernels; k; k = k->next)
        if (!strcmp(k->name, name)) return (*kernel = k, SUCCESS);
    if (info ? strcmp(info->name, name) != 0 : !memmem(l->text, l->length, name, strlen(name))) return NOT_FOUND;
    Kernel *k = *kernel = new_handle(sizeof *k);
    *k = (Kernel){l, strdup(name), {0}, l->kernels};
    l->kernels = k;
    k->attributes[0] = info && info->most_threads ? info->most_threads : 1024;
    k->attributes[1] = info ? l->image->shared_size : 0;
    k->attributes[2] = info ? info->constant : 0;
    k->attributes[3] = info ? info->local : 0;
    k->attributes[4] = 32; /* registers */
    k->attributes[5] = k->attributes[6] = options.cc;
    k->attributes[8] = 49152 - k->attributes[1]; /* most dynamic shared memory */
    k->attributes[9] = -1;
    return SUCCESS;
}

API CUresult cuModuleGetFunction(Kernel **k, Library *l, const char *name) { return cuLibraryGetKernel(k, l, name); }

API CUresult cuLibraryGetModule(Library **module, Library *l) {
    LIBRARY;
    *module = l;
    return SUCCESS;
}

API CUresult cuLibraryGetKernelCount(u32 *n, Library *l) {
    LIBRARY;
    *n = l->image != 0;
    return SUCCESS;
}

API CUresult cuLibraryGetGlobal(CUdeviceptr *p, size_t *bytes, Library *l, const char *name) {
    LIBRARY;
    size_t size;
    uintptr_t address = l->image ? variable(l->image, name, &size) : 0;
    if (!address) return NOT_FOUND;
    if (!find(address)) foreign_memory(ctx, MODULE_MEMORY, address, size, 0);
    if (p) *p = address;
    if (bytes) *bytes = size;
    return SUCCESS;
}

API CUresult cuModuleGetGlobal_v2(CUdeviceptr *p, size_t *bytes, Library *l, const char *name) {
    return cuLibraryGetGlobal(p, bytes, l, name);
}

/* ---------------------------------------------------------------------------------------------------------- kernels */
#define KERNEL \
    ENTER;     \
    if (!valid(k)) return INVALID_HANDLE

API CUresult cuKernelGetFunction(Kernel **function, Kernel *k) {
    KERNEL;
    *function = k;
    return SUCCESS;
}

API CUresult cuKernelGetLibrary(Library **library, Kernel *k) {
    KERNEL;
    *library = k->library;
    return SUCCESS;
}

API CUresult cuKernelGetName(const char **name, Kernel *k) {
    KERNEL;
    *name = k->name;
    return SUCCESS;
}

API CUresult cuFuncGetAttribute(int *value, int attribute, Kernel *k) {
    KERNEL;
    if (attribute < 0 || attribute > 15) return INVALID_VALUE;
    *value = k->attributes[attribute];
    return SUCCESS;
}

API CUresult cuKernelGetAttribute(int *value, int attribute, Kernel *k, int device) {
    return cuFuncGetAttribute(value, attribute, k);
}

API CUresult cuFuncSetAttribute(Kernel *k, int attribute, int value) {
    KERNEL;
    if (attribute < 8 || attribute > 15) return INVALID_VALUE;
    if (attribute == 8 && value + k->attributes[1] > MOST_DYNAMIC - 1024) return INVALID_VALUE;
    k->attributes[attribute] = value;
    return SUCCESS;
}

API CUresult cuKernelSetAttribute(int attribute, int value, Kernel *k, int device) {
    return cuFuncSetAttribute(k, attribute, value);
}

API CUresult cuFuncSetCacheConfig(Kernel *k, int config) {
    KERNEL;
    return SUCCESS;
}

API CUresult cuKernelGetParamInfo(Kernel *k, size_t i, size_t *offset, size_t *size) {
    KERNEL;
    const KernelInfo *info = k->library->image ? k->library->image->info : 0;
    if (!info || i >= info->n_parameters) return INVALID_VALUE;
    size_t at = 0, bytes = 0;
    for (size_t n = 0; n <= i; n++) {
        at += bytes;
        bytes = PARAMETER_SIZE(info->parameters[n]);
        size_t align = bytes > 8 ? 8 : bytes ? bytes : 1;
        at = (at + align - 1) / align * align;
    }
    *offset = at;
    if (size) *size = bytes;
    return SUCCESS;
}

API CUresult cuFuncGetParamInfo(Kernel *k, size_t i, size_t *offset, size_t *size) {
    return cuKernelGetParamInfo(k, i, offset, size);
}

static int resident_blocks(Kernel *k, int threads, size_t dynamic) { /* on a multiprocessor */
    if (threads < 1 || threads > k->attributes[0]) return 0;
    int by_threads = 2048 / ((threads + 31) / 32 * 32);
    int by_shared = 233472 / (k->attributes[1] + (int)dynamic + 1024);
    if (by_threads > 32) by_threads = 32;
    return by_threads < by_shared ? by_threads : by_shared;
}

API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *n, Kernel *k, int threads, size_t dynamic,
                                                                  u32 f) {
    KERNEL;
    *n = resident_blocks(k, threads, dynamic);
    return SUCCESS;
}

API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, Kernel *k, int threads, size_t dynamic) {
    return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(n, k, threads, dynamic, 0);
}

API CUresult cuOccupancyMaxPotentialBlockSize(int *grid, int *block, Kernel *k, size_t (*needs)(int), size_t dynamic,
                                              int limit) {
    KERNEL;
    *block = limit > 0 && limit < k->attributes[0] ? limit : k->attributes[0];
    *grid = 8 * resident_blocks(k, *block, dynamic);
    return SUCCESS;
}

API CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, Kernel *k, size_t (*needs)(int),
                                                       size_t dynamic, int limit, u32 flags) {
    return cuOccupancyMaxPotentialBlockSize(grid, block, k, needs, dynamic, limit);
}

/* -------------------------------------------------------------------------------------------------------- launching */
static void copy_parameters(Op *op, void **parameters, void **extra) { /* given as pointers, or as one packed block */
    const KernelInfo *info = op->image->info;
    char *packed = 0;
    for (; extra && *extra; extra += 2)
        if ((u64)*extra == 1) packed = extra[1];
    size_t size = info->n_parameters * sizeof(void *) + 16, offset = 0;
    for (u32 i = 0; i < info->n_parameters; i++) size += (PARAMETER_SIZE(info->parameters[i]) + 15) & ~15ul;
    op->parameters = malloc(op->parameters_size = size);
    char *to = (char *)(((uintptr_t)(op->parameters + info->n_parameters) + 15) & ~15ul);
    for (u32 i = 0; i < info->n_parameters; i++) {
        size_t bytes = PARAMETER_SIZE(info->parameters[i]), align = bytes > 8 ? 8 : bytes ? bytes : 1;
        offset = (offset + align - 1) / align * align;
        memcpy(to, packed ? packed + offset : parameters[i], bytes);
        op->parameters[i] = to;
        to += (bytes + 15) & ~15ul;
        offset += bytes;
    }
}

static CUresult launch(Context *ctx, Kernel *k, const u32 *grid, const u32 *block, u32 dynamic, void *handle,
                       void **parameters, void **extra) {
    if (!valid(k) || k->library->dead) return INVALID_HANDLE;
    Stream *stream;
    TRY(stream_for_work(&stream, handle, ctx));
    u64 threads = (u64)block[0] * block[1] * block[2];
    if (!threads || !grid[0] || !grid[1] || !grid[2]) return INVALID_VALUE;
    if (grid[0] > 2147483647u || grid[1] > 65535 || grid[2] > 65535) return INVALID_VALUE;
    if (block[0] > 1024 || block[1] > 1024 || block[2] > 64 || threads > (u64)k->attributes[0]) return INVALID_VALUE;
    if (dynamic > (u32)k->attributes[8]) return INVALID_VALUE;
    if (!k->library->image) {
        say("kernel %s has no code for this CPU: only kernels compiled by Numba can run", k->name);
        return NOT_SUPPORTED;
    }
    Op *op = new_op(LAUNCH);
    op->image = k->library->image;
    memcpy(op->grid, grid, sizeof op->grid);
    memcpy(op->block, block, sizeof op->block);
    op->dynamic = dynamic;
    copy_parameters(op, parameters, extra);
    submit(op, stream);
    return SUCCESS;
}

API CUresult cuLaunchKernel(Kernel *k, u32 gx, u32 gy, u32 gz, u32 bx, u32 by, u32 bz, u32 dynamic, void *stream,
                            void **parameters, void **extra) {
    CONTEXT;
    u32 grid[] = {gx, gy, gz}, block[] = {bx, by, bz};
    return launch(ctx, k, grid, block, dynamic, stream, parameters, extra);
}

typedef struct LaunchAttribute {
    int id, padding;
    int value[16];
} LaunchAttribute;

typedef struct LaunchConfig {
    u32 grid[3], block[3], dynamic;
    void *stream;
    LaunchAttribute *attributes;
    u32 n_attributes;
} LaunchConfig;

API CUresult cuLaunchKernelEx(const LaunchConfig *config, Kernel *k, void **parameters, void **extra) {
    CONTEXT;
    for (u32 i = 0; i < config->n_attributes; i++)
        if (config->attributes[i].id == 2 && config->attributes[i].value[0]) return NOT_SUPPORTED; /* cooperative */
    return launch(ctx, k, config->grid, config->block, config->dynamic, config->stream, parameters, extra);
}
