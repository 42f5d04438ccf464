/* html_spans.c - what the allocator's spans held at the end: by node and size of block, how full
 * they were, and the sites whose blocks keep memory that nobody uses. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/analyze/blocks/detail.h"
#include "profiler/containers/array.h"
#include "profiler/dump/page/html_page.h"
#include "profiler/dump/ui/text.h"

#define MOST_SITES 500u
#define CLASSES    256u
#define EIGHTHS    9u
#define NODES      (NA_NPROF_MAX_NODES + 1u) /* the last: bound to none */

typedef struct class {
    na_nprof_span_sum_t sum;
    uint64_t filled[EIGHTHS]; /* spans by eighths of their room that live */
} class_t;

typedef struct spans {
    class_t *classes; /* [node * CLASSES + class] */
    uint64_t all, unseen, unseen_bytes;
    na_nprof_span_site_t *sites;
    size_t site_count, site_room;
    bool failed;
} spans_t;

static void take_sum(void *arg, const na_nprof_span_sum_t *s) {
    spans_t *spans = arg;
    if (s->cls == NA_NPROF_SPANS_UNSEEN) {
        spans->unseen += s->spans;
        spans->unseen_bytes += s->bytes;
        return;
    }
    uint32_t node = s->node < NA_NPROF_MAX_NODES ? s->node : NA_NPROF_MAX_NODES;
    class_t *class = &spans->classes[node * CLASSES + s->cls];
    class->sum.block_size = s->block_size;
    na_span_sum_add(&class->sum, s);
    class->filled[s->eighths] += s->spans;
    spans->all += s->spans;
}

static void take_site(void *arg, const na_nprof_span_site_t *s) {
    spans_t *spans = arg;
    if (!NA_ARRAY_RESERVE(spans->sites, spans->site_room, spans->site_count + 1u)) {
        spans->failed = true;
        return;
    }
    spans->sites[spans->site_count++] = *s;
}

static int keeps_most(const void *a, const void *b) {
    const na_nprof_span_site_t *x = a, *y = b;
    if (x->sparse_kept != y->sparse_kept) return x->sparse_kept < y->sparse_kept ? 1 : -1;
    if (x->resident != y->resident) return x->resident < y->resident ? 1 : -1;
    return x->site < y->site ? -1 : x->site > y->site;
}

static void put_span_size(const na_webpage_t *r, uint32_t class, const class_t *c) {
    char text[NA_TEXT];
    na_json_string(r->json, NULL, class == 0 ? "large" : na_text_bytes(text, c->sum.block_size));
}

static void put_span_classes(const na_webpage_t *r, const spans_t *spans) {
    const na_nprof_header_t *h = na_reader_header(r->in->reader);
    char note[256] = "", a[NA_TEXT], b[NA_TEXT];
    if (spans->unseen != 0)
        snprintf(note, sizeof note, " There was no time to look at %s spans of %s.",
                 na_text_count(a, (double)spans->unseen),
                 na_text_bytes(b, (double)spans->unseen_bytes));
    na_json_object(r->json, NULL);
    na_json_text(r->json, "title", "Spans %s, by size of block", na_view_spans_when(r->in));
    na_json_text(r->json, "note",
                 "Sparse: less than a quarter of its room lives. Unused: resident, and in no live "
                 "block.%s",
                 note);
    NA_JSON_STRINGS(r->json, "columns", "block", "node", "spans", "sparse", "live blocks",
                    "of room", "in spans", "resident", "requested", "rounding", "unused");
    NA_JSON_STRINGS(r->json, "units", "", "", "count", "count", "count", "share", "bytes", "bytes",
                    "bytes", "bytes", "bytes");
    NA_JSON_STRINGS(r->json, "terms", "usable", "node", "span", "sparse", "live", "occupancy",
                    "span", "physical", "live", "waste", "unused");
    na_json_array(r->json, "rows");
    for (uint32_t node = 0; node < NODES; node++)
        for (uint32_t i = 1; i <= CLASSES; i++) { /* large blocks, class 0, come last */
            const class_t *c = &spans->classes[node * CLASSES + i % CLASSES];
            const na_nprof_span_sum_t *s = &c->sum;
            if (s->spans == 0) continue;
            bool large = i == CLASSES;
            na_json_array(r->json, NULL);
            put_span_size(r, i % CLASSES, c);
            if (node < h->node_count && node < NA_NPROF_MAX_NODES)
                na_json_text(r->json, NULL, "%u", h->node_ids[node]);
            else
                na_json_string(r->json, NULL, "none");
            const double values[] = {
                (double)s->spans,
                large ? 0 : (double)(c->filled[0] + c->filled[1]),
                (double)s->blocks,
                s->capacity == 0 ? 0 : (double)s->blocks / (double)s->capacity,
                (double)s->bytes,
                (double)s->resident,
                (double)s->requested,
                (double)s->usable - (double)s->requested,
                /* Large blocks are often resident in part: nothing of that is kept. */
                !large && s->resident > s->usable ? (double)(s->resident - s->usable) : 0,
            };
            for (size_t v = 0; v < sizeof values / sizeof values[0]; v++)
                na_json_number(r->json, NULL, values[v]);
            na_json_end(r->json);
        }
    na_json_end(r->json);
    na_json_end(r->json);
}

