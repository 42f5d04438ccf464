/* still_clock.c - preloaded behind the library: its clock stands still, or goes on by CLOCK_STEP_US
 * microseconds whenever it is read. What the library does by time is then the same in every run,
 * however slow the machine or the tool that watches it. With CLOCK_SLOWER=N it goes on at
 * an Nth of the speed of the program's processor time: under a tool that makes the program N times
 * slower, as much happens by time as without it.
 *
 * The library reads the clock by the code that the kernel maps into the process (os.c), and
 * finds that by getauxval. This hands it an image with a clock of our own. (Valgrind hides the
 * kernel's; so the search for it is seen as well.) */
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

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

static long number(const char *name) {
    const char *text = getenv(name);
    return text == NULL ? 0 : atol(text);
}

/* All clocks begin at the same time. It is the processor time that passes: how busy the machine is
 * does not count. */
static long slowed_us(long slower) {
    static atomic_long first;
    struct timespec now;
    syscall(SYS_clock_gettime, CLOCK_PROCESS_CPUTIME_ID, &now);
    long us = now.tv_sec * 1000000 + now.tv_nsec / 1000, none = 0;
    atomic_compare_exchange_strong(&first, &none, us);
    return 1000000000 + (us - first) / slower;
}

static int read_clock(clockid_t id, struct timespec *t) {
    static atomic_long readings;
    static long step = -1, slower;
    if (step < 0) {
        slower = number("CLOCK_SLOWER");
        step = number("CLOCK_STEP_US");
    }
    long us = slower > 0 ? slowed_us(slower) : 1000000000 + step * atomic_fetch_add(&readings, 1);
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
