/* leak_report.c - lines on stderr, rows in the profile, and what is suppressed. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>

#include "alloc/core/sys/options.h"
#include "alloc/core/sys/os.h"
#include "alloc/core/sys/print.h"
#include "alloc/core/sys/syscall.h"
#include "alloc/core/track/misuse.h"
#include "profiler/leaks/leaks_state.h"
#include "profiler/record/stacks/tree.h"
#include "profiler/record/state/state.h"

enum {
    MOST_FRAMES = 24, /* printed */
    MOST_SITES = 30,
};

/* --- stacks --- */

/* The native stack of a site; 0: it has none. */
static uint32_t native(uint32_t site) {
    if (site == NA_NPROF_NO_STACK) return 0;
    const na_nprof_stack_t *node = na_tree_node(site);
    return na_tree_is_pair(node->pc) ? node->parent : site;
}

/* Of the frame of a node: where its call is. */
static uintptr_t call_of(const na_nprof_stack_t *node) {
    return (uintptr_t)node->pc - ((node->flags & NA_NPROF_STACK_EXACT) == 0);
}

/* --- what is suppressed --- */

static bool has_prefix(const char *text, const char *part, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (text[i] != part[i] || text[i] == 0) return false;
    return true;
}

/* As LeakSanitizer has it: anywhere in the text, '*' any text, '^' and '$' its ends. */
bool na_leak_matches(const char *pattern, const char *text) {
    bool anywhere = *pattern != '^';
    if (!anywhere) pattern++;
    while (*pattern != 0) {
        if (*pattern == '*') {
            anywhere = true;
            pattern++;
            continue;
        }
        if (*pattern == '$') return anywhere || *text == 0;
        size_t length = strcspn(pattern, "*$");
        while (anywhere && *text != 0 && !has_prefix(text, pattern, length))
            text++;
        if (!has_prefix(text, pattern, length)) return false;
        if (anywhere && pattern[length] == '$') { /* the last place where it is */
            size_t left = strlen(text);
            return left >= length && memcmp(text + left - length, pattern, length) == 0;
        }
        text += length;
        pattern += length;
        anywhere = false;
    }
    return true;
}

typedef struct list {
    char *text; /* patterns, each with a zero behind it, then another zero */
    size_t bytes;
} list_t;

/* The patterns of a file of lines "leak:PATTERN". */
static bool read_list(list_t *list) {
    const char *name = na_option_text(NA_OPT_LEAKS_SUPPRESSIONS);
    if (name == NULL || *name == 0) return false;
    long fd = na_syscall(SYS_openat, AT_FDCWD, (long)name, O_RDONLY | O_CLOEXEC, 0, 0, 0);
    char one;
    if (fd >= 0 && na_sys4(SYS_pread64, fd, (long)&one, 1, 0) < 0) { /* a directory */
        na_sys1(SYS_close, fd);
        fd = -EISDIR;
    }
    long size = fd < 0 ? fd : na_syscall(SYS_lseek, fd, 0, 2 /* SEEK_END */, 0, 0, 0);
    list->bytes = na_align_up((size > 0 ? (size_t)size : 0) + 2, na_os_page);
    list->text = size > 0 ? na_os_map(list->bytes) : NULL;
    long n = list->text == NULL ? -1 : na_sys4(SYS_pread64, fd, (long)list->text, size, 0);
    if (fd >= 0) na_sys1(SYS_close, fd);
    if (fd < 0)
        na_warn("NUMALLOC_LEAKS_SUPPRESSIONS=%s cannot be read; nothing is suppressed", name);
    if (n <= 0) {
        if (list->text != NULL) na_os_unmap(list->text, list->bytes);
        list->text = NULL;
        return false;
    }
    char *to = list->text;
    unsigned wrong = 0;
    for (char *at = list->text, *end = list->text + n; at < end;) {
        char *line = at;
        while (at < end && *at != '\n')
            at++;
        char *last = at++;
        while (line < last && (*line == ' ' || *line == '\t'))
            line++;
        while (line < last && (last[-1] == ' ' || last[-1] == '\t' || last[-1] == '\r'))
            last--;
        if (line == last || *line == '#') continue;
        if (last - line <= 5 || memcmp(line, "leak:", 5) != 0) {
            wrong++;
            continue;
        }
        size_t length = (size_t)(last - line) - 5;
        memmove(to, line + 5, length);
        to += length;
        *to++ = 0;
    }
    *to = 0;
    if (wrong != 0)
        na_warn("NUMALLOC_LEAKS_SUPPRESSIONS=%s: %u lines left out; a suppression is leak:PATTERN",
                name, (uint64_t)wrong);
    return true;
}