static void put_span_sites(const na_webpage_t *r, spans_t *spans) {
    uint32_t stacks = na_reader_stacks(r->in->reader).count;
    double age_ms = na_age_ns(na_reader_header(r->in->reader)) / 1e6;
    if (spans->site_count == 0) return;
    qsort(spans->sites, spans->site_count, sizeof *spans->sites, keeps_most);
    na_json_object(r->json, NULL);
    na_json_string(r->json, "title", "Sites whose live blocks keep memory");
    na_json_string(r->json, "note",
                   "Resident: of the spans that they lie in, by their part. Kept: resident and "
                   "unused in spans that are sparse, where these blocks are all that keeps the "
                   "rest from being given back.");
    NA_JSON_STRINGS(r->json, "columns", "site", "kept", "resident", "live blocks", "requested",
                    "in sparse spans", "by blocks", "of age", "alone in");
    NA_JSON_STRINGS(r->json, "units", "", "bytes", "bytes", "count", "bytes", "count", "count",
                    "ms", "count");
    NA_JSON_STRINGS(r->json, "terms", "site", "kept", "physical", "live", "live", "sparse",
                    "sparse", "age", "alone");
    na_json_u64(r->json, "site", 0);
    na_json_u64(r->json, "sort", 1);
    na_json_array(r->json, "rows");
    for (size_t i = 0; i < spans->site_count && i < na_webpage_most(r, MOST_SITES); i++) {
        const na_nprof_span_site_t *s = &spans->sites[i];
        int64_t row = s->site < stacks ? (int64_t)r->row_of_site[s->site] - 1 : -1;
        const double values[] = {
            (double)s->sparse_kept,
            (double)s->resident,
            (double)s->blocks,
            (double)s->requested,
            (double)s->sparse_spans,
            (double)s->sparse_blocks,
            s->sparse_blocks == 0 ? 0 : (double)s->sparse_ages / (double)s->sparse_blocks * age_ms,
            (double)s->alone,
        };
        na_json_array(r->json, NULL);
        na_json_i64(r->json, NULL, row);
        for (size_t v = 0; v < sizeof values / sizeof values[0]; v++)
            na_json_number(r->json, NULL, values[v]);
        na_json_end(r->json);
    }
    na_json_end(r->json);
    na_json_end(r->json);
}

/* Rows: classes, all nodes together; columns: eighths. */
static void put_span_filled(const na_webpage_t *r, const spans_t *spans) {
    static const char *const names[EIGHTHS] = {"up to 1/8", "1/8", "2/8", "3/8", "4/8",
                                               "5/8",       "6/8", "7/8", "full"};
    na_json_object(r->json, "filled");
    na_json_string(r->json, "id", "filled");
    na_json_string(r->json, "name", "Spans by size of block and how much of their room lives");
    na_json_string(r->json, "term", "filled");
    na_json_string(r->json, "xName", "room that lives from");
    na_json_string(r->json, "yName", "blocks of");
    na_json_array(r->json, "x");
    for (size_t e = 0; e < EIGHTHS; e++)
        na_json_string(r->json, NULL, names[e]);
    for (int pass = 0; pass < 2; pass++) {
        na_json_end(r->json);
        na_json_array(r->json, pass == 0 ? "y" : "values");
        for (uint32_t class = 1; class < CLASSES; class ++) {
            class_t all = {0};
            for (uint32_t node = 0; node < NODES; node++) {
                const class_t *c = &spans->classes[node * CLASSES + class];
                if (c->sum.spans == 0) continue;
                all.sum.spans += c->sum.spans;
                all.sum.block_size = c->sum.block_size;
                for (size_t e = 0; e < EIGHTHS; e++)
                    all.filled[e] += c->filled[e];
            }
            if (all.sum.spans == 0) continue;
            if (pass == 0) {
                put_span_size(r, class, &all);
                continue;
            }
            na_json_array(r->json, NULL);
            for (size_t e = 0; e < EIGHTHS; e++)
                na_json_u64(r->json, NULL, all.filled[e]);
            na_json_end(r->json);
        }
    }
    na_json_end(r->json);
    na_json_end(r->json);
}

bool na_webpage_spans(na_webpage_t *r, bool tables) {
    spans_t spans = {.classes = calloc((size_t)NODES * CLASSES, sizeof(class_t))};
    if (spans.classes != NULL) {
        na_reader_span_sums(r->in->reader, take_sum, &spans);
        if (tables) na_reader_span_sites(r->in->reader, take_site, &spans);
        if (!spans.failed && spans.all != 0) {
            if (tables) {
                put_span_classes(r, &spans);
                put_span_sites(r, &spans);
            } else {
                put_span_filled(r, &spans);
            }
        }
    }
    bool good = spans.classes != NULL && !spans.failed;
    free(spans.classes);
    free(spans.sites);
    return good;
}
