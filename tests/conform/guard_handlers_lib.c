/* guard_handlers_lib.c - a library whose constructor sets a handler, as crash reporters do. */
#include <signal.h>
#include <unistd.h>

static void handles(int number, siginfo_t *info, void *context) {
    _exit(number == SIGSEGV && info->si_code == SEGV_ACCERR && context != NULL ? 11 : 12);
}

/* Called, so that the library is linked. */
__attribute__((visibility("default"))) int library_is_here(void);
int library_is_here(void) {
    return 1;
}

__attribute__((constructor)) static void begins(void) {
    struct sigaction action = {.sa_sigaction = handles, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
}