static bool is_in_list(const list_t *list, const char *name) {
    for (const char *p = list->text; *p != 0; p += strlen(p) + 1)
        if (na_leak_matches(p, name)) return true;
    return false;
}

static const char *leak_module_path(const na_leak_module_t *m) {
    return m->name[0] != 0 ? m->name : na_rec.header->program;
}

/* Where no stack is known nobody can mend anything, and no suppression could mean it: what a child
 * has of its parent, which reports it; what was allocated while a fork stood before (emergency.h).
 */
static bool is_suppressed(na_leak_scan_t *scan, const list_t *list, uint32_t site) {
    if (site == NA_NPROF_NO_STACK) return true;
    if (list->text == NULL) return false;
    uint32_t id = native(site);
    if (id <= NA_NPROF_ROOT) return is_in_list(list, ""); /* by "*" */
    while (id > NA_NPROF_ROOT) {
        const na_nprof_stack_t *node = na_tree_node(id);
        na_leak_module_t *m = na_leak_module_of(scan, node, call_of(node));
        uintptr_t offset;
        const char *name = m != NULL ? na_leak_name(m, call_of(node), &offset) : NULL;
        if (m != NULL && is_in_list(list, leak_module_path(m))) return true;
        if (name != NULL && is_in_list(list, name)) return true;
        id = node->parent;
    }
    return false;
}

static bool is_lost(const na_leak_row_t *row) {
    return (row->of[NA_LEAK_LOST].blocks | row->of[NA_LEAK_INDIRECT].blocks) != 0;
}

/* What only a suppressed leak holds goes with it. */
static void suppress_held(na_leak_scan_t *scan, na_leak_pair_t *pair) {
    if (pair->sum.blocks == 0) return;
    bool site = scan->rows[pair->site].suppressed, root = scan->rows[pair->root].suppressed;
    if (!site && !root) return;
    if (!site) {
        na_leak_sum_t *from[] = {&scan->rows[pair->site].of[NA_LEAK_INDIRECT],
                                 &scan->leaks->of[NA_LEAK_INDIRECT]};
        for (unsigned i = 0; i < 2; i++) {
            from[i]->blocks -= pair->sum.blocks;
            from[i]->bytes -= pair->sum.bytes;
        }
        scan->leaks->suppressed.blocks += pair->sum.blocks;
        scan->leaks->suppressed.bytes += pair->sum.bytes;
    }
    pair->sum = (na_leak_sum_t){0};
    scan->pair_count--;
}

void na_leak_suppress(na_leak_scan_t *scan) {
    list_t list = {0};
    (void)read_list(&list);
    for (uint32_t site = 0; site < scan->row_count; site++) {
        na_leak_row_t *row = &scan->rows[site];
        if (!is_lost(row) || !is_suppressed(scan, &list, site)) continue;
        for (unsigned kind = NA_LEAK_LOST; kind <= NA_LEAK_INDIRECT; kind++) {
            na_leak_sum_t *sum = &row->of[kind], *all = &scan->leaks->of[kind];
            scan->leaks->suppressed.blocks += sum->blocks;
            scan->leaks->suppressed.bytes += sum->bytes;
            all->blocks -= sum->blocks;
            all->bytes -= sum->bytes;
            *sum = (na_leak_sum_t){0};
        }
        scan->rows[site].suppressed = true;
    }
    for (uint32_t i = 0; i < NA_LEAK_PAIRS; i++)
        suppress_held(scan, &scan->pairs[i]);
    if (list.text != NULL) na_os_unmap(list.text, list.bytes);
}

/* --- lines --- */

static na_text_t text;

