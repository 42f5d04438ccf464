/* finding_words.c - findings (analyze/blocks/findings.h) in words, each with the place where most
 * of it comes from, and the most valuable first. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/dump/ui/text.h"
#include "profiler/dump/views/summary/summary.h"

static const struct {
    const char *key;
    const char *of;     /* a place has so many per cent of ...; NULL: no share is told */
    const char *change; /* what to do, in a clause */
    const char *reason, *remedy;
} words[NA_FINDING_KINDS] = {
    [NA_FINDING_OTHER_MALLOC] = {"other-malloc", NULL,
                                 "put libnumalloc.so.0 before it in LD_PRELOAD",
                                 "numalloc saw none of its blocks",
                                 "put libnumalloc.so.0 before it in LD_PRELOAD, or build the "
                                 "program without its allocator"},
    [NA_FINDING_LOST_EVENTS] = {"lost-events", NULL, NULL, "the figures lack them", NULL},
    [NA_FINDING_TRUNCATED_STACKS] =
        {"truncated-stacks", NULL, "build with -fasynchronous-unwind-tables",
         "their bytes are counted, but not below the functions that asked for them",
         "build with unwind tables (-fasynchronous-unwind-tables) or frame pointers; generated "
         "code cannot be followed"},
    [NA_FINDING_FEW_SAMPLES] =
        {"few-samples", NULL, "take a smaller NUMALLOC_SAMPLE_INTERVAL, or mode sites",
         "fewer than 400 samples: even the totals are known to no better than 10 %",
         "take a smaller NUMALLOC_SAMPLE_INTERVAL, or mode sites"},
    [NA_FINDING_NOT_FREED] =
        {"not-freed", "what was not freed", "free it, unless it is meant to stay",
         "a leak looks like this; so does a cache that is never emptied",
         "see numalloc-dump leaks; free it, or suppress what is meant to stay"},
    [NA_FINDING_ALLOCATION_RATE] =
        {"allocation-rate", "the allocations", "allocate less often (reuse blocks, reserve room)",
         "allocating takes time of its own, and cools the caches",
         "keep blocks for reuse, reserve containers, move allocations out of inner loops"},
    [NA_FINDING_TEMPORARIES] =
        {"temporaries", "the temporary blocks", "use the stack, or a buffer that is kept",
         "such a block does what a local variable or a kept buffer would do for nothing",
         "use the stack, or a buffer that is kept between calls"},
    [NA_FINDING_TINY_BLOCKS] =
        {"tiny-blocks", "the blocks", "put them into an array, or by value into their owners",
         "bookkeeping, pointers and cache misses outweigh what such blocks hold",
         "store objects in arrays or pools; put members by value instead of by pointer"},
    [NA_FINDING_ROUNDING] =
        {"rounding", "what rounding adds", "ask for sizes that blocks come in",
         "memory is handed out that nobody asked for",
         "ask for sizes just at, not just above, the sizes that blocks come in"},
    [NA_FINDING_RESIDENT] =
        {"resident", NULL, "look at stacks and mappings",
         "memory that was freed is kept by the allocator, lies between live blocks, or belongs to "
         "code, stacks and mappings of the program itself",
         "lower NUMALLOC_PURGE_DELAY; look at stacks and mmap"},
    [NA_FINDING_FRAGMENTATION] =
        {"fragmentation", NULL, "allocate what lives long apart from what does not",
         "a span of many blocks is kept as a whole while one of them lives",
         "allocate what lives long before or apart from what does not (an arena of its own, one "
         "array), or copy it together when the rest is freed; see numalloc-dump allocator "
         "--retention"},
    [NA_FINDING_CROSS_THREAD] =
        {"cross-thread", "those frees", "free where it was allocated, or hand over in batches",
         "a block that goes back to another thread costs more and leaves its cache",
         "free where it was allocated, or hand blocks over in batches"},
    [NA_FINDING_CROSS_NODE] =
        {"cross-node", "those frees", "keep producer and consumer on one node",
         "such blocks lived on one node and were used on another: remote memory is slower",
         "keep producer and consumer on one node; bind threads (numactl, OMP_PROC_BIND)"},
    [NA_FINDING_REALLOCS] = {"reallocs", "what realloc moved",
                             "ask for the final size, or double it at each step",
                             "growing step by step copies what is there",
                             "ask for the final size, or double it at each step"},
    [NA_FINDING_GROWTH] = {"growth", "what was copied to grow", "reserve the final size",
                           "a container that grows allocates, copies and frees at each step",
                           "reserve its final size"},
    [NA_FINDING_THREADS] = {"threads", NULL, "use a pool of threads",
                            "each thread that allocates has caches and a stack of its own",
                            "use a pool of threads"},
};

