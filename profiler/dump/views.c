/* views.c - the table of views, and the help that comes from it. */
#include "profiler/dump/views.h"

#include <stdio.h>
#include <string.h>

#include "profiler/dump/access_view.h"

#define NA_TAKES_SUMMARY                                                                           \
    (NA_TAKES_SORT | NA_TAKES_TOP | NA_TAKES_JSON | NA_TAKES_FUNCTIONS | NA_TAKES_SITES |          \
     NA_TAKES_STACKS | NA_TAKES_WRAPPERS)

#define NA_TAKES_TREE                                                                              \
    (NA_TAKES_SORT | NA_TAKES_TOP | NA_TAKES_FILTER | NA_TAKES_JSON | NA_TAKES_CSV |               \
     NA_TAKES_DEPTH | NA_TAKES_MIN | NA_TAKES_WRAPPERS)

const na_view_t na_views[] = {
    {"summary", "FILE", "the run, and the functions that its memory came from (default)",
     "--json writes functions and sites, with --stacks their stacks.", NA_IN_ALL, 0,
     NA_TAKES_SUMMARY, na_view_summary, NULL},
    {"functions", "FILE", "functions, with what they asked for and what they called asked for",
     "--access: functions that touch memory, and from where to where.", NA_IN_ALL, NA_VIEW_TABLE,
     NA_TAKES_TABLE | NA_TAKES_WRAPPERS | NA_TAKES_ACCESS | NA_TAKES_WHERE, na_view_functions_show,
     NULL},
    {"sites", "FILE", "sites, one for each distinct call stack", NULL, NA_IN_ALL, NA_VIEW_TABLE,
     NA_TAKES_TABLE | NA_TAKES_STACKS | NA_TAKES_WRAPPERS, na_view_sites, NULL},
    {"callers", "FILE", "functions that allocate, and below each its callers",
     "--filter: paths begin at the innermost function that matches.", NA_IN_ALL, 0, NA_TAKES_TREE,
     na_view_callers, NULL},
    {"callees", "FILE", "the calls from the start of each thread inwards",
     "--filter: paths begin at the outermost function that matches.", NA_IN_ALL, 0, NA_TAKES_TREE,
     na_view_callees, NULL},
    {"libraries", "FILE", "memory by program and library", NULL, NA_IN_ALL, NA_VIEW_TABLE,
     NA_TAKES_TABLE | NA_TAKES_WRAPPERS, na_view_libraries, NULL},
    {"threads", "FILE", "what each thread allocated, and whose blocks it freed",
     "--access: what each thread touched, and on which nodes it ran.", NA_IN_ALL,
     NA_VIEW_LIGHT | NA_VIEW_TABLE, NA_TAKES_TABLE | NA_TAKES_ACCESS | NA_TAKES_WHERE,
     na_view_threads, NULL},
    {"timeline", "FILE", "memory over time",
     "--json and --csv write its points; without a value: nothing happened in the interval.",
     NA_IN_ALL, NA_VIEW_LIGHT, NA_TAKES_JSON | NA_TAKES_CSV | NA_TAKES_SIZE, na_view_timeline,
     NULL},
    {"events", "FILE", "every event, in the order in which they happened",
     "--filter: events of that kind (free, realloc, ...), and all of blocks that were allocated "
     "or\n"
     "freed on a stack with such a name. Stacks are numbers, as in the JSON of other views.",
     NA_IN(NA_NPROF_MODE_TRACE), NA_VIEW_LIGHT | NA_VIEW_FILTERS_STACKS,
     NA_TAKES_TOP | NA_TAKES_FILTER | NA_TAKES_JSON | NA_TAKES_CSV, na_view_events, NULL},
    {"at", "FILE", "what lives at a moment, or what changed between two, by site",
     "Any moment of a trace; of the other modes the peak and the end.", NA_IN_ALL, NA_VIEW_TABLE,
     NA_TAKES_TABLE | NA_TAKES_STACKS | NA_TAKES_WRAPPERS | NA_TAKES_TIME, na_view_at, NULL},
    {"sizes", "FILE", "blocks by size, as asked for and as handed out",
     "--filter chooses sites. Bytes of sites with blocks of several rows are a row of their own,\n"
     "but in a trace.",
     NA_IN_ALL, NA_VIEW_TABLE, NA_TAKES_TABLE | NA_TAKES_WRAPPERS, na_view_sizes, NULL},
    {"lifetimes", "FILE", "blocks by lifetime, and lifetime by size",
     "--filter chooses sites; --json has \"by_size\", frees by the number of binary digits of the "
     "size.",
     NA_IN_ALL, NA_VIEW_TABLE, NA_TAKES_TABLE | NA_TAKES_WRAPPERS, na_view_lifetimes, NULL},
    {"temporary", "FILE", "sites whose blocks are freed before their thread allocates again", NULL,
     NA_IN_ALL, NA_VIEW_TABLE, NA_TAKES_TABLE | NA_TAKES_WRAPPERS, na_view_temporary, NULL},
    {"globals", "FILE", "global and thread-local variables, by variable or module",
     "Read from the modules' own files, not from the profile.", NA_IN_ALL,
     NA_VIEW_LIGHT | NA_VIEW_TABLE | NA_VIEW_FACTS, NA_TAKES_TABLE | NA_TAKES_MODULES,
     na_view_globals, NULL},
    {"allocator", "FILE", "the allocator's spans at the end: how full, what is lost, who keeps it",
     "Blocks from before the profile are not seen. --retention: \"kept\" is what a site's blocks "
     "have "
     "of\n"
     "the memory that is resident in sparse spans and in no live block; \"of age\": how old they "
     "are.",
     NA_IN(NA_NPROF_MODE_SITES) | NA_IN(NA_NPROF_MODE_TRACE), NA_VIEW_TABLE,
     NA_TAKES_TABLE | NA_TAKES_STACKS | NA_TAKES_WRAPPERS | NA_TAKES_RETENTION, na_view_allocator,
     NULL},
    {"realloc", "FILE", "sites whose blocks grow, by realloc or by copying", NULL,
     NA_IN(NA_NPROF_MODE_SITES) | NA_IN(NA_NPROF_MODE_TRACE), NA_VIEW_TABLE,
     NA_TAKES_TABLE | NA_TAKES_WRAPPERS, na_view_realloc, NULL},
    {"leaks", "FILE", "what was never freed, with LeakSanitizer's suppressions", NULL, NA_IN_ALL,
     NA_VIEW_TABLE, NA_TAKES_TABLE | NA_TAKES_STACKS | NA_TAKES_WRAPPERS | NA_TAKES_SUPPRESSIONS,
     na_view_leaks, NULL},
    {"source", "FILE", "source lines with their figures",
     "--filter chooses files; without it those that allocate themselves are shown.", NA_IN_ALL, 0,
     NA_TAKES_SORT | NA_TAKES_TOP | NA_TAKES_FILTER | NA_TAKES_JSON | NA_TAKES_CSV |
         NA_TAKES_WRAPPERS | NA_TAKES_SOURCE | NA_TAKES_SOURCE_PATH,
     na_view_source, NULL},
    {"warnings", "FILE", "what asks for attention, with reason and remedy", NULL, NA_IN_ALL, 0,
     NA_TAKES_JSON | NA_TAKES_CSV | NA_TAKES_WRAPPERS, na_view_warnings, NULL},
    {"run", "FILE", "options, environment, modules, what the file is made of", NULL, NA_IN_ALL,
     NA_VIEW_LIGHT | NA_VIEW_FACTS, 0, na_view_run, NULL},
    {"top", "PID", "a running process, again and again: functions by what they have live",
     "Reads the profile that the process records, without stopping it. Written to a file or a "
     "pipe: "
     "once.",
     NA_IN_ALL, NA_VIEW_TABLE, NA_TAKES_TABLE | NA_TAKES_WRAPPERS | NA_TAKES_LIVE, NULL,
     na_view_top},
    {"diff", "OLD NEW", "what changed between two profiles, by function",
     "--sort peak, live, total or count says which figure is compared.", NA_IN_ALL, NA_VIEW_TABLE,
     NA_TAKES_TABLE | NA_TAKES_WRAPPERS, NULL, na_view_diff},
    {"compare", "FILE...", "several runs beside each other, on one relative time axis", NULL,
     NA_IN_ALL, NA_VIEW_TABLE, NA_TAKES_TABLE, NULL, na_view_compare},
    {"aggregate", "FILE...", "the processes of one job: spread of peaks, highest and lowest rank",
     NULL, NA_IN_ALL, NA_VIEW_TABLE, NA_TAKES_TABLE | NA_TAKES_WRAPPERS, NULL, na_view_aggregate},
    {"check", "FILE", "validates a profile against limits and a baseline, for scripts",
     "FIGURE: peak, live, leaks, leaked-blocks, total, allocations, reallocs, temporary, "
     "physical,\n"
     "waste, threads, lost. Exit status 1 and a few lines if one fails, or the file is damaged.",
     NA_IN_ALL, 0, NA_TAKES_CHECK | NA_TAKES_BASELINE | NA_TAKES_SUPPRESSIONS | NA_TAKES_WRAPPERS,
     na_view_check, NULL},
    {"bundle", "FILE", "writes a copy with symbols (-o FILE), which reads on any machine", NULL,
     NA_IN_ALL, NA_VIEW_FACTS, 0, na_view_bundle, NULL},
    {"pools", "FILE", "blocks that the program's own pools announced, by pool and site",
     "Pools are a kind of their own: their memory is counted under malloc or mappings as well.",
     NA_IN_ALL, NA_VIEW_TABLE | NA_VIEW_FACTS, NA_TAKES_TABLE | NA_TAKES_WRAPPERS, na_view_pools,
     NULL},
    {"markers", "FILE", "moments that the program named", NULL, NA_IN_ALL,
     NA_VIEW_LIGHT | NA_VIEW_TABLE | NA_VIEW_FACTS, NA_TAKES_TABLE, na_view_markers, NULL},
    {"inherited", "FILE", "a forked child: blocks it has from its ancestors, and frees of them",
     "Sites are named if the ancestor's profile lies where it was, or beside this one.", NA_IN_ALL,
     NA_VIEW_TABLE, NA_TAKES_TABLE | NA_TAKES_WRAPPERS, na_view_inherited, NULL},
    {"session", "FILE", "which part of which run of which process of a job this is", NULL,
     NA_IN_ALL, NA_VIEW_LIGHT | NA_VIEW_TABLE | NA_VIEW_FACTS, NA_TAKES_TABLE, na_view_session,
     NULL},

    {"memory", "FILE...", "accesses: from which node to which, over time, by kind of object",
     "Several files: the processes of one application.", NA_IN_ALL, NA_VIEW_ACCESSES,
     NA_TAKES_JSON | NA_TAKES_WHERE | NA_TAKES_WRAPPERS, NULL, na_view_memory},
    {"objects", "FILE...", "accesses by object: what was touched from other nodes",
     "By origin: site, variable, file. --instances: every object by itself.", NA_IN_ALL,
     NA_VIEW_TABLE | NA_VIEW_ACCESSES,
     NA_TAKES_TABLE | NA_TAKES_WHERE | NA_TAKES_INSTANCES | NA_TAKES_WRAPPERS |
         NA_TAKES_SOURCE_PATH,
     NULL, na_view_objects},
    {"object", "ID FILE...", "accesses to one object over time, by thread and function",
     "ID: as 'objects' has it.", NA_IN_ALL, NA_VIEW_ACCESSES,
     NA_TAKES_JSON | NA_TAKES_TOP | NA_TAKES_WHERE | NA_TAKES_WRAPPERS | NA_TAKES_SOURCE_PATH, NULL,
     na_view_object},
    {"sharing", "FILE...", "objects that threads share, and the groups of threads that makes", NULL,
     NA_IN_ALL, NA_VIEW_TABLE | NA_VIEW_ACCESSES,
     NA_TAKES_TABLE | NA_TAKES_WHERE | NA_TAKES_WRAPPERS | NA_TAKES_SOURCE_PATH, NULL,
     na_view_sharing},
    {"pages", "FILE...", "accesses by page: where it lies, and from where it is touched", NULL,
     NA_IN_ALL, NA_VIEW_TABLE | NA_VIEW_ACCESSES,
     NA_TAKES_TABLE | NA_TAKES_WHERE | NA_TAKES_WRAPPERS | NA_TAKES_SOURCE_PATH, NULL,
     na_view_pages},
    {"verdicts", "FILE...", "what is wrong with where memory lies, and what to do about it",
     "docs/access-profiling.md has the rules and their thresholds.", NA_IN_ALL, NA_VIEW_ACCESSES,
     NA_TAKES_JSON | NA_TAKES_TOP | NA_TAKES_FILTER | NA_TAKES_WHERE | NA_TAKES_WRAPPERS |
         NA_TAKES_SOURCE_PATH,
     NULL, na_view_verdicts},

    {"json", "FILE", "all of the profile, for programs (docs/profile-json.md)", NULL, NA_IN_ALL,
     NA_VIEW_EXPORT, NA_TAKES_WRAPPERS, na_export_json, NULL},
    {"csv", "FILE", "all sites as comma-separated values", NULL, NA_IN_ALL,
     NA_VIEW_EXPORT | NA_VIEW_TABLE,
     NA_TAKES_SORT | NA_TAKES_TOP | NA_TAKES_FILTER | NA_TAKES_WRAPPERS, na_export_csv, NULL},
    {"folded", "FILE", "a line for each stack, as flamegraph.pl reads it", NULL, NA_IN_ALL,
     NA_VIEW_EXPORT, NA_TAKES_METRIC, na_export_folded, NULL},
    {"callgrind", "FILE", "for kcachegrind and callgrind_annotate", NULL, NA_IN_ALL, NA_VIEW_EXPORT,
     0, na_export_callgrind, NULL},
    {"pprof", "FILE", "for pprof (gzip-compressed profile.proto)",
     "Sample types: alloc_objects, alloc_space, inuse_objects, inuse_space, peak.", NA_IN_ALL,
     NA_VIEW_EXPORT, 0, na_export_pprof, NULL},
    {"speedscope", "FILE", "for speedscope", NULL, NA_IN_ALL, NA_VIEW_EXPORT, NA_TAKES_METRIC,
     na_export_speedscope, NULL},
    {"heaptrack", "FILE", "for heaptrack_print and heaptrack_gui", NULL, NA_IN(NA_NPROF_MODE_TRACE),
     NA_VIEW_EXPORT, 0, na_export_heaptrack, NULL},
    {"massif", "FILE", "for ms_print and massif-visualizer", NULL, NA_IN_ALL, NA_VIEW_EXPORT,
     NA_TAKES_MIN, na_export_massif, NULL},
    {"html", "FILE", "one page with charts, flame graph and source, for a browser",
     "The page needs no server and no network: numalloc-dump html FILE -o report.html. With\n"
     "--baseline OLD it colours the flame graph and lists the sites by what changed.",
     NA_IN_ALL, NA_VIEW_EXPORT, NA_TAKES_WRAPPERS | NA_TAKES_BASELINE, na_export_html, NULL},
};
const size_t na_view_count_all = sizeof na_views / sizeof na_views[0];

