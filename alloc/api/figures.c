/* figures.c - figures by name. */
#include "alloc/api/figures.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "alloc/core/page/pageheap.h"
#include "alloc/core/page/purge.h"
#include "alloc/core/sys/options.h"
#include "alloc/core/sys/os.h"
#include "alloc/core/thread/attach.h"
#include "alloc/core/track/hooks.h"
#include "alloc/limits/limits.h"
#include "numalloc/numalloc.h"

/* ---- reading them ---- */

uint64_t na_resident_bytes(void) {
    char text[128];
    if (na_os_ask_file("/proc/self/statm", text, sizeof text) <= 0) return 0;
    const char *p = text;
    while (*p >= '0' && *p <= '9') /* size */
        p++;
    uint64_t pages = 0;
    for (p += *p == ' '; *p >= '0' && *p <= '9'; p++)
        pages = pages * 10 + (uint64_t)(*p - '0');
    return pages * na_os_page;
}

static uint64_t na_page_faults(void) {
    struct rusage usage = {0};
    if (na_os_is_confined()) return 0;
    na_syscall(SYS_getrusage, RUSAGE_SELF, (long)&usage, 0, 0, 0, 0);
    return (uint64_t)(usage.ru_minflt + usage.ru_majflt);
}

void na_figures_of_process(const na_totals_t *t, uint64_t out[NA_FIGURES]) {
#define NA_FIGURE(name, kind, unit, meaning, value) out[NA_FIGURE_##name] = (value);
#include "alloc/api/figures.def"
}

void na_figures_of_node(unsigned node, uint64_t out[NA_NODE_FIGURES]) {
    numalloc_node_stats_t stats, *n = &stats;
    na_stats_gather_node(node, n);
#define NA_NODE_FIGURE(name, kind, unit, meaning, value) out[NA_NODE_FIGURE_##name] = (value);
#include "alloc/api/figures.def"
}

static void figures_of_class(const na_class_stats_t *c, uint64_t out[NA_CLASS_FIGURES]) {
#define NA_CLASS_FIGURE(name, kind, unit, meaning, value) out[NA_CLASS_FIGURE_##name] = (value);
#include "alloc/api/figures.def"
}

/* ---- names ---- */

/* No pointers: each would be relocated when a process begins. */
typedef struct na_figure_name {
    char name[32]; /* as it is asked for; "node.N." and "class.SIZE." stand before some */
    char meaning[80];
} na_figure_name_t;

static const na_figure_name_t names[] = {
#define NA_FIGURE(name, kind, unit, meaning, value)       {#name, meaning},
#define NA_NODE_FIGURE(name, kind, unit, meaning, value)  {"node.N." #name, meaning},
#define NA_CLASS_FIGURE(name, kind, unit, meaning, value) {"class.SIZE." #name, meaning},
#define NA_SETTING(name, option, meaning)                 {"option." #name, meaning},
#include "alloc/api/figures.def"
};

enum {
    NAMES = sizeof names / sizeof names[0],
    FIRST_OF_NODE = NA_FIGURES,
    FIRST_OF_CLASS = FIRST_OF_NODE + NA_NODE_FIGURES,
    FIRST_OF_SETTINGS = FIRST_OF_CLASS + NA_CLASS_FIGURES,
    SETTINGS = NAMES - FIRST_OF_SETTINGS
};

const char *numalloc_figure(size_t index, const char **meaning) {
    if (index >= NAMES) return NULL;
    if (meaning != NULL) *meaning = names[index].meaning;
    return names[index].name;
}

/* Of the names from `first` on, whose part that counts begins after `prefix` characters. */
static int find(const char *name, size_t first, size_t count, size_t prefix) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[first + i].name + prefix, name) == 0) return (int)i;
    return -1;
}

