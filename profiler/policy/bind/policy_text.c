/* policy_text.c - see policy_text.h. */
#include "profiler/policy/bind/policy_text.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "alloc/core/sys/os.h"
#include "alloc/core/sys/print.h"
#include "alloc/core/sys/syscall.h"

enum { FAULTS_SAID = 10 };

/* Which file it was, and as of when. */
typedef struct state {
    uint64_t device, inode, size;
    struct timespec written, changed;
} state_t;

/* The one that was read last, whatever came of it; the one of the last look. inode 0: not there. */
static state_t taken, text_seen;

/* A program may go to another folder. Too long, or nowhere: as it is. */
static const char *whole_text_name(const char *file) {
    NA_SPARSE static char whole[4096];
    if (file[0] == '/') return file;
    if (whole[0] != 0) return whole;
    long n = na_syscall(SYS_getcwd, (long)whole, sizeof whole, 0, 0, 0, 0);
    if (n > 1 && whole[0] == '/' && (size_t)n + strlen(file) < sizeof whole) {
        whole[n - 1] = '/';
        strcpy(&whole[n], file);
        return whole;
    }
    whole[0] = 0;
    return file;
}

/* Something else than a regular file might never end, or wait for ever. NULL: it is one. */
static const char *look_at_file(const char *file, state_t *now) {
    struct stat s;
    *now = (state_t){0};
    long status = na_syscall(SYS_newfstatat, AT_FDCWD, (long)file, (long)&s, 0, 0, 0);
    if (status != 0)
        return status == -ENOENT || status == -ENOTDIR ? "is not there" : "cannot be read";
    *now = (state_t){s.st_dev, s.st_ino, (uint64_t)s.st_size, s.st_mtim, s.st_ctim};
    return S_ISREG(s.st_mode) ? NULL : "is no regular file";
}

static bool is_same(const state_t *a, const state_t *b) {
    return a->inode == b->inode && a->device == b->device && a->size == b->size &&
           a->written.tv_sec == b->written.tv_sec && a->written.tv_nsec == b->written.tv_nsec &&
           a->changed.tv_sec == b->changed.tv_sec && a->changed.tv_nsec == b->changed.tv_nsec;
}

static na_policy_reading_t *new_reading(void) {
    return na_os_map(na_align_up(sizeof(na_policy_reading_t), na_os_page));
}

void na_policy_text_drop(na_policy_reading_t *reading) {
    if (reading != NULL) na_os_unmap(reading, na_align_up(sizeof *reading, na_os_page));
}

static bool names_functions(const na_policy_t *rules) {
    for (uint32_t i = 0; i < rules->rule_count; i++)
        for (unsigned k = 0; k < rules->rules[i].depth; k++)
            if (rules->rules[i].frames[k].module == NA_POLICY_NO_MODULE) return true;
    return false;
}

/* --- at the start --- */

static void say_fault(void *arg, const na_policy_fault_t *fault) {
    unsigned *said = arg;
    char line[512];
    na_policy_fault_text(fault, na_bound.file, line, sizeof line);
    if ((*said)++ < FAULTS_SAID) na_warn("%s", line);
}

na_policy_reading_t *na_policy_text_first(const char *file) {
    (void)whole_text_name(file); /* while it is known */
    const char *wrong = look_at_file(file, &taken);
    text_seen = taken;
    if (wrong != NULL) {
        na_warn("NUMALLOC_POLICY=%s %s: no policy", file, wrong);
        return NULL;
    }
    na_policy_reading_t *r = new_reading();
    if (r == NULL) return NULL;
    long length = na_os_read_file(file, r->text, sizeof r->text);
    unsigned said = 0;
    bool good = length >= 0 && na_policy_read(r->text, (size_t)length, &r->rules, say_fault, &said);
    if (length < 0) na_warn("NUMALLOC_POLICY=%s cannot be read: no policy", file);
    if (said > FAULTS_SAID)
        na_warn("%s: %u more lines are wrong", file, (uint64_t)said - FAULTS_SAID);
    if (!good) {
        na_policy_text_drop(r);
        return NULL;
    }
    r->by_name = names_functions(&r->rules);
    return r;
}

/* --- when it has changed --- */

static void refuse_text(const char *why) {
    size_t n = strlen(why);
    if (n > sizeof na_bound.refused - 1) n = sizeof na_bound.refused - 1;
    memcpy(na_bound.refused, why, n);
    na_bound.refused[n] = 0;
}

/* The first one. */
static void note_fault(void *arg, const na_policy_fault_t *fault) {
    unsigned *faults = arg;
    if ((*faults)++ == 0)
        na_policy_fault_text(fault, na_bound.file, na_bound.refused, sizeof na_bound.refused);
}

na_policy_reading_t *na_policy_text_changed(void) {
    const char *file = whole_text_name(na_bound.file);
    state_t now, after;
    const char *wrong = look_at_file(file, &now);
    bool still = is_same(&now, &text_seen);
    text_seen = now;
    if (is_same(&now, &taken) || now.inode == 0 || !still) return NULL;
    na_policy_reading_t *r = wrong == NULL ? new_reading() : NULL;
    if (wrong == NULL && r == NULL) return NULL; /* no memory: at the next look */
    long length = r != NULL ? na_os_read_file(file, r->text, sizeof r->text) : -1;
    look_at_file(file, &after);
    if (!is_same(&now, &after)) {
        na_policy_text_drop(r);
        return NULL;
    }
    taken = now;
    na_bound.refused[0] = 0;
    unsigned faults = 0;
    if (length < 0)
        refuse_text(wrong != NULL ? wrong : "cannot be read");
    else if (na_policy_read(r->text, (size_t)length, &r->rules, note_fault, &faults) &&
             faults == 0 && r->text[length - 1] != '\n')
        refuse_text("its last line has no end");
    if (na_bound.refused[0] != 0) { /* a fault is reported where there is one */
        na_policy_text_drop(r);
        return NULL;
    }
    r->by_name = names_functions(&r->rules);
    return r;
}