static void tell_evidence(const na_view_input_t *in, const na_finding_figure_t *f, char *out,
                          size_t size) {
    char a[NA_TEXT], b[NA_TEXT];
    const double *x = f->figure;
    switch (f->kind) {
    case NA_FINDING_OTHER_MALLOC:
        snprintf(out, size, "malloc was that of %.220s, not numalloc's",
                 na_reader_header(in->reader)->other_malloc);
        return;
    case NA_FINDING_LOST_EVENTS:
        snprintf(out, size, "%s events found no counter%s%s", na_text_count(a, x[0]),
                 na_view_no_room(in) != NULL ? ": " : "",
                 na_view_no_room(in) != NULL ? na_view_no_room(in) : "");
        return;
    case NA_FINDING_TRUNCATED_STACKS:
        snprintf(out, size, "%.1f %% of the allocations have a stack without its outer frames",
                 100 * x[0]);
        return;
    case NA_FINDING_FEW_SAMPLES:
        snprintf(out, size, "%s sample%s in all", na_text_count(a, x[0]),
                 x[0] >= 1 && x[0] < 2 ? "" : "s");
        return;
    case NA_FINDING_NOT_FREED:
        snprintf(out, size,
                 "%s were not freed at the end; up to %.0f %% of the peak are among them",
                 na_text_bytes(a, x[0]), 100 * x[1]);
        return;
    case NA_FINDING_ALLOCATION_RATE:
        snprintf(out, size, "%s allocations, %s a second", na_text_count(a, x[0]),
                 na_text_count(b, x[1]));
        return;
    case NA_FINDING_TEMPORARIES:
        snprintf(out, size, "%.0f %% of the blocks were freed before their thread allocated again",
                 100 * x[0]);
        return;
    case NA_FINDING_TINY_BLOCKS:
        snprintf(out, size, "%s blocks of %.0f bytes on average lived at the peak",
                 na_text_count(a, x[0]), x[1]);
        return;
    case NA_FINDING_ROUNDING:
        snprintf(out, size, "rounding up to block sizes adds %.0f %% to the peak", 100 * x[0]);
        return;
    case NA_FINDING_RESIDENT:
        snprintf(out, size, "%s were resident at most, and no more than %s requested",
                 na_text_bytes(a, x[0]), na_text_bytes(b, x[1]));
        return;
    case NA_FINDING_FRAGMENTATION:
        snprintf(out, size,
                 "%s lay between live blocks %s, which took %s: spans that few blocks keep",
                 na_text_bytes(a, x[0]), na_view_spans_when(in), na_text_bytes(b, x[1]));
        return;
    case NA_FINDING_CROSS_THREAD:
        snprintf(out, size, "%.0f %% of the frees are by another thread than allocated",
                 100 * x[0]);
        return;
    case NA_FINDING_CROSS_NODE:
        snprintf(out, size, "%.0f %% of the frees are on another node than allocated", 100 * x[0]);
        return;
    case NA_FINDING_REALLOCS:
        snprintf(out, size, "realloc moved %s, %.0f %% of all that was allocated",
                 na_text_bytes(a, x[0]), 100 * x[1]);
        return;
    case NA_FINDING_GROWTH:
        snprintf(out, size, "blocks of %s were replaced by larger ones, %.0f %% of all",
                 na_text_bytes(a, x[0]), 100 * x[1]);
        return;
    case NA_FINDING_THREADS:
        snprintf(out, size, "%s threads at one time", na_text_count(a, x[0]));
        return;
    case NA_FINDING_KINDS:
        break;
    }
    out[0] = 0;
}