/* In the order of the help. `how`: what to set to record it. */
static const struct mode {
    uint32_t mode;
    const char *name;
} modes[] = {
    {NA_NPROF_MODE_SAMPLE, "sample"},
    {NA_NPROF_MODE_SITES, "sites"},
    {NA_NPROF_MODE_TRACE, "trace"},
};
#define MODES (sizeof modes / sizeof modes[0])

const char *na_mode_name(uint32_t mode) {
    for (size_t i = 0; i < MODES; i++)
        if (modes[i].mode == mode) return modes[i].name;
    return "?";
}

const na_view_t *na_view_find(const char *name) {
    for (size_t i = 0; i < na_view_count_all; i++)
        if (strcmp(na_views[i].name, name) == 0) return &na_views[i];
    return NULL;
}

void na_view_files(const na_view_t *view, size_t *least, size_t *most) {
    bool two = strcmp(view->words, "OLD NEW") == 0 || strcmp(view->words, "ID FILE...") == 0;
    *least = two ? 2 : 1;
    *most = strstr(view->words, "...") != NULL ? SIZE_MAX : *least;
}

bool na_view_has_data(const na_view_t *view, const na_view_input_t *in) {
    uint32_t mode = na_reader_header(in->reader)->mode;
    if ((view->modes & NA_IN(mode)) != 0) return true;
    char with[64] = "";
    for (size_t i = 0; i < MODES; i++) {
        if ((view->modes & NA_IN(modes[i].mode)) == 0) continue;
        size_t used = strlen(with);
        snprintf(with + used, sizeof with - used, "%s%s", used == 0 ? "" : " or ", modes[i].name);
    }
    na_fail("%s: '%s' needs a profile of mode %s, this one is of mode %s; record it with "
            "NUMALLOC_PROFILE=%.*s",
            in->path, view->name, with, na_mode_name(mode), (int)strcspn(with, " "), with);
    return false;
}

