/* Object files with code for this CPU, which stand for cubins.
 *
 * compiling.py makes them: with the large code model, so that nearly every relocation is a 64-bit address, and with
 *
 *     hostcuda_info    a KernelInfo
 *     hostcuda_thread  the kernel, called with an array of pointers to its parameters
 *     hostcuda_block   the same for each thread of a block in turn, from the last to the first if asked
 *     section .shared  its static shared arrays
 *
 * Functions that they leave open are ours (hc_...), libdevice's (__nv_...), or what compilers call by themselves. */

typedef struct KernelInfo {
    const char *name, *title; /* as the code has it, and in words */
    u32 barriers;             /* whether threads have to stop and wait for each other */
    u32 local, constant, most_threads, n_parameters;
    u32 parameters[]; /* the size of each, and whether it is a pointer, in the highest bit */
} KernelInfo;
#define PARAMETER_SIZE(word) ((word) & 0x7FFFFFFF)
#define PARAMETER_IS_POINTER(word) ((word) >> 31)

typedef struct Variable {
    char *name;
    uintptr_t address;
    size_t size;
    struct Variable *next;
} Variable;

typedef struct Image {
    char *map; /* code, constants, variables: one mapping */
    size_t size;
    const KernelInfo *info;
    u64 *launches; /* how many, of kernels of this name */
    void (*thread)(void **parameters);
    void (*block)(void **parameters, int backwards);
    char *shared;
    size_t shared_size;
    Variable *variables;
} Image;

static const Elf64_Shdr *sections_of(const Elf64_Ehdr *elf) { return (const void *)((const char *)elf + elf->e_shoff); }

static int is_object_file(const void *image) {
    const Elf64_Ehdr *elf = image;
    return !memcmp(elf->e_ident, ELFMAG, SELFMAG) && elf->e_machine == EM_X86_64 && elf->e_type == ET_REL;
}

/* ------------------------------------------------------------------------------------------------ what is left open */
static char *libdevice_path; /* an object file, if there is one */
static Image *libdevice;
static Image *load_image(const char *file);

static char *read_file(const char *path, size_t *length) {
    FILE *file = fopen(path, "rb");
    if (!file) return 0;
    fseek(file, 0, SEEK_END);
    *length = ftell(file);
    rewind(file);
    char *text = calloc(1, *length + 1);
    *length = fread(text, 1, *length, file);
    fclose(file);
    return text;
}

static void *libdevice_function(const char *name) {
    size_t length;
    if (!libdevice && libdevice_path) {
        char *file = read_file(libdevice_path, &length);
        if (file) libdevice = load_image(file);
        free(file);
        libdevice_path = 0;
    }
    for (Variable *v = libdevice ? libdevice->variables : 0; v; v = v->next)
        if (!strcmp(v->name, name)) return (void *)v->address;
    return 0;
}

static void *self; /* this library */

static void *resolve(const char *name) {
    if (!self) {
        Dl_info info;
        if (dladdr((void *)resolve, &info)) self = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    }
    void *function = 0;
    int device = !strncmp(name, "__nv_", 5);
    if (device) function = libdevice_function(name);
    if (!function) function = dlsym(self, name);
    if (!function && device) function = dlsym(self, name + 5); /* the C library's, of the same name */
    char ours[128];
    snprintf(ours, sizeof ours, "hc_%s", name);
    return function ? function : dlsym(self, ours);
}

