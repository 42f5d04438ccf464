/* output.c - stdout to a file that appears whole or not at all. See output.h. */
#include "profiler/dump/output.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "profiler/dump/ui/command_line.h"

/* Written before the handlers are set, read by them; "" again before the file has its name. */
static char temporary[4096];
static const char *wanted_path;
static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGXFSZ};

static void interrupted(int number) {
    if (temporary[0] != 0) unlink(temporary);
    /* As if there were no handler: the shell sees which signal it was. */
    signal(number, SIG_DFL);
    raise(number);
}

bool na_output_begin(const char *path) {
    wanted_path = path;
    if (path == NULL) return true;
    struct stat st;
    bool exists = stat(path, &st) == 0;
    if (exists && S_ISDIR(st.st_mode)) {
        na_fail("cannot write %s: it is a directory; name a file in it", path);
        return false;
    }
    int fd;
    if (exists && !S_ISREG(st.st_mode)) {
        fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY); /* a device or a pipe: as it is */
    } else {
        int length = snprintf(temporary, sizeof temporary - 1, "%s.XXXXXX", path);
        if (length < 0 || (size_t)length >= sizeof temporary - 1) {
            temporary[0] = 0;
            na_fail("cannot write %s: the name is too long", path);
            return false;
        }
        /* Held back until the file's name is known: an interrupt in between would leave it. */
        sigset_t held, before;
        sigemptyset(&held);
        for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
            sigaddset(&held, signals[i]);
        sigprocmask(SIG_BLOCK, &held, &before);
        fd = mkostemp(temporary, O_CLOEXEC);
        if (fd < 0) temporary[0] = 0;
        for (size_t i = 0; fd >= 0 && i < sizeof signals / sizeof signals[0]; i++)
            if (signal(signals[i], interrupted) == SIG_IGN) signal(signals[i], SIG_IGN);
        sigprocmask(SIG_SETMASK, &before, NULL);
        if (fd >= 0) {
            /* mkostemp makes it private; a file has the rights that it had, or the usual ones. */
            mode_t mask = umask(0);
            umask(mask);
            (void)fchmod(fd, exists ? st.st_mode & 07777 : 0666 & ~mask);
        }
    }
    if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0) {
        int error = errno;
        if (temporary[0] != 0) unlink(temporary);
        temporary[0] = 0;
        na_fail("cannot write %s: %s", path, strerror(error));
        return false;
    }
    close(fd);
    return true;
}

bool na_output_end(bool keep) {
    bool good = fflush(stdout) == 0 && !ferror(stdout);
    int error = errno;
    if (temporary[0] != 0) {
        /* Delayed errors of network file systems come with close; a rename must not outrun them. */
        if (good && keep && close(STDOUT_FILENO) != 0) {
            good = false;
            error = errno;
        }
        if (good && keep && rename(temporary, wanted_path) != 0) {
            good = false;
            error = errno;
        }
        if (!good || !keep) unlink(temporary);
        temporary[0] = 0;
    }
    if (!good)
        na_fail("cannot write %s: %s", wanted_path == NULL ? "the output" : wanted_path,
                strerror(error));
    return good;
}