static void begin_leak_line(void) {
    text.length = 0;
    na_text_str(&text, "numalloc: ");
}

static void end_leak_line(void) {
    na_text_str(&text, "\n");
    na_os_say(text.data, text.length);
}

static void put_sum(const na_leak_sum_t *sum, const char *what) {
    na_text_u64(&text, sum->bytes);
    na_text_str(&text, sum->bytes == 1 ? " byte in " : " bytes in ");
    na_text_u64(&text, sum->blocks);
    na_text_str(&text, sum->blocks == 1 ? " block " : " blocks ");
    na_text_str(&text, what);
}

static void put_leak_frame(na_leak_scan_t *scan, unsigned index, const na_nprof_stack_t *node) {
    uintptr_t pc = call_of(node), offset = 0;
    begin_leak_line();
    na_text_str(&text, "  #");
    na_text_u64(&text, index);
    na_text_str(&text, index < 10 ? "  " : " ");
    na_text_hex(&text, node->pc);
    na_leak_module_t *m = na_leak_module_of(scan, node, pc);
    const char *name = m != NULL ? na_leak_name(m, pc, &offset) : NULL;
    if (name != NULL && strlen(name) < 400) {
        na_text_str(&text, " ");
        na_text_str(&text, name);
        na_text_str(&text, "+");
        na_text_hex(&text, offset + (node->pc - pc));
    }
    if (m != NULL) {
        na_text_str(&text, name != NULL ? " (" : " ");
        na_text_str(&text, leak_module_path(m));
        na_text_str(&text, "+");
        na_text_hex(&text, node->pc - m->bias);
        if (name != NULL) na_text_str(&text, ")");
    }
    end_leak_line();
}

static void put_leak_site(na_leak_scan_t *scan, uint32_t site) {
    const na_leak_sum_t *of = scan->rows[site].of;
    begin_leak_line();
    if (of[NA_LEAK_LOST].blocks != 0) put_sum(&of[NA_LEAK_LOST], "lost");
    if (of[NA_LEAK_LOST].blocks != 0 && of[NA_LEAK_INDIRECT].blocks != 0) na_text_str(&text, ", ");
    if (of[NA_LEAK_INDIRECT].blocks != 0) put_sum(&of[NA_LEAK_INDIRECT], "indirectly lost");
    na_text_str(&text, ", allocated");
    uint32_t id = native(site);
    if (id <= NA_NPROF_ROOT) {
        na_text_str(&text, " where no stack is known");
        end_leak_line();
        return;
    }
    na_text_str(&text, " at:");
    end_leak_line();
    unsigned index = 0;
    for (; id > NA_NPROF_ROOT && index < MOST_FRAMES; id = na_tree_node(id)->parent)
        put_leak_frame(scan, index++, na_tree_node(id));
}

static uint64_t weight(const na_leak_row_t *row) {
    /* Lost ones first: they are why the others are. */
    uint64_t bytes = row->of[NA_LEAK_LOST].bytes + row->of[NA_LEAK_INDIRECT].bytes;
    return row->of[NA_LEAK_LOST].blocks != 0 ? bytes | UINT64_C(1) << 63 : bytes;
}

/* The heaviest of those lighter than the one before. */
static uint32_t next_site(const na_leak_scan_t *scan, uint64_t *below, uint32_t *last) {
    uint32_t best = UINT32_MAX;
    uint64_t most = 0;
    for (uint32_t site = 0; site < scan->row_count; site++) {
        if (!is_lost(&scan->rows[site])) continue;
        uint64_t w = weight(&scan->rows[site]);
        bool after = w < *below || (w == *below && site > *last);
        if (after && (best == UINT32_MAX || w > most)) {
            best = site;
            most = w;
        }
    }
    *below = most;
    *last = best;
    return best;
}

static void put_leak_totals(const na_leak_totals_t *leaks) {
    begin_leak_line();
    put_sum(&leaks->of[NA_LEAK_LOST], "are lost, ");
    put_sum(&leaks->of[NA_LEAK_INDIRECT], "indirectly; ");
    put_sum(&leaks->of[NA_LEAK_REACHABLE], "still reachable");
    if (leaks->suppressed.blocks != 0) {
        na_text_str(&text, "; ");
        put_sum(&leaks->suppressed, "suppressed");
    }
}