/* "node.3.dirty": 3, and *rest is "dirty"; -1: nothing of the kind. */
static long numbered(const char *name, const char *group, const char **rest) {
    size_t length = strlen(group);
    if (strncmp(name, group, length) != 0) return -1;
    long number = 0;
    const char *p = name + length;
    if (*p < '0' || *p > '9') return -1;
    for (; *p >= '0' && *p <= '9'; p++)
        if ((number = number * 10 + (*p - '0')) > INT32_MAX) return -1;
    if (*p != '.') return -1;
    *rest = p + 1;
    return number;
}

static bool get_of_node(long id, const char *name, uint64_t *value) {
    uint64_t figures[NA_NODE_FIGURES];
    int figure = find(name, FIRST_OF_NODE, NA_NODE_FIGURES, strlen("node.N."));
    int node = na_node_dense((unsigned)id);
    if (figure < 0 || node < 0) return false;
    na_figures_of_node((unsigned)node, figures);
    *value = figures[figure];
    return true;
}

static bool get_of_class(long size, const char *name, uint64_t *value) {
    uint64_t figures[NA_CLASS_FIGURES];
    na_totals_t totals;
    int figure = find(name, FIRST_OF_CLASS, NA_CLASS_FIGURES, strlen("class.SIZE."));
    if (figure < 0) return false;
    for (unsigned cls = 1; cls < NA_CLASS_COUNT; cls++) {
        if (na_classes[cls].size != size) continue;
        na_stats_gather(&totals);
        figures_of_class(&totals.classes[cls], figures);
        *value = figures[figure];
        return true;
    }
    return false;
}

/* NA_OPT_COUNT: none. */
static na_option_id_t option_of(const char *name) {
    static const na_option_id_t options[] = {
#define NA_SETTING(name, option, meaning) NA_OPT_##option,
#include "alloc/api/figures.def"
    };
    int setting = find(name, FIRST_OF_SETTINGS, SETTINGS, 0);
    return setting < 0 ? NA_OPT_COUNT : options[setting];
}

static bool get(const char *name, uint64_t *value) {
    const char *rest;
    long number = numbered(name, "node.", &rest);
    if (number >= 0) return get_of_node(number, rest, value);
    number = numbered(name, "class.", &rest);
    if (number >= 0) return get_of_class(number, rest, value);
    na_option_id_t option = option_of(name);
    if (option != NA_OPT_COUNT) {
        *value = na_option(option);
        return true;
    }
    int id = find(name, 0, NA_FIGURES, 0);
    if (id < 0) return false;
    uint64_t figures[NA_FIGURES];
    na_totals_t totals;
    na_stats_gather(&totals);
    na_figures_of_process(&totals, figures);
    *value = figures[id];
    return true;
}

int numalloc_get(const char *name, void *value, size_t *size) {
    uint64_t number;
    na_init();
    if (name == NULL || size == NULL) {
        errno = EINVAL;
        return -1;
    }
    if (!get(name, &number)) {
        errno = ENOENT;
        return -1;
    }
    size_t room = *size;
    *size = sizeof number;
    if (value == NULL) return 0;
    if (room < sizeof number) {
        errno = EINVAL;
        return -1;
    }
    memcpy(value, &number, sizeof number);
    return 0;
}

/* ---- what may change ---- */

static int set(na_option_id_t id, uint64_t value) {
    switch (id) {
    case NA_OPT_PURGE_DELAY:
        if (value > (uint64_t)24 * 60 * 60 * 1000) return EINVAL;
        na_purge_set_delay(value);
        return 0;
    case NA_OPT_LIMIT: /* what a process has is counted from the start on, or not at all */
        if (value == 0) return EINVAL;
        if (na_option(NA_OPT_LIMIT) == 0) return EPERM;
        __atomic_store_n(&na_limit, value, __ATOMIC_RELAXED);
        na_option_values.numbers[id] = value;
        return 0;
    case NA_OPT_SAMPLE_INTERVAL: /* of the next profile */
        if (value > (uint64_t)1 << 40) return EINVAL;
        na_option_values.numbers[id] = value;
        return 0;
    default:
        return EPERM;
    }
}

