/* leak_blocks.c - see leak_blocks.h. */
#include "profiler/dump/views/leak_blocks.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/containers/array.h"
#include "profiler/dump/ui/text.h"

typedef struct sum {
    uint64_t blocks, bytes;
} sum_t;

/* A site that has lost blocks, or is where a ring is held. */
typedef struct root {
    uint32_t site;
    sum_t direct;
    uint64_t all; /* bytes, with what it holds */
} root_t;

typedef struct blocks {
    const na_view_input_t *in;
    na_suppressions_t *list;
    na_nprof_leak_held_t *held; /* by root, then the largest first */
    uint32_t held_count, held_room;
    root_t *roots;
    uint32_t root_count, root_room;
    na_stack_t stack;
    bool failed; /* out of memory */
    sum_t direct, indirect, suppressed;
} blocks_t;

static void take_held(void *arg, uint32_t id, const void *entry) {
    (void)id;
    blocks_t *b = arg;
    if (NA_ARRAY_RESERVE(b->held, b->held_room, b->held_count + 1u))
        memcpy(&b->held[b->held_count++], entry, sizeof *b->held);
    else
        b->failed = true;
}

static int by_root(const void *a, const void *b) {
    const na_nprof_leak_held_t *x = a, *y = b;
    if (x->root != y->root) return x->root < y->root ? -1 : 1;
    return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

static int root_by_bytes(const void *a, const void *b) {
    const root_t *x = a, *y = b;
    if ((x->direct.blocks != 0) != (y->direct.blocks != 0)) return x->direct.blocks != 0 ? -1 : 1;
    if (x->all != y->all) return x->all < y->all ? 1 : -1;
    return (x->site > y->site) - (x->site < y->site);
}

/* A list of patterns counts what is live; here that is what is lost. */
static bool is_known_leak(blocks_t *b, uint32_t site, const sum_t *sum) {
    na_site_t as = {.site = site};
    as.sum.live_bytes = (int64_t)sum->bytes;
    as.sum.live_count = (int64_t)(sum->blocks * na_reader_header(b->in->reader)->count_scale);
    if (!na_view_stack(b->in, site, &b->stack)) b->failed = true;
    return !b->failed && na_suppressed(b->list, b->in, &as, &b->stack);
}

static size_t first_held(const blocks_t *b, uint32_t root) {
    size_t low = 0, high = b->held_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (b->held[middle].root < root)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void add_sum(sum_t *to, uint64_t blocks, uint64_t bytes) {
    to->blocks += blocks;
    to->bytes += bytes;
}

/* What a root holds, less what is suppressed, which loses its blocks. */
static void sum_up_root(blocks_t *b, uint32_t site, sum_t direct) {
    bool gone = is_known_leak(b, site, &direct);
    root_t root = {site, direct, direct.bytes};
    uint64_t held = 0;
    for (size_t i = first_held(b, site); i < b->held_count && b->held[i].root == site; i++) {
        na_nprof_leak_held_t *h = &b->held[i];
        sum_t sum = {h->blocks, h->bytes};
        if (gone || is_known_leak(b, h->site, &sum)) {
            add_sum(&b->suppressed, h->blocks, h->bytes);
            h->blocks = h->bytes = 0;
            continue;
        }
        add_sum(&b->indirect, h->blocks, h->bytes);
        root.all += h->bytes;
        held += h->blocks;
    }
    if (gone) {
        add_sum(&b->suppressed, direct.blocks, direct.bytes);
        return;
    }
    add_sum(&b->direct, direct.blocks, direct.bytes);
    if (direct.blocks + held == 0) return;
    if (NA_ARRAY_RESERVE(b->roots, b->root_room, b->root_count + 1u))
        b->roots[b->root_count++] = root;
    else
        b->failed = true;
}

/* ---- lines ---- */

static void put_leak_frames(const blocks_t *b, uint32_t site, const char *indent) {
    na_stack_table_t stacks = na_reader_stacks(b->in->reader);
    uint32_t number = 0;
    for (uint32_t node = site;
         node > NA_NPROF_ROOT && node < stacks.count && number < NA_VIEW_DEEPEST;
         node = stacks.items[node].parent) {
        const na_symbol_frame_t *frames;
        uint32_t count = na_symbols_frames(b->in->symbols, node, &frames);
        for (uint32_t i = 0; i < count; i++) {
            const na_symbol_frame_t *f = &frames[i];
            printf("%s    #%u 0x%" PRIx64 " in ", indent, number++, stacks.items[node].pc);
            na_text_put(stdout, f->function);
            putchar(' ');
            if (f->file != NULL) {
                na_text_put(stdout, f->file);
                if (f->line != 0) printf(":%u", f->line);
            } else {
                putchar('(');
                na_text_put(stdout, f->module);
                printf("+0x%" PRIx64 ")", f->offset);
            }
            puts(f->inlined ? " (inlined)" : "");
        }
    }
    if (number == 0) printf("%s    (no stack is known)\n", indent);
    putchar('\n');
}

static void put_leak(const blocks_t *b, const char *indent, const char *kind, const sum_t *sum,
                     uint32_t site) {
    printf("%s%s leak of %" PRIu64 " byte(s) in %" PRIu64 " object(s) allocated from:\n", indent,
           kind, sum->bytes, sum->blocks);
    put_leak_frames(b, site, indent);
}

static void put_root(const blocks_t *b, const root_t *root) {
    const char *indent = "";
    if (root->direct.blocks != 0) {
        put_leak(b, indent, "Direct", &root->direct, root->site);
        indent = "  ";
    }
    for (size_t i = first_held(b, root->site); i < b->held_count && b->held[i].root == root->site;
         i++) {
        sum_t sum = {b->held[i].blocks, b->held[i].bytes};
        if (sum.blocks != 0) put_leak(b, indent, "Indirect", &sum, b->held[i].site);
    }
}

static void put_totals(const blocks_t *b) {
    char a[NA_TEXT], c[NA_TEXT];
    const na_nprof_header_t *h = na_reader_header(b->in->reader);
    if (b->direct.blocks + b->indirect.blocks != 0)
        printf("SUMMARY: %" PRIu64 " byte(s) leaked in %" PRIu64 " allocation(s) by process %d\n",
               b->direct.bytes + b->indirect.bytes, b->direct.blocks + b->indirect.blocks, h->pid);
    if (b->suppressed.blocks != 0)
        printf("suppressed: %s in %s blocks\n", na_text_bytes(a, (double)b->suppressed.bytes),
               na_text_count(c, (double)b->suppressed.blocks));
}

static void put_all(blocks_t *b, const na_nprof_leak_site_t *rows, size_t count) {
    uint32_t last = UINT32_MAX;
    for (size_t i = 0; i < count; i++)
        if (rows[i].kind == 1) sum_up_root(b, rows[i].site, (sum_t){rows[i].blocks, rows[i].bytes});
    /* Rings, whose root has no block that is lost by itself. */
    for (uint32_t i = 0; i < b->held_count; i++) {
        uint32_t site = b->held[i].root;
        if (site == last) continue;
        last = site;
        bool direct = false;
        for (size_t k = 0; k < count && !direct; k++)
            direct = rows[k].site == site && rows[k].kind == 1;
        if (!direct) sum_up_root(b, site, (sum_t){0, 0});
    }
    if (b->failed) return;
    if (b->root_count != 0) qsort(b->roots, b->root_count, sizeof *b->roots, root_by_bytes);
    size_t most =
        na_option_given(b->in->options, NA_SET_TOP) ? b->in->options->table.top : b->root_count;
    for (size_t i = 0; i < b->root_count && i < most; i++)
        put_root(b, &b->roots[i]);
    put_totals(b);
}

na_status_t na_leak_blocks_put(const na_view_input_t *in, na_suppressions_t *list,
                               const na_nprof_leak_site_t *rows, size_t count) {
    blocks_t b = {.in = in, .list = list};
    na_reader_control(in->reader, NA_NPROF_LEAK_HELD, take_held, &b);
    if (b.held_count != 0) qsort(b.held, b.held_count, sizeof *b.held, by_root);
    if (!b.failed) put_all(&b, rows, count);
    free(b.held);
    free(b.roots);
    free(b.stack.items);
    return b.failed ? NA_STATUS_MEMORY : NA_STATUS_WHOLE;
}
