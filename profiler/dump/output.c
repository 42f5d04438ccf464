/* output.c - stdout to a file that appears whole or not at all. See output.h. */
#include "profiler/dump/output.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

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

/* ---- a compressed file: stdout is a pipe to a thread ---- */

static struct {
    bool running;
    pthread_t thread;
    int from; /* the pipe's other end */
    gzFile to;
    int error; /* errno of the first that went wrong; 0: nothing */
} packer;

static int gzip_error(int result) {
    return result == Z_OK ? 0 : result == Z_ERRNO ? errno : ENOMEM;
}

/* After an error the rest is read all the same, so that the view never writes to a broken pipe. */
static void *pack(void *unused) {
    char block[1 << 16];
    for (;;) {
        ssize_t n = read(packer.from, block, sizeof block);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && packer.error == 0) packer.error = errno;
        if (n <= 0) break;
        if (packer.error != 0 || gzwrite(packer.to, block, (unsigned)n) == (int)n) continue;
        int result;
        (void)gzerror(packer.to, &result);
        packer.error = gzip_error(result == Z_OK ? Z_ERRNO : result);
    }
    close(packer.from);
    int error = gzip_error(gzclose(packer.to));
    if (packer.error == 0) packer.error = error;
    return unused;
}

/* Takes over the file. Returns where to write, -1: errno says why not. */
static int begin_pack(int fd) {
    int ends[2] = {-1, -1};
    packer.to = gzdopen(fd, "wb");
    int error = packer.to == NULL || pipe2(ends, O_CLOEXEC) != 0 ? errno : 0;
    packer.from = ends[0];
    if (error == 0) error = pthread_create(&packer.thread, NULL, pack, NULL);
    packer.running = error == 0;
    if (packer.running) return ends[1];
    for (int i = 0; i < 2; i++)
        if (ends[i] >= 0) close(ends[i]);
    if (packer.to == NULL)
        close(fd);
    else
        gzclose(packer.to);
    errno = error;
    return -1;
}

/* After all was written to stdout, which it closes. Returns the error, 0: none. */
static int end_pack(void) {
    close(STDOUT_FILENO);
    pthread_join(packer.thread, NULL);
    packer.running = false;
    return packer.error;
}

static bool has_suffix(const char *path, const char *suffix) {
    size_t length = strlen(path), size = strlen(suffix);
    return length > size && strcmp(path + length - size, suffix) == 0;
}

/* Under a name that promises what cannot be made, nobody could read the file. */
static bool can_pack(const char *path, na_output_kind_t kind) {
    static const char *const others[] = {".zst", ".xz", ".bz2"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (!has_suffix(path, others[i])) continue;
        na_fail("cannot write %s: numalloc-dump compresses to .gz only", path);
        return false;
    }
    if (kind != NA_OUTPUT_PROFILE || !has_suffix(path, ".gz")) return true;
    na_fail("cannot write %s: a profile is not compressed, name it without .gz", path);
    return false;
}

bool na_output_begin(const char *path, na_output_kind_t kind) {
    wanted_path = path;
    if (path == NULL) return true;
    if (!can_pack(path, kind)) return false;
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
    if (fd >= 0 && kind == NA_OUTPUT_TEXT && has_suffix(path, ".gz")) fd = begin_pack(fd);
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
    bool packed = packer.running;
    int failed = packed ? end_pack() : 0;
    if (failed != 0 && keep) {
        good = false;
        error = failed;
    }
    if (temporary[0] != 0) {
        /* Delayed errors of network file systems come with close; a rename must not outrun them. */
        if (good && keep && !packed && close(STDOUT_FILENO) != 0) {
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
