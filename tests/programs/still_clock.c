/* still_clock.c - preloaded behind the library: its clock stands still, or goes on by CLOCK_STEP_US
 * microseconds whenever it is read. What the library does by time is then the same in every run,
 * however slow the machine or the tool that watches it.
 *
 * The library reads the clock by the code that the kernel maps into the process (os_clock.c), and
 * finds that by getauxval. This hands it an image with a clock of our own. (Valgrind hides the
 * kernel's; so the search for it is seen as well.) */
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <time.h>

#ifdef __aarch64__
#define SYMBOL "__kernel_clock_gettime"
#else
#define SYMBOL "__vdso_clock_gettime"
#endif

/* In the order in which linkers lay it out: the names behind the table of symbols. */
typedef struct {
    ElfW(Ehdr) header;
    ElfW(Phdr) parts[2];
    ElfW(Dyn) dynamic[3];
    ElfW(Sym) symbols[2];
    char names[1 + sizeof SYMBOL];
} image_t;

static image_t image = {
    .header = {.e_phoff = offsetof(image_t, parts), .e_phnum = 2},
    .parts = {{.p_type = PT_LOAD}, {.p_type = PT_DYNAMIC, .p_offset = offsetof(image_t, dynamic)}},
    .dynamic = {{.d_tag = DT_SYMTAB, .d_un.d_ptr = offsetof(image_t, symbols)},
                {.d_tag = DT_STRTAB, .d_un.d_ptr = offsetof(image_t, names)}},
    .symbols = {{0}, {.st_name = 1, .st_shndx = 1}},
    .names = "\0" SYMBOL,
};

static int read_clock(clockid_t id, struct timespec *t) {
    static atomic_long readings;
    const char *text = getenv("CLOCK_STEP_US");
    long step = text == NULL ? 0 : atol(text);
    long us = 1000000000 + step * atomic_fetch_add(&readings, 1);
    (void)id;
    *t = (struct timespec){us / 1000000, us % 1000000 * 1000};
    return 0;
}

unsigned long getauxval(unsigned long type) {
    if (type != AT_SYSINFO_EHDR)
        return ((unsigned long (*)(unsigned long))dlsym(RTLD_NEXT, "getauxval"))(type);
    image.symbols[1].st_value = (ElfW(Addr)) & read_clock - (ElfW(Addr)) & image;
    return (unsigned long)&image;
}