/* ---- the place ---- */

/* What a site is called: its responsible frame; one without a name by the nearest caller that has
 * one. */
static bool name_site(const na_view_input_t *in, uint32_t site, char *out, size_t size) {
    const na_symbol_frame_t *leaf, *frame = na_view_site(in, site, &leaf);
    char label[NA_LABEL];
    if (frame == NULL) return false;
    na_view_frame_label(frame, label);
    if (!frame->named) {
        na_stack_t stack = {0};
        uint32_t i = 0;
        if (!na_view_stack(in, site, &stack)) stack.count = 0;
        while (i < stack.count && stack.items[i] != frame)
            i++;
        while (i < stack.count && (!stack.items[i]->named || stack.items[i]->runtime))
            i++;
        if (i < stack.count) {
            char caller[NA_LABEL];
            na_view_frame_label(stack.items[i], caller);
            snprintf(label, sizeof label, "code without symbols below %.700s", caller);
        }
        free(stack.items);
    }
    snprintf(out, size, "%s", label);
    return true;
}

/* Sites whose stacks are looked at for a place; a hostile file may have many that are deep, each
 * with a little more of it than the one before. */
#define MOST_LOOKS 4096u

/* The function that has most of it, and of its sites the first; `share`: the function's. */
static bool find_main_place(const na_view_input_t *in, const na_finding_figure_t *f,
                            na_finding_t *finding, char *place, size_t size) {
    double all = f->whole, most = 0;
    const na_function_row_t *by = NULL;
    for (size_t i = 0; i < in->functions.count; i++) {
        const na_function_row_t *row = &in->functions.items[i];
        double part = row->sites == 0 ? 0 : na_finding_part(f->kind, &row->self);
        if (part <= most) continue;
        most = part;
        by = row;
    }
    if (by == NULL || !(all > 0)) return false;
    finding->share = most < all ? most / all : 1;
    most = 0;
    uint32_t looks = 0;
    for (size_t i = 0; i < in->sites.count && looks < MOST_LOOKS; i++) {
        const na_site_t *site = &in->sites.items[i];
        double part = na_finding_part(f->kind, &site->sum);
        if (part <= most) continue;
        looks++;
        const na_symbol_frame_t *leaf, *frame = na_view_site(in, site->site, &leaf);
        if (frame == NULL || frame->id != by->id) continue;
        most = part;
        finding->site = site->site;
    }
    return most > 0 && name_site(in, finding->site, place, size);
}

#define KEEPERS 16u /* sites that are looked at */
#define NAMED   3u  /* places that are named */

/* The sites whose blocks keep most, the first ones. */
typedef struct keepers {
    na_nprof_span_site_t most[KEEPERS];
} keepers_t;

/* Those of them with one name: a reader cannot tell them apart. */
typedef struct keeper {
    char label[NA_LABEL];
    uint32_t sites;
    double kept, blocks;
} keeper_t;

static void add_keeper(void *arg, const na_nprof_span_site_t *s) {
    keepers_t *keepers = arg;
    na_nprof_span_site_t site = *s;
    for (size_t i = 0; i < KEEPERS; i++) {
        if (site.sparse_kept <= keepers->most[i].sparse_kept) continue;
        na_nprof_span_site_t less = keepers->most[i];
        keepers->most[i] = site;
        site = less;
    }
}

/* The one of that name, or a new one behind the others; NULL: it has no name. */
static keeper_t *keeper_of(const na_view_input_t *in, uint32_t site, keeper_t *all, size_t *count) {
    keeper_t *fresh = &all[*count];
    if (!name_site(in, site, fresh->label, sizeof fresh->label)) return NULL;
    for (size_t i = 0; i < *count; i++)
        if (strcmp(all[i].label, fresh->label) == 0) return &all[i];
    ++*count;
    return fresh;
}

