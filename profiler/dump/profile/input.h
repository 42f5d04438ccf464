/* input.h - what every view of numalloc-dump gets. A view is one file with one function;
 * view_table.c lists them all. It writes to stdout, which is the file of -o where there is one
 * (output.h). */
#ifndef NUMALLOC_PROFILER_DUMP_PROFILE_INPUT_H
#define NUMALLOC_PROFILER_DUMP_PROFILE_INPUT_H

#include "profiler/analyze/blocks/detail.h"
#include "profiler/analyze/blocks/function_costs.h"
#include "profiler/analyze/blocks/site_sums.h"
#include "profiler/dump/symbols/symbols.h"
#include "profiler/dump/ui/command_line.h"

/* Frames of one stack that are shown or looked at, from the innermost on: what the recorder keeps
 * at most. Only a file that no recorder wrote has more, and it must not cost the square of them. */
#define NA_VIEW_DEEPEST 1024u

typedef struct na_function_row {
    uint32_t id;             /* na_symbols_function */
    uint32_t sites;          /* that this function is responsible for */
    na_counters_t self;      /* exclusive: of those sites */
    na_cost_t below;         /* inclusive: of all stacks with this function, recursion once */
    bool wrapper;            /* never responsible, except where there is nobody else */
    uint32_t by;             /* id + 1 of a function that it allocates through; 0: none */
    bool by_more;            /* and there are others */
    double mapped, mappings; /* bytes that it mapped from the system itself, in how many calls */
    bool shown;              /* for the view */
    uint32_t group;          /* 1 + index of the group that it is in; 0: none */
    /* Of a group: how many functions, and of these how many are responsible for sites. 0: this is a
     * function. */
    uint32_t members, responsible;
} na_function_row_t;

typedef struct na_function_table {
    na_function_row_t *items; /* every function on a stack */
    size_t count;
    /* The functions of one module that have no symbols, put together where there are two or more;
     * `id` is that of one of them, and inclusive figures count a stack once. */
    na_function_row_t *groups;
    size_t group_count;
    size_t responsible;    /* rows with sites */
    na_counters_t nowhere; /* sites without a stack */
    size_t nowhere_sites;
} na_function_table_t;

/* By stack entry: the one whose frame is responsible for it, and the one that has what that called
 * (na_view_site). 0: none, or responsible 0: it was not looked for. */
typedef struct na_site_place {
    uint32_t responsible, leaf;
} na_site_place_t;

/* One profile, loaded (input.c). */
typedef struct na_view_input {
    const char *path;
    const na_options_t *options;
    na_reader_t *reader;
    na_symbols_t *symbols; /* NULL where the view did without (NA_VIEW_LIGHT) */
    na_sites_t sites;      /* sorted by `order` */
    na_order_t order;      /* what --sort says, if it names one of the four; else by the peak */
    na_maps_table_t maps;  /* what the program maps itself; none where the view did without */
    na_function_table_t functions;
    bool *wrappers; /* by function id, function_count of them */
    uint32_t function_count;
    na_site_place_t *places; /* as many as stacks; NULL where there are no symbols */
} na_view_input_t;

/* Opens a profile and sums it up; `light`: no symbols and no functions. On any other status than
 * NA_STATUS_WHOLE there is nothing to unload, and na_fail has said why (but for NA_STATUS_MEMORY).
 */
na_status_t na_view_load(na_view_input_t *in, const char *path, const na_options_t *options,
                         bool light);
/* Its two halves, for a view that plays a trace back itself (NA_VIEW_PLAYS). Events that `replay`
 * has played are not read again; it is closed in any case. NULL: none was opened. */
na_status_t na_view_open(na_view_input_t *in, const char *path, const na_options_t *options);
na_status_t na_view_sum(na_view_input_t *in, na_replay_t *replay, bool light);

/* Says on stderr what is damaged, with the file's name if `name_it`. NA_STATUS_PARTIAL: something
 * is. */
na_status_t na_view_unload(na_view_input_t *in, bool name_it);

/* The same, and says nothing: the file is of a process that runs. */
void na_view_drop(na_view_input_t *in);

/* peak, live, total or count. False: another word. */
bool na_view_order(const char *word, na_order_t *order);

/* The same as a text: "bytes live at the peak". */
const char *na_view_order_title(na_order_t order);

/* "sites"; "?" for a mode that this version does not know. */
const char *na_mode_name(uint32_t mode);

/* The moment that the figures of what lives are of, in words. */
typedef struct na_moment_words {
    const char *key;  /* "dump" */
    const char *live; /* what is live then is called: "never freed" only where nothing can follow */
    const char *when; /* "at the dump" */
    const char *ended; /* of the run: "ended normally" */
} na_moment_words_t;
const na_moment_words_t *na_view_moment(const na_view_input_t *in);
/* The moment that the spans are of: a process that runs had them looked at by its last dump. */
const char *na_view_spans_when(const na_view_input_t *in);

/* Counts are stored scaled; this is the count itself. */
static inline double na_view_count(const na_view_input_t *in, double scaled) {
    return scaled / (double)na_reader_header(in->reader)->count_scale;
}