static const char *kind_of(const na_view_t *view, uint32_t mode) {
    if ((view->modes & NA_IN(mode)) == 0) return "-";
    if (mode == NA_NPROF_MODE_SAMPLE && (view->flags & NA_VIEW_FACTS) == 0) return "estimates";
    return "yes";
}

#define KINDS (NA_VIEW_EXPORT | NA_VIEW_ACCESSES)

/* Views with these of the flags KINDS. */
static void list(const char *title, uint32_t kind) {
    printf("\n%-12s", title);
    for (size_t m = 0; m < MODES; m++)
        printf(" %-9s", modes[m].name);
    putchar('\n');
    for (size_t i = 0; i < na_view_count_all; i++) {
        const na_view_t *view = &na_views[i];
        if ((view->flags & KINDS) != kind) continue;
        printf("  %-10s", view->name);
        for (size_t m = 0; m < MODES; m++)
            printf(" %-9s", kind_of(view, modes[m].mode));
        printf(" %s\n", view->help);
    }
}

static void exit_status(void) {
    printf("\n"
           "Exit status: 0 complete; 1 shown, but the file is damaged (what is missing is said on\n"
           "standard error), or a check failed; 2 nothing shown.\n"
           "Record a profile: NUMALLOC_PROFILE=sites LD_PRELOAD=libnumalloc.so PROGRAM\n");
}