static bool find_keepers(const na_view_input_t *in, na_finding_t *finding, char *place,
                         size_t size) {
    keepers_t keepers = {0};
    keeper_t named[KEEPERS] = {{{0}, 0, 0, 0}};
    size_t count = 0, used = 0;
    na_reader_span_sites(in->reader, add_keeper, &keepers);
    for (size_t i = 0; i < KEEPERS && keepers.most[i].sparse_kept != 0; i++) {
        keeper_t *keeper = keeper_of(in, keepers.most[i].site, named, &count);
        if (keeper == NULL) continue;
        if (finding->site == 0) finding->site = keepers.most[i].site;
        keeper->sites++;
        keeper->kept += (double)keepers.most[i].sparse_kept;
        keeper->blocks += (double)keepers.most[i].sparse_blocks;
    }
    for (size_t n = 0; n < NAMED; n++) {
        keeper_t *most = &named[0];
        for (size_t i = 1; i < count; i++)
            if (named[i].kept > most->kept) most = &named[i];
        if (!(most->kept > 0)) break;
        char a[NA_TEXT], b[NA_TEXT], c[NA_TEXT] = "";
        if (most->sites > 1) snprintf(c, sizeof c, " in %u places", most->sites);
        int length = snprintf(place + used, size - used, "%s%s%s  %s by %s block%s",
                              used == 0 ? "" : "; ", most->label, c, na_text_bytes(a, most->kept),
                              na_text_count(b, most->blocks), most->blocks > 1 ? "s" : "");
        if (length < 0 || (size_t)length >= size - used) break;
        used += (size_t)length;
        most->kept = 0;
    }
    return used != 0;
}

/* ---- all of them ---- */

/* An estimate that is as wide as itself, or wider, may be of nothing: it comes last. */
#define UNSURE 1

/* Of what is resident beyond the blocks, what the program must have mapped itself to be named. */
#define MAPPED_MUCH 0.1

typedef struct texts {
    char evidence[256], place[4 * NA_LABEL], saves[96], line[5 * NA_LABEL];
    na_finding_t finding;
    double rank;
} texts_t;

static void tell_saving(const na_view_input_t *in, texts_t *t, const na_finding_figure_t *f) {
    char a[NA_TEXT], b[NA_TEXT];
    bool late = na_begun_late(in->reader);
    uint64_t processes = na_reader_header(in->reader)->processes;
    na_finding_t *finding = &t->finding;
    finding->unit = f->unit;
    if (f->unit == NA_SAVING_UNKNOWN) return;
    double share = finding->share > 0 ? finding->share : 1;
    finding->saved = f->saves * share;
    finding->worth = f->worth * share;
    const char *how = f->at_most ? "at most" : "about";
    if (f->not_peak)
        snprintf(t->saves, sizeof t->saves, "%s %s of the %s resident %s", how,
                 na_text_bytes(a, finding->saved), na_text_bytes(b, f->figure[0] + f->figure[1]),
                 na_view_spans_when(in));
    else if (f->unit == NA_SAVING_BYTES)
        snprintf(t->saves, sizeof t->saves, "%s %s, %.0f %% of the %speak", how,
                 na_text_bytes(a, finding->saved), 100 * finding->worth, late ? "profile's " : "");
    else
        snprintf(t->saves, sizeof t->saves, "%s %s, %.0f %% of the %s", how,
                 na_text_ms(a, (uint64_t)(finding->saved + 0.5)), 100 * finding->worth,
                 late            ? "profile's time"
                 : processes > 1 ? "runs of all processes"
                                 : "run");
    finding->saves = t->saves;
}

/* Where, its share, what to do, what that saves. */
static void tell_line(texts_t *t, const na_finding_figure_t *f, const char *change) {
    na_finding_t *finding = &t->finding;
    size_t room = sizeof t->line;
    t->line[0] = 0;
    bool mapped = f->kind == NA_FINDING_RESIDENT && finding->place != NULL;
    na_text_append(t->line, room, "%s",
                   finding->place != NULL && !mapped ? finding->place : finding->evidence);
    if (mapped) na_text_append(t->line, room, "; the program mapped %s", finding->place);
    if (finding->place != NULL && words[f->kind].of != NULL)
        na_text_append(t->line, room, " has %.0f %% of %s", 100 * finding->share,
                       words[f->kind].of);
    na_text_append(t->line, room, ": %s", change);
    if (finding->saves != NULL) na_text_append(t->line, room, "; saves %s", finding->saves);
    if (isfinite(f->error) && f->error >= UNSURE)
        na_text_append(t->line, room, " (of few samples: +- %.0f %%)", 100 * f->error);
    finding->line = t->line;
}

