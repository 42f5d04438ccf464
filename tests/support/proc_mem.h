/* proc_mem.h - how much memory this process has, as the kernel counts it, without allocating. */
#ifndef NUMALLOC_TESTS_SUPPORT_PROC_MEM_H
#define NUMALLOC_TESTS_SUPPORT_PROC_MEM_H

#include "support/check.h"

#include <fcntl.h>
#include <time.h>

/* A figure of /proc/self/status in KiB ("VmRSS:", "VmSize:", ...); ends the program if absent. */
__attribute__((unused)) static long proc_status_kib(const char *field) {
    char text[8192];
    int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    if (fd < 0) check_skip("no /proc: memory cannot be measured here");
    ssize_t length = read(fd, text, sizeof text - 1);
    close(fd);
    REQUIRE(length > 0);
    text[length] = '\0';
    const char *at = strstr(text, field);
    REQUIRE(at != NULL);
    return strtol(at + strlen(field), NULL, 10);
}

__attribute__((unused)) static long proc_rss_kib(void) {
    return proc_status_kib("VmRSS:");
}

__attribute__((unused)) static void proc_sleep_ms(long ms) {
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    while (nanosleep(&t, &t) != 0 && errno == EINTR)
        ;
}

/* Monotonic time in milliseconds. */
__attribute__((unused)) static long proc_now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

#endif
