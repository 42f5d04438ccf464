/* sigbus.c - pages of the profile's file that are not there any more.
 *
 * The disk has room for every page before it is mapped, or had plenty (writer.c). All the same
 * somebody may cut the file short, a filesystem that compresses or keeps snapshots may want room
 * for a page that it has had already, and a network one may go away: then touching the mapping is
 * SIGBUS, which would end the program for its profile's sake. The handler puts a page of zeros in
 * that place, and the profile ends. It is there only where the program has none when a profile
 * begins; a program that has its own later gets the signal, and any other SIGBUS does what it would
 * without us. */
#include <signal.h>
#include <sys/mman.h>

#include "alloc/core/sys/syscall.h"
#include "profiler/record/state/state.h"

/* The C library's, also where the program or a library of its own has put another before that. */
extern int __sigaction(int number, const struct sigaction *action, struct sigaction *old)
    __attribute__((weak));

static bool is_of_file(const siginfo_t *info) {
    return info->si_code > 0 && na_rec.header != NULL && atomic_load(na_rec_sentinel) != 0 &&
           na_writer_has_file_at((uintptr_t)info->si_addr);
}

static void put_page(uintptr_t at) {
    long page = (long)(at & ~(uintptr_t)(na_os_page - 1));
    na_sys6(SYS_mmap, page, (long)na_os_page, PROT_READ | PROT_WRITE,
            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    na_sys3(SYS_madvise, page, (long)na_os_page, MADV_DONTFORK);
}

static void as_by_default(bool was_sent) {
    static const uint64_t fallback[4]; /* as in na_os_abort */
    na_sys4(SYS_rt_sigaction, SIGBUS, (long)fallback, 0, sizeof(uint64_t));
    if (was_sent) /* else the instruction meets it again */
        na_sys3(SYS_tgkill, na_sys0(SYS_getpid), na_sys0(SYS_gettid), SIGBUS);
}

static void on_bus(int number, siginfo_t *info, void *context) {
    (void)number;
    (void)context;
    if (!is_of_file(info)) {
        as_by_default(info->si_code <= 0);
        return;
    }
    /* Before the page: who reads zeros there, a chunk's length among them, gets no chunk for them.
     */
    atomic_store(&na_rec.lost, true);
    put_page((uintptr_t)info->si_addr);
    na_rec_end_at_once();
}

void na_rec_catch_sigbus(void) {
    struct sigaction old;
    if (&__sigaction == NULL || __sigaction(SIGBUS, NULL, &old) != 0) return;
    if ((old.sa_flags & SA_SIGINFO) != 0 || old.sa_handler != SIG_DFL) return;
    /* What ending the profile touches may lie on such a page as well: not blocked meanwhile. */
    struct sigaction action = {.sa_sigaction = on_bus,
                               .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER | SA_RESTART};
    __sigaction(SIGBUS, &action, NULL);
}