/* ------------------------------------------------------------------------------------------------------- the loader */
static int relocate(const Elf64_Ehdr *elf, const Elf64_Shdr *table, char **address, const Elf64_Shdr *symbols) {
    const Elf64_Shdr *section = sections_of(elf);
    const Elf64_Sym *symbol = (const void *)((const char *)elf + symbols->sh_offset);
    const char *names = (const char *)elf + section[symbols->sh_link].sh_offset;
    const Elf64_Rela *entry = (const void *)((const char *)elf + table->sh_offset);
    for (size_t i = 0; i < table->sh_size / sizeof *entry; i++) {
        const Elf64_Sym *s = symbol + ELF64_R_SYM(entry[i].r_info);
        char *place = address[table->sh_info] + entry[i].r_offset, *target;
        if (s->st_shndx == SHN_UNDEF) {
            target = resolve(names + s->st_name);
            if (!target) {
                say("a kernel needs the function %s, which is not there", names + s->st_name);
                return 0;
            }
        } else target = s->st_shndx == SHN_ABS ? (char *)s->st_value : address[s->st_shndx] + s->st_value;
        target += entry[i].r_addend;
        int32_t near = target - place;
        switch (ELF64_R_TYPE(entry[i].r_info)) {
        case R_X86_64_64: memcpy(place, &target, 8); break;
        case R_X86_64_PC32:
        case R_X86_64_PLT32:
            if (near != target - place) return 0;
            memcpy(place, &near, 4);
            break;
        default: say("relocation of type %lu in a kernel", ELF64_R_TYPE(entry[i].r_info)); return 0;
        }
    }
    return 1;
}

static void note_symbol(Image *image, const char *name, const Elf64_Sym *symbol, char *address) {
    if (!strcmp(name, "hostcuda_info")) image->info = (void *)address;
    else if (!strcmp(name, "hostcuda_thread")) image->thread = (void *)address;
    else if (!strcmp(name, "hostcuda_block")) image->block = (void *)address;
    else {
        Variable *v = calloc(1, sizeof *v);
        *v = (Variable){strdup(name), (uintptr_t)address, symbol->st_size, image->variables};
        image->variables = v;
    }
}

static Image *load_image(const char *file) {
    const Elf64_Ehdr *elf = (const void *)file;
    const Elf64_Shdr *section = sections_of(elf), *symbols = 0;
    const char *section_names = file + section[elf->e_shstrndx].sh_offset;
    char *address[elf->e_shnum];
    Image *image = calloc(1, sizeof *image);
    for (int i = 0; i < elf->e_shnum; i++) { /* one behind the other, from 0 */
        address[i] = 0;
        if (section[i].sh_type == SHT_SYMTAB) symbols = section + i;
        if (!(section[i].sh_flags & SHF_ALLOC)) continue;
        size_t align = section[i].sh_addralign < 16 ? 16 : section[i].sh_addralign;
        image->size = (image->size + align - 1) & -align;
        address[i] = (char *)image->size;
        image->size += section[i].sh_size;
    }
    if (!symbols) return 0;
    image->size = (image->size + PAGE) & -PAGE;
    image->map = mmap(0, image->size, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (image->map == MAP_FAILED) return 0;
    for (int i = 0; i < elf->e_shnum; i++) {
        if (!(section[i].sh_flags & SHF_ALLOC)) continue;
        address[i] += (size_t)image->map;
        if (section[i].sh_type != SHT_NOBITS) memcpy(address[i], file + section[i].sh_offset, section[i].sh_size);
        if (strcmp(section_names + section[i].sh_name, ".shared")) continue;
        image->shared = address[i];
        image->shared_size = section[i].sh_size;
    }
    for (int i = 0; i < elf->e_shnum; i++) {
        if (section[i].sh_type != SHT_RELA || !address[section[i].sh_info]) continue;
        if (!strcmp(section_names + section[section[i].sh_info].sh_name, ".eh_frame")) continue;
        if (!relocate(elf, section + i, address, symbols)) return 0;
    }
    const Elf64_Sym *symbol = (const void *)(file + symbols->sh_offset);
    const char *names = file + section[symbols->sh_link].sh_offset;
    for (size_t i = 0; i < symbols->sh_size / sizeof *symbol; i++)
        if (ELF64_ST_BIND(symbol[i].st_info) != STB_LOCAL && symbol[i].st_shndx && symbol[i].st_shndx < elf->e_shnum)
            note_symbol(image, names + symbol[i].st_name, symbol + i, address[symbol[i].st_shndx] + symbol[i].st_value);
    if (image->info) image->launches = tally(KERNELS, image->info->title);
    return image;
}

static uintptr_t variable(Image *image, const char *name, size_t *size) { /* but no shared one */
    for (Variable *v = image->variables; v; v = v->next) {
        int shared = v->address - (uintptr_t)image->shared < image->shared_size;
        if (shared || strcmp(v->name, name)) continue;
        *size = v->size;
        return v->address;
    }
    return 0;
}
