/* main.c - numalloc-dump: reads its command line, opens the profile and calls one view. */
#include <errno.h>
#include <getopt.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "numalloc/numalloc.h"
#include "profiler/dump/text.h"
#include "profiler/dump/view.h"

/* Exit status. */
#define EXIT_WHOLE   0
#define EXIT_PARTIAL 1 /* shown, but something in the file is damaged or not understood */
#define EXIT_NOTHING 2 /* wrong usage, or nothing could be shown */

static const struct view {
    const char *name, *help;
    bool (*text)(na_view_input_t *in);
    bool (*json)(na_view_input_t *in);
} views[] = {
    {"summary", "the run, and the functions that its memory came from (default)", na_view_summary,
     na_view_summary_json},
};
#define VIEWS (sizeof views / sizeof views[0])

static const char *const orders[] = {"peak", "live", "total", "count"};

static void help(void) {
    printf("Usage: numalloc-dump [VIEW] [OPTION]... FILE\n"
           "Shows a profile that numalloc recorded.\n"
           "\n"
           "Views:\n");
    for (size_t i = 0; i < VIEWS; i++)
        printf("  %-14s %s\n", views[i].name, views[i].help);
    printf("\n"
           "Options:\n"
           "  --sort KEY     order of rows: peak (bytes live at the peak, default), live (bytes\n"
           "                 still live), total (bytes ever requested), count (allocations)\n"
           "  --top N        rows of a table, default 20; 0: all\n"
           "  --sites        show sites, one for each distinct call stack, instead of functions\n"
           "  --stacks       show sites, each with its whole call stack\n"
           "  --wrappers W   auto (default): a function that only passes allocations on, such as\n"
           "                 xmalloc, is not where memory comes from; its caller is. These are\n"
           "                 functions with alloc, strdup or new in their names that two or more\n"
           "                 others call, and that call the allocator (or each other) in at least\n"
           "                 nine in ten of their places on stacks. none: only the C and C++\n"
           "                 runtime is passed over\n"
           "  --skip REGEX   pass over functions whose name matches this extended regular\n"
           "                 expression, too; may be given more than once\n"
           "  --json         write JSON: functions and sites, with --stacks their stacks\n"
           "  --help         this text\n"
           "  --version      the version\n"
           "\n"
           "Exit status: 0 complete; 1 shown, but the file is damaged (what is missing is said on\n"
           "standard error); 2 nothing shown.\n"
           "Record a profile: NUMALLOC_PROFILE=sites LD_PRELOAD=libnumalloc.so PROGRAM\n");
}

static int fail(const char *what) {
    fputs("numalloc-dump: ", stderr);
    na_text_put(stderr, what);
    fputc('\n', stderr);
    return EXIT_NOTHING;
}

static int usage(const char *what, const char *value) {
    char text[512];
    snprintf(text, sizeof text, "%s%s%s; see numalloc-dump --help", what, value == NULL ? "" : ": ",
             value == NULL ? "" : value);
    return fail(text);
}

/* What decides which frames pass an allocation on. */
#define MAX_SKIPS 32
typedef struct passing {
    bool automatic;
    regex_t skip[MAX_SKIPS];
    size_t count;
} passing_t;

static int show(const struct view *view, na_view_input_t *in, bool json, const passing_t *passing) {
    char error[512];
    in->reader = na_reader_open(in->path, error, sizeof error);
    if (in->reader == NULL) return fail(error);
    na_sites_t sites;
    bool good = na_sites_fold(in->reader, &sites);
    if (good) {
        na_sites_sort(&sites, in->order);
        in->sites = &sites;
        in->symbols = na_symbols_open(na_reader_stacks(in->reader), na_reader_modules(in->reader));
        /* Everything that can turn up damage is read before the view says what is damaged. */
        uint32_t count, interval;
        na_reader_threads(in->reader);
        na_reader_timeline(in->reader, &count, &interval);
        good = in->symbols != NULL &&
               na_view_functions(in, passing->automatic, passing->skip, passing->count) &&
               (json ? view->json(in) : view->text(in));
        na_view_functions_free(in);
        na_symbols_close(in->symbols);
    }
    na_sites_free(&sites);

    int status = EXIT_WHOLE;
    uint32_t issues = na_reader_issue_count(in->reader);
    bool written = fflush(stdout) == 0 && ferror(stdout) == 0;
    int write_error = errno;
    for (uint32_t i = 0; i < issues; i++) {
        char text[256];
        na_reader_issue_text(in->reader, i, text, sizeof text);
        fprintf(stderr, "numalloc-dump: incomplete: %s\n", text);
        status = EXIT_PARTIAL;
    }
    na_reader_close(in->reader);
    if (!good) return fail("not enough memory for this profile; use a machine with more");
    if (!written) {
        snprintf(error, sizeof error, "cannot write the output: %s", strerror(write_error));
        return fail(error);
    }
    return status;
}