int numalloc_set(const char *name, const void *value, size_t size) {
    uint64_t number;
    na_init();
    int error = name == NULL || value == NULL || size != sizeof number ? EINVAL : 0;
    na_option_id_t id = error == 0 ? option_of(name) : NA_OPT_COUNT;
    if (error == 0 && id == NA_OPT_COUNT) error = get(name, &number) ? EPERM : ENOENT;
    if (error == 0) {
        memcpy(&number, value, sizeof number);
        error = set(id, number);
    }
    if (error == 0) return 0;
    errno = error;
    return -1;
}

/* ---- as JSON ---- */

typedef struct na_json_text {
    char *data;
    size_t size, length; /* length: of all there is to say, whatever fits */
} na_json_text_t;

static void json_str(na_json_text_t *t, const char *s) {
    for (; *s != 0; s++, t->length++)
        if (t->length + 1 < t->size) t->data[t->length] = *s;
}

static void json_u64(na_json_text_t *t, uint64_t value) {
    char digits[24], *p = digits + sizeof digits - 1;
    *p = 0;
    do
        *--p = (char)('0' + value % 10);
    while ((value /= 10) != 0);
    json_str(t, p);
}

/* "name":value, for each of `count` names from `first` on. */
static void json_figures(na_json_text_t *t, size_t first, size_t count, size_t prefix,
                         const uint64_t *values) {
    for (size_t i = 0; i < count; i++) {
        json_str(t, ",\"");
        json_str(t, names[first + i].name + prefix);
        json_str(t, "\":");
        json_u64(t, values[i]);
    }
}

static void json_nodes(na_json_text_t *t) {
    const char *comma = "";
    json_str(t, ",\"nodes\":[");
    for (unsigned node = 0; node <= NA_NODE_ANY; node = na_node_next(node)) {
        uint64_t figures[NA_NODE_FIGURES];
        na_figures_of_node(node, figures);
        if (node == NA_NODE_ANY && figures[NA_NODE_FIGURE_active] == 0) continue;
        json_str(t, comma);
        json_str(t, "{\"node\":");
        if (node == NA_NODE_ANY)
            json_str(t, "-1");
        else
            json_u64(t, na_node_system_id(node));
        json_figures(t, FIRST_OF_NODE, NA_NODE_FIGURES, strlen("node.N."), figures);
        json_str(t, "}");
        comma = ",";
    }
    json_str(t, "]");
}

static void json_classes(na_json_text_t *t, const na_totals_t *totals) {
    const char *comma = "";
    json_str(t, ",\"classes\":[");
    for (unsigned cls = 1; cls < NA_CLASS_COUNT; cls++) {
        if (totals->classes[cls].allocs == 0) continue;
        uint64_t figures[NA_CLASS_FIGURES];
        figures_of_class(&totals->classes[cls], figures);
        json_str(t, comma);
        json_str(t, "{\"size\":");
        json_u64(t, na_classes[cls].size);
        json_figures(t, FIRST_OF_CLASS, NA_CLASS_FIGURES, strlen("class.SIZE."), figures);
        json_str(t, "}");
        comma = ",";
    }
    json_str(t, "]");
}

size_t numalloc_stats_json(char *text, size_t size) {
    na_json_text_t t = {text, text != NULL ? size : 0, 0};
    uint64_t figures[NA_FIGURES];
    na_totals_t totals;
    na_init();
    na_stats_gather(&totals);
    na_figures_of_process(&totals, figures);
    json_str(&t, "{\"numalloc\":\"");
    json_str(&t, numalloc_version());
    json_str(&t, "\"");
    json_figures(&t, 0, NA_FIGURES, 0, figures);
    json_nodes(&t);
    json_classes(&t, &totals);
    json_str(&t, "}");
    if (t.size != 0) t.data[t.length < t.size ? t.length : t.size - 1] = 0;
    return t.length;
}