static void put_missed(const na_leak_totals_t *leaks) {
    if (leaks->missed == 0) return;
    begin_leak_line();
    na_text_u64(&text, leaks->missed);
    na_text_str(&text, leaks->missed == 1 ? " thread" : " threads");
    na_text_str(&text, " could not be stopped: what only they hold is listed as lost");
    end_leak_line();
}

static bool is_any_lost(const na_leak_scan_t *scan) {
    const na_leak_sum_t *of = scan->leaks->of;
    return of[NA_LEAK_LOST].blocks + of[NA_LEAK_INDIRECT].blocks != 0;
}

bool na_leak_hand_on(const na_leak_scan_t *scan) {
    const char *directory = na_option_text(NA_OPT_LEAKS_FILE);
    if (directory == NULL || *directory == 0) return false;
    return !is_any_lost(scan) || na_copy_last(directory);
}

void na_leak_print(na_leak_scan_t *scan) {
    const na_leak_totals_t *leaks = scan->leaks;
    if (!is_any_lost(scan)) return;
    uint64_t below = UINT64_MAX;
    uint32_t last = 0, site, sites = 0, shown = 0;
    for (uint32_t i = 0; i < scan->row_count; i++)
        sites += is_lost(&scan->rows[i]);
    while (shown < MOST_SITES && (site = next_site(scan, &below, &last)) != UINT32_MAX) {
        put_leak_site(scan, site);
        shown++;
    }
    if (shown < sites) {
        begin_leak_line();
        na_text_u64(&text, sites - shown);
        na_text_str(&text, " more sites; NUMALLOC_PROFILE=sites and numalloc-dump leaks show all");
        end_leak_line();
    }
    put_missed(leaks);
    begin_leak_line();
    na_text_str(&text, "numalloc-run --leaks shows names, source lines, and what holds what");
    end_leak_line();
    put_leak_totals(leaks);
    na_text_str(&text, "\n");
    na_os_say(text.data, text.length);
    na_misuse_add_to_file(&text);
}

/* --- rows --- */

static void keep_held(const na_leak_scan_t *scan) {
    na_nprof_leak_held_t *to = na_lost_held(scan->pair_count);
    for (uint32_t i = 0; to != NULL && i < NA_LEAK_PAIRS; i++) {
        const na_leak_pair_t *p = &scan->pairs[i];
        if (p->sum.blocks != 0)
            *to++ = (na_nprof_leak_held_t){p->root, p->site, p->sum.blocks, p->sum.bytes};
    }
    if (to != NULL) na_lost_held_end(scan->pair_count);
}

void na_leak_keep(const na_leak_scan_t *scan) {
    uint32_t rows = 0;
    for (uint32_t site = 0; site < scan->row_count; site++)
        for (unsigned kind = 0; kind < NA_LEAK_KINDS; kind++)
            rows += scan->rows[site].of[kind].blocks != 0;
    na_nprof_leak_site_t *to = na_lost_begin(rows != 0 ? rows : 1);
    if (to == NULL) return;
    for (uint32_t site = 0; site < scan->row_count; site++) {
        for (unsigned kind = 0; kind < NA_LEAK_KINDS; kind++) {
            const na_leak_sum_t *sum = &scan->rows[site].of[kind];
            if (sum->blocks != 0)
                *to++ = (na_nprof_leak_site_t){site, kind + 1, sum->blocks, sum->bytes};
        }
    }
    keep_held(scan);
    const na_leak_totals_t *l = scan->leaks;
    na_nprof_leaks_t head = {.state = 1,
                             .threads = l->threads,
                             .missed = l->missed,
                             .still_ns = l->still_ns,
                             .suppressed_blocks = l->suppressed.blocks,
                             .suppressed_bytes = l->suppressed.bytes};
    for (unsigned kind = 0; kind < NA_LEAK_KINDS; kind++) {
        head.blocks[kind] = l->of[kind].blocks;
        head.bytes[kind] = l->of[kind].bytes;
    }
    na_lost_end(&head, rows);
}