int main(int argc, char **argv) {
    enum { SORT = 256, TOP, SITES, STACKS, WRAPPERS, SKIP, JSON, HELP, VERSION };
    static const struct option options[] = {
        {"sort", required_argument, NULL, SORT},
        {"top", required_argument, NULL, TOP},
        {"sites", no_argument, NULL, SITES},
        {"stacks", no_argument, NULL, STACKS},
        {"wrappers", required_argument, NULL, WRAPPERS},
        {"skip", required_argument, NULL, SKIP},
        {"json", no_argument, NULL, JSON},
        {"help", no_argument, NULL, HELP},
        {"version", no_argument, NULL, VERSION},
        {NULL, 0, NULL, 0},
    };
    setlocale(LC_CTYPE, "");
    na_view_input_t in = {.order = NA_ORDER_PEAK, .top = 20};
    static passing_t passing = {.automatic = true};
    bool json = false;
    opterr = 0;
    for (int option; (option = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
        switch (option) {
        case SORT: {
            size_t order = 0;
            while (order < 4 && strcmp(optarg, orders[order]) != 0)
                order++;
            if (order == 4) return usage("--sort takes peak, live, total or count, not", optarg);
            in.order = (na_order_t)order;
            break;
        }
        case TOP: {
            char *end;
            errno = 0;
            unsigned long long top = strtoull(optarg, &end, 10);
            if (optarg[0] < '0' || optarg[0] > '9' || *end != 0 || errno != 0)
                return usage("--top takes a number, not", optarg);
            in.top = top == 0 || top > SIZE_MAX ? SIZE_MAX : (size_t)top;
            break;
        }
        case STACKS:
            in.stacks = true;
            in.site_table = true;
            break;
        case SITES:
            in.site_table = true;
            break;
        case WRAPPERS:
            if (strcmp(optarg, "auto") != 0 && strcmp(optarg, "none") != 0)
                return usage("--wrappers takes auto or none, not", optarg);
            passing.automatic = optarg[0] == 'a';
            break;
        case SKIP: {
            if (passing.count == MAX_SKIPS)
                return usage("too many --skip; join them with |, as in --skip 'a|b'", NULL);
            int wrong = regcomp(&passing.skip[passing.count], optarg, REG_EXTENDED | REG_NOSUB);
            if (wrong != 0) {
                char why[128], text[256];
                regerror(wrong, &passing.skip[passing.count], why, sizeof why);
                snprintf(text, sizeof text, "--skip takes a regular expression (%s), not", why);
                return usage(text, optarg);
            }
            passing.count++;
            break;
        }
        case JSON:
            json = true;
            break;
        case 'h':
        case HELP:
            help();
            return EXIT_WHOLE;
        case VERSION:
            printf("numalloc-dump %d.%d.%d, profile format %u\n", NUMALLOC_VERSION_MAJOR,
                   NUMALLOC_VERSION_MINOR, NUMALLOC_VERSION_PATCH, NA_NPROF_VERSION);
            return EXIT_WHOLE;
        default:
            return usage("unknown option, or its value is missing", argv[optind - 1]);
        }
    }
    const struct view *view = &views[0];
    if (argc - optind >= 2) {
        size_t at = 0;
        while (at < VIEWS && strcmp(argv[optind], views[at].name) != 0)
            at++;
        if (at == VIEWS && access(argv[optind], F_OK) == 0)
            return usage("one profile at a time", argv[optind + 1]);
        if (at == VIEWS) return usage("no such view", argv[optind]);
        view = &views[at];
        optind++;
    }
    if (optind == argc) return usage("no profile named", NULL);
    if (argc - optind > 1) return usage("one profile at a time", argv[optind + 1]);
    in.path = argv[optind];
    int status = show(view, &in, json, &passing);
    for (size_t i = 0; i < passing.count; i++)
        regfree(&passing.skip[i]);
    return status;
}