void na_views_help(bool names) {
    if (names) {
        for (size_t i = 0; i < na_view_count_all; i++)
            printf("%s\n", na_views[i].name);
        puts("help");
        return;
    }
    printf("Usage: numalloc-dump [VIEW] FILE [OPTION]...\n"
           "       numalloc-dump help [VIEW]\n"
           "Shows a profile that numalloc recorded. Which view needs which mode of "
           "NUMALLOC_PROFILE:\n");
    list("Views", 0);
    list("Of accesses", NA_VIEW_ACCESSES);
    printf("  (with ,access=auto after the mode: NUMALLOC_PROFILE=sites,access=auto)\n");
    list("Exports", NA_VIEW_EXPORT);
    printf("\nOptions of summary (numalloc-dump help VIEW has those of the others):\n");
    na_options_help(na_views[0].takes, false);
    exit_status();
}

void na_view_help(const na_view_t *view, bool names) {
    if (names) {
        na_options_help(view->takes, true);
        return;
    }
    printf("Usage: numalloc-dump %s %s [OPTION]...\n%s.\n", view->name, view->words, view->help);
    if (view->more != NULL) printf("%s\n", view->more);
    printf("\nProfiles:");
    for (size_t m = 0; m < MODES; m++)
        printf("%s %s: %s", m == 0 ? "" : ";", modes[m].name, kind_of(view, modes[m].mode));
    if ((view->flags & NA_VIEW_ACCESSES) != 0)
        printf("\nwith accesses: NUMALLOC_PROFILE=MODE,access=auto");
    printf("\n\nOptions:\n");
    na_options_help(view->takes, false);
    exit_status();
}
