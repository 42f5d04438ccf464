/* control_filter.c - which programs, and which processes of a parallel job, are profiled. */
#include <fcntl.h>
#include <stddef.h>
#include <sys/syscall.h>

#include "alloc/core/sys/os.h"
#include "profiler/containers/path.h"
#include "profiler/control/control.h"
#include "profiler/format/nprof.h"

bool na_control_matches(const char *name, const char *pattern, size_t pattern_length) {
    const char *end = pattern + pattern_length, *star = NULL, *resume = NULL;
    while (*name != 0) {
        if (pattern != end && *pattern == '*') {
            star = pattern++;
            resume = name;
        } else if (pattern != end && *pattern == *name) {
            pattern++;
            name++;
        } else if (star != NULL) { /* let the last star take one character more */
            pattern = star + 1;
            name = ++resume;
        } else {
            return false;
        }
    }
    while (pattern != end && *pattern == '*')
        pattern++;
    return pattern == end;
}

static bool rank_number(const char **s, int *value) {
    if (**s < '0' || **s > '9') return false;
    int64_t v = 0;
    for (; **s >= '0' && **s <= '9'; (*s)++) {
        v = v * 10 + (**s - '0');
        if (v > INT32_MAX) return false;
    }
    *value = (int)v;
    return true;
}

int na_control_has_rank(const char *ranks, int rank) {
    bool has = false;
    for (;;) {
        int first, last;
        if (!rank_number(&ranks, &first)) return -1;
        last = first;
        if (*ranks == '-') {
            ranks++;
            if (!rank_number(&ranks, &last) || last < first) return -1;
        }
        has |= rank >= first && rank <= last;
        if (*ranks == 0) return has;
        if (*ranks++ != ',') return -1;
    }
}

static bool is_listed(const char *name, const char *list) {
    for (;;) {
        size_t n = 0;
        while (list[n] != 0 && list[n] != ',')
            n++;
        if (n != 0 && na_control_matches(name, list, n)) return true;
        if (list[n] == 0) return false;
        list += n + 1;
    }
}

/* By the name of the file that runs, or by the one that it was called by. */
static bool is_this_program(const char *list) {
    char text[4096];
    long n = na_syscall(SYS_readlinkat, AT_FDCWD, (long)"/proc/self/exe", (long)text,
                        sizeof text - 1, 0, 0);
    if (n > 0) {
        text[na_exe_part(text, (size_t)n)] = 0;
        if (is_listed(na_base_name(text), list)) return true;
    }
    n = na_os_read_file("/proc/self/cmdline", text, sizeof text);
    if (n <= 0) return false;
    return is_listed(na_base_name(text), list);
}

static int own_rank(void) {
    static const char names[][24] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK",
                                     "SLURM_PROCID"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *text = na_os_getenv(names[i]);
        int rank;
        if (text != NULL && rank_number(&text, &rank) && *text == 0) return rank;
    }
    return -1;
}

bool na_control_is_wanted(const char *programs, const char *ranks, bool *bad_ranks) {
    *bad_ranks = false;
    if (ranks != NULL && *ranks != 0) {
        int has = na_control_has_rank(ranks, own_rank());
        *bad_ranks = has < 0;
        if (has == 0) return false;
    }
    return programs == NULL || *programs == 0 || is_this_program(programs);
}

static bool is_of_key(char c, bool first) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           (!first && c >= '0' && c <= '9');
}

bool na_control_are_labels(const char *labels) {
    const char *c = labels;
    for (;;) {
        if (!is_of_key(*c, true)) return false;
        while (is_of_key(*c, false))
            c++;
        if (*c++ != '=') return false;
        const char *value = c;
        while (*c != 0 && *c != ',' && (unsigned char)*c >= ' ' && *c != 127)
            c++;
        if (c == value) return false;
        if (*c == 0) return c - labels < (ptrdiff_t)NA_NPROF_LABELS;
        if (*c++ != ',') return false;
    }
}
