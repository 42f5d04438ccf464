/* export_massif.c - the output format of valgrind's massif, for ms_print and massif-visualizer: the
 * timeline as snapshots, with the tree of places at the peak and at the end.
 *
 * Snapshots hold the largest amount of their interval. mem_heap_extra_B is what rounding up adds;
 * it is known at the end only, and 0 elsewhere. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "profiler/dump/profile/call_tree.h"
#include "profiler/dump/profile/view.h"
#include "profiler/dump/ui/text.h"

/* Deeper levels are cut, as massif's own --depth does. */
#define DEEPEST 30u

typedef struct massif {
    na_view_input_t *in;
    na_tree_t *tree;
    double least; /* bytes below which places are summed up */
    unsigned snapshot;
} massif_t;

/* "0xADDRESS: function (file:line)" */
static void put_massif_place(const na_symbol_frame_t *frame) {
    if (frame == NULL) {
        fputs("0x0: ??? (no stack)", stdout);
        return;
    }
    printf("0x%" PRIX64 ": ", frame->offset);
    na_text_put(stdout, frame->function);
    const char *place = frame->file != NULL ? frame->file : frame->module;
    const char *slash = strrchr(place, '/');
    fputs(frame->file != NULL ? " (" : " (in ", stdout);
    na_text_put(stdout, frame->file != NULL && slash != NULL ? slash + 1 : place);
    if (frame->file != NULL && frame->line != 0) printf(":%u", frame->line);
    putchar(')');
}

static double massif_cost(const massif_t *m, uint32_t node) {
    double value = na_view_cost(m->in, &m->tree->nodes[node].below);
    return value > 0 ? value : 0;
}

/* A node, then its children: those that are large enough, and one line for the others. */
static void put_node(const massif_t *m, uint32_t node, uint32_t depth) {
    uint32_t large = 0, small = 0;
    double rest = 0;
    for (uint32_t child = m->tree->nodes[node].child; child != 0;
         child = m->tree->nodes[child].next) {
        if (depth < DEEPEST && massif_cost(m, child) >= m->least && massif_cost(m, child) > 0) {
            large++;
        } else if (depth < DEEPEST) {
            small++;
            rest += massif_cost(m, child);
        }
    }
    uint32_t lines = large + (small != 0);
    printf("%*sn%u: %.0f ", (int)depth, "", lines, massif_cost(m, node));
    if (node == 0)
        fputs("(heap allocation functions) malloc/new/new[], --alloc-fns, etc.", stdout);
    else
        put_massif_place(m->tree->nodes[node].frame);
    putchar('\n');
    if (lines == 0) return;
    for (uint32_t child = m->tree->nodes[node].child; child != 0;
         child = m->tree->nodes[child].next)
        if (massif_cost(m, child) >= m->least && massif_cost(m, child) > 0)
            put_node(m, child, depth + 1);
    if (small != 0)
        printf("%*sn0: %.0f in %u place%s, all below massif's threshold (%.2f%%)\n", (int)depth + 1,
               "", rest, small, small == 1 ? "" : "s", 100 * m->in->options->drawing.min_share);
}

static void put_snapshot(massif_t *m, uint64_t ms, double bytes, double extra, const char *kind) {
    printf("#-----------\nsnapshot=%u\n#-----------\ntime=%" PRIu64
           "\nmem_heap_B=%.0f\nmem_heap_extra_B=%.0f\nmem_stacks_B=0\nheap_tree=%s\n",
           m->snapshot++, ms, bytes, extra, kind);
}

static void put_massif_tree(massif_t *m, na_order_t order, uint64_t ms, double extra,
                            const char *kind) {
    m->in->order = order;
    na_tree_sort(m->in, m->tree);
    m->least = massif_cost(m, 0) * m->in->options->drawing.min_share;
    put_snapshot(m, ms, massif_cost(m, 0), extra > 0 ? extra : 0, kind);
    put_node(m, 0, 0);
}

static na_status_t show_massif(na_view_input_t *in) {
    na_tree_t tree;
    if (!na_tree_build(in, NA_TREE_PLACES, false, &tree)) {
        na_tree_free(&tree);
        return NA_STATUS_MEMORY;
    }
    const na_nprof_header_t *h = na_reader_header(in->reader);
    massif_t m = {.in = in, .tree = &tree};
    printf("desc: numalloc profile, bytes requested\ncmd: ");
    na_text_put(stdout, h->command[0] != 0 ? h->command : h->program);
    fputs("\ntime_unit: ms\n", stdout);

    uint32_t count = 0, interval = 1;
    const na_nprof_point_t *points = na_reader_timeline(in->reader, &count, &interval);
    uint64_t peak_ms = na_view_peak_ms(in);
    const na_counters_t *total = &in->sites.total;
    double last = 0, peak = (double)total->peak_bytes;
    bool peak_shown = false;
    put_snapshot(&m, 0, 0, 0, "empty");
    for (uint32_t i = 0; points != NULL && i < count; i++) {
        uint64_t ms = (uint64_t)i * interval;
        if (!peak_shown && (ms + interval > peak_ms || i + 1 == count)) {
            put_massif_tree(&m, NA_ORDER_PEAK, peak_ms > ms ? peak_ms : ms, 0, "peak");
            peak_shown = true;
            continue;
        }
        if ((points[i].flags & NA_NPROF_POINT_COUNTED) == 0) continue;
        last = (double)points[i].requested_max;
        if (last > peak) last = peak; /* ms_print wants the peak to be the largest */
        put_snapshot(&m, ms, last > 0 ? last : 0, 0, "empty");
    }
    if (!peak_shown) put_massif_tree(&m, NA_ORDER_PEAK, peak_ms, 0, "peak");
    uint64_t end = h->last_ms > peak_ms ? h->last_ms : peak_ms;
    put_massif_tree(&m, NA_ORDER_LIVE, end, (double)total->live_usable - (double)total->live_bytes,
                    "detailed");
    na_tree_free(&tree);
    return NA_STATUS_WHOLE;
}

const na_view_t na_view_row_massif = {
    .name = "massif",
    .words = "FILE",
    .help = "for ms_print and massif-visualizer",
    .modes = NA_IN_ALL,
    .flags = NA_VIEW_EXPORT,
    .without = NA_VIEW_WHOLE,
    .takes = NA_TAKES(MIN),
    .show = show_massif,
};