/* What to do where it depends on the profile; NULL: it does not. */
static const char *special_remedy(const na_view_input_t *in, const na_finding_figure_t *f) {
    const na_nprof_header_t *h = na_reader_header(in->reader);
    if (f->kind == NA_FINDING_OTHER_MALLOC && strcmp(h->other_malloc, h->program) == 0)
        return "build the program without its allocator"; /* nothing can be preloaded before it */
    if (f->kind != NA_FINDING_LOST_EVENTS) return NULL;
    if (h->disk_full == NA_NPROF_FULL_DISK)
        return "make room for the profile (NUMALLOC_PROFILE_FILE on another disk) and run again";
    if (h->disk_full == NA_NPROF_FULL_MAPPINGS || (h->own_full & NA_NPROF_OWN_REFUSED) != 0)
        return "give the process more memory (ulimit -v, the control group's limit, "
               "vm.max_map_count) and run again";
    return "run again without allocations in signal handlers, if those can be spared";
}

static void tell_finding(const na_view_input_t *in, const na_finding_figure_t *f, texts_t *t) {
    na_finding_t *finding = &t->finding;
    const char *special = special_remedy(in, f);
    *finding = (na_finding_t){
        .key = words[f->kind].key,
        .value = f->value,
        .threshold = f->threshold,
        .evidence = t->evidence,
        .reason = words[f->kind].reason,
        .remedy = special != NULL ? special : words[f->kind].remedy,
        .of_profile = na_finding_of_profile(f->kind),
    };
    tell_evidence(in, f, t->evidence, sizeof t->evidence);
    double mapped;
    bool placed = f->kind == NA_FINDING_RESIDENT
                      ? na_view_mappers(in, t->place, sizeof t->place, &mapped) &&
                            mapped >= MAPPED_MUCH * f->saves
                  : f->kind == NA_FINDING_FRAGMENTATION
                      ? find_keepers(in, finding, t->place, sizeof t->place)
                      : na_finding_has_place(f->kind) &&
                            find_main_place(in, f, finding, t->place, sizeof t->place);
    if (placed) finding->place = t->place;
    tell_saving(in, t, f);
    tell_line(t, f, special != NULL ? special : words[f->kind].change);
    /* What may be needed counts a quarter. */
    t->rank = finding->of_profile ? 2 : f->at_most ? finding->worth / 4 : finding->worth;
    if (f->error >= UNSURE) t->rank = -1;
}

/* The most valuable first, equal ones as they are in the table. */
static void put_in_order(texts_t **texts, size_t count) {
    for (size_t i = 1; i < count; i++) {
        texts_t *t = texts[i];
        size_t at = i;
        for (; at > 0 && texts[at - 1]->rank < t->rank; at--)
            texts[at] = texts[at - 1];
        texts[at] = t;
    }
}

size_t na_warnings_each(const na_view_input_t *in,
                        void (*visit)(void *arg, const na_finding_t *finding), void *arg) {
    na_finding_figure_t found[NA_FINDING_KINDS];
    texts_t *order[NA_FINDING_KINDS];
    size_t count = na_findings(in->reader, &in->sites, found);
    texts_t *texts = calloc(count + 1, sizeof *texts);
    if (texts == NULL) return 0;
    for (size_t i = 0; i < count; i++) {
        order[i] = &texts[i];
        tell_finding(in, &found[i], &texts[i]);
    }
    put_in_order(order, count);
    for (size_t i = 0; i < count; i++)
        visit(arg, &order[i]->finding);
    free(texts);
    return count;
}

size_t na_warnings_count(const na_view_input_t *in) {
    na_finding_figure_t found[NA_FINDING_KINDS];
    return na_findings(in->reader, &in->sites, found);
}
