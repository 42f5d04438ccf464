/* html_page.h - the data of the HTML page (profiler/report): one JSON object, as src/model.js there
 * describes it, made by a few files of which each writes some of its members.
 *
 * Bounded whatever the profile holds: at most NA_WEBPAGE_SITES sites are told apart. The others are
 * put together below the innermost function that they have in common with one that is kept, so that
 * every sum over the tree stays what it was. Where the names of what is kept are so long that the
 * page would be larger than NA_WEBPAGE_PAGE_BYTES all the same, all bounds are halved, again and
 * again. */
#ifndef NUMALLOC_PROFILER_DUMP_PAGE_HTML_PAGE_H
#define NUMALLOC_PROFILER_DUMP_PAGE_HTML_PAGE_H

#include "profiler/dump/page/html_blocks.h"
#include "profiler/dump/page/html_intern.h"
#include "profiler/dump/profile/input.h"
#include "profiler/json/json.h"

#define NA_WEBPAGE_SITES        20000u
#define NA_WEBPAGE_NODES        400000u /* of the tree; stacks are cut at their inner end beyond */
#define NA_WEBPAGE_SERIES       200u    /* sites with a curve of their own */
#define NA_WEBPAGE_COURSES      1000u   /* the same from a trace, exactly */
#define NA_WEBPAGE_SOURCE_BYTES (2u << 20) /* of source text */
#define NA_WEBPAGE_PAGE_BYTES   9900000u
#define NA_WEBPAGE_NONE         UINT32_MAX
#define NA_WEBPAGE_OLD          UINT32_C(0x80000000) /* added to ids of what only the other run has */

/* A row of the table of sites: one site, or what was put together below a stack entry. */
typedef struct na_webpage_site {
    uint32_t id;   /* stack id of the site; 0: put together; of the other run's + NA_WEBPAGE_OLD */
    uint32_t node; /* of the page's tree */
    uint32_t by;   /* frame that is responsible; NA_WEBPAGE_NONE: not known */
    na_counters_t sum;
    na_counters_t before; /* the same of the other run, if there is one */
} na_webpage_site_t;

/* What a function is responsible for, bytes at the peak. */
typedef struct na_webpage_function {
    uint32_t function; /* of the page */
    int64_t self, below, before;
} na_webpage_function_t;

typedef struct na_webpage_functions {
    na_webpage_function_t *items;
    uint32_t *row_of; /* by function of the page: row + 1, 0: none */
    uint32_t count, room, row_room;
} na_webpage_functions_t;

typedef struct na_webpage {
    na_view_input_t *in;
    na_view_input_t *base;          /* the other run; NULL: no comparison */
    const struct na_errors *errors; /* of the program's memory; NULL: not asked for */
    na_json_t *json;
    na_intern_t strings; /* texts */
    na_intern_t functions, frames, nodes;
    na_webpage_site_t *sites;
    size_t site_count, site_room;
    uint32_t *row_of_site; /* by stack id: row + 1 of a site that is told apart, 0: none */
    na_webpage_functions_t by_function;
    size_t cut;                  /* sites that were put together */
    double cut_share;            /* each had at most this share of any figure */
    na_webpage_blocks_t *blocks; /* of a trace; NULL: none */
    na_handovers_t handed;       /* who freed whose blocks, of the whole, */
    na_handovers_t *site_handed; /* and of the first NA_WEBPAGE_COURSES rows; NULL: in `blocks` */
    unsigned shift;              /* bounds were halved so often */
    bool out_of_memory;
} na_webpage_t;

/* One of the bounds above, as it is now. */
static inline uint32_t na_webpage_most(const na_webpage_t *report, uint32_t most) {
    return most >> report->shift != 0 ? most >> report->shift : 1;
}

/* What the page is of besides: the run to compare with, and memory errors; NULL: none. */
typedef struct na_webpage_beside {
    na_view_input_t *base;
    const struct na_errors *errors;
} na_webpage_beside_t;

/* Writes the whole object to `to`. False: out of memory. */
bool na_webpage_write(na_view_input_t *in, const na_webpage_beside_t *beside, unsigned shift,
                      FILE *to);

/* html_sites.c: chooses sites, makes their rows and the tables that they need. False: out of
 * memory. */
bool na_webpage_choose(na_webpage_t *report);

/* The largest share that a site has of any figure that can be ordered by. */
double na_webpage_share(const na_view_input_t *in, const na_counters_t *sum);

/* html_functions.c: the functions that are responsible for most at the peak, of all sites; then the
 * other run's figure is added to one of them. False: out of memory. */
bool na_webpage_functions_choose(na_webpage_t *report);
bool na_webpage_functions_before(na_webpage_t *report, uint32_t function, const na_counters_t *sum);
/* "by_function". */
void na_webpage_functions(na_webpage_t *report);

/* html_base.c: the other run's sites get the rows of those with the same stack, or new ones.
 * False: out of memory. */
bool na_webpage_base(na_webpage_t *report);
/* "metrics", "totals", "base", "sites", "cut" and the tables of the tree. */
void na_webpage_sites(na_webpage_t *report);

/* html_time.c: "timeline". */
void na_webpage_time(na_webpage_t *report);

/* html_growth.c: "growth"; plays a trace, and fills `blocks` with it. */
void na_webpage_growth(na_webpage_t *report);

/* html_threads.c: "threads" and "handed"; fills `handed` and `site_handed`. */
void na_webpage_threads(na_webpage_t *report);

/* html_details.c: "site_details", "age_ns", "histograms" and "heat"; wants what the two before
 * have filled. */
void na_webpage_details(na_webpage_t *report);

/* html_access.c: "access", where the profile has any. */
void na_webpage_access(na_webpage_t *report);

/* html_spans.c: tables of "allocator"; or, without `tables`,
 * "filled". Nothing where the profile does not say. False: out of memory. */
bool na_webpage_spans(na_webpage_t *report, bool tables);

/* html_allocator.c: "nodes", "filled" and "allocator". */
void na_webpage_allocator(na_webpage_t *report);

/* html_parts.c: "run", "globals", "findings". */
void na_webpage_parts(na_webpage_t *report);

/* html_errors.c: "errors", where files of errors were named. */
void na_webpage_errors(na_webpage_t *report);

/* html_source.c: "sources": the text of files that frames lie in, where it can be read. */
void na_webpage_source(na_webpage_t *report);

#endif