/* Fills in->functions and in->wrappers. A function is a wrapper if
 *   - nine in ten of its stack entries or more called the allocator, the runtime or a wrapper,
 *   - at least two other functions call it, and
 *   - the last part of its name contains alloc, strdup, or new not followed by a small letter, in
 *     any case
 * (`automatic`); also if its name matches one of `skip`, whatever it does.
 * False: out of memory. Free with na_view_functions_free in both cases. */
bool na_view_functions(na_view_input_t *in, bool automatic, const regex_t *skip, size_t skip_count);
void na_view_functions_free(na_view_input_t *in);

/* By the figures of the order: exclusive ones, or inclusive (`below`). */
void na_view_functions_sort(na_function_table_t *table, na_order_t order, bool below);

/* Is the frame part of the runtime or a wrapper, so that its caller is responsible? */
bool na_view_passes_on(const na_view_input_t *in, const na_symbol_frame_t *frame);

/* The frame that is responsible for a site, and that it is shown as: the innermost one outside the
 * allocator, the C and C++ runtime and wrappers, else the innermost. `leaf` gets what that one
 * called of those (fopen, strdup, xmalloc), NULL if it has no name. NULL: the stack is missing. */
const na_symbol_frame_t *na_view_site(const na_view_input_t *in, uint32_t site,
                                      const na_symbol_frame_t **leaf);

/* The frames of one site's stack, innermost first, inlined calls included. `stack` begins as zeros
 * and is used again; free(stack->items) at last. False: out of memory. */
typedef struct na_stack {
    const na_symbol_frame_t **items;
    uint32_t count, room;
    bool cut; /* outer frames are not known or not looked at */
} na_stack_t;
bool na_view_stack(const na_view_input_t *in, uint32_t site, na_stack_t *stack);

/* Does a call give memory to the program? (What mremap makes larger was mapped by another.) */
static inline bool na_view_maps_more(const na_nprof_map_t *map) {
    return map->call == NA_NPROF_MAP_MMAP || map->call == NA_NPROF_MAP_BRK;
}

/* The functions that mapped most: "label 64.0 MiB in 4 calls, ...". Their sum in *all; false: the
 * program mapped nothing. */
bool na_view_mappers(const na_view_input_t *in, char *out, size_t size, double *all);

/* What a site or a function costs by in->order: bytes, or blocks. */
double na_view_metric(const na_view_input_t *in, const na_counters_t *sum);
double na_view_cost(const na_view_input_t *in, const na_cost_t *cost);
na_cost_t na_view_cost_of(const na_counters_t *sum);

/* Bytes or a count, as in->order says. */
const char *na_view_metric_text(const na_view_input_t *in, char out[40], double value);

/* Time of the peak that the sites' figures are about, in ms. */
uint64_t na_view_peak_ms(const na_view_input_t *in);

/* The sampled point of the timeline that covers the peak or is next to it; NULL: never sampled. */
const na_nprof_point_t *na_view_point_at_peak(const na_view_input_t *in);

/* Bytes of the profile itself: in memory near the peak (*at_peak), or where that is not known,
 * taken by the end. */
double na_view_own(const na_view_input_t *in, bool *at_peak);

/* What functions lack: a name (they have an address for one), or what was inlined into them. */
typedef enum na_lack { NA_LACK_NAME, NA_LACK_INLINED } na_lack_t;

/* The module whose debug information would give most of them that; *share: what those functions
 * have of in->order. Less than a hundredth is not worth a line. NULL: none. */
const char *na_view_lacking(const na_view_input_t *in, na_lack_t lack, double *share);

/* Text: says so. */
void na_view_say_lacking(const na_view_input_t *in);

/* Text: the stack of a site, a line a frame; for na_table_print_t.below, with the input as arg. */
void na_view_put_stack(void *arg, uint64_t site);

/* site_frames.c, for text: the name of a frame or function as tables have it (short, with file and
 * line); `out` has room for NA_LABEL bytes. */
#define NA_LABEL 768
void na_view_frame_label(const na_symbol_frame_t *frame, char out[NA_LABEL]);
void na_view_function_label(const na_function_name_t *function, char out[NA_LABEL]);
/* The same of a row, which may be a group. */
void na_view_row_label(const na_view_input_t *in, const na_function_row_t *row, char out[NA_LABEL]);

/* timeline_drawing.c: the highest level of a row within a stretch of time; not a number: not known.
 * For series of levels. */
double na_view_level(const na_series_table_t *t, uint32_t row, uint64_t from_ms, uint64_t to_ms);

/* timeline_drawing.c: the run drawn in characters; nothing if the profile has no timeline. */
void na_view_draw_timeline(const na_view_input_t *in, uint32_t width, uint32_t height);

/* A thread's name; of an entry that stands for several, how many. */
const char *na_view_thread_name(const na_nprof_thread_t *thread, char out[32]);

/* Why something is missing, as far as it is for want of room; NULL: it is not. */
const char *na_view_no_room(const na_view_input_t *in);

/* Text: modules whose symbols could not be had, and why; nothing if there are none. */
void na_view_say_missing(const na_view_input_t *in);

#endif
