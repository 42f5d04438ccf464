/* main.c - numalloc-dump: reads its command line, opens the profile and calls one view. */
#include <errno.h>
#include <getopt.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "numalloc/numalloc.h"
#include "profiler/dump/text.h"
#include "profiler/dump/view.h"

/* Exit status. */
#define EXIT_WHOLE   0
#define EXIT_PARTIAL 1 /* shown, but something in the file is damaged or not understood */
#define EXIT_NOTHING 2 /* wrong usage, or nothing could be shown */

static const struct view {
    const char *name, *help;
    bool (*text)(const na_view_input_t *in);
    bool (*json)(const na_view_input_t *in);
} views[] = {
    {"summary", "the run and its top allocation sites (default)", na_view_summary,
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
           "  --sort KEY     order of sites: peak (bytes live at the peak, default), live (bytes\n"
           "                 still live), total (bytes ever requested), count (allocations)\n"
           "  --top N        sites shown, default 20; 0: all\n"
           "  --stacks       show the whole call stack of each site\n"
           "  --json         write JSON\n"
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

static int show(const struct view *view, na_view_input_t *in, bool json) {
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
        good = in->symbols != NULL && (json ? view->json(in) : view->text(in));
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
    enum { SORT = 256, TOP, STACKS, JSON, HELP, VERSION };
    static const struct option options[] = {
        {"sort", required_argument, NULL, SORT},
        {"top", required_argument, NULL, TOP},
        {"stacks", no_argument, NULL, STACKS},
        {"json", no_argument, NULL, JSON},
        {"help", no_argument, NULL, HELP},
        {"version", no_argument, NULL, VERSION},
        {NULL, 0, NULL, 0},
    };
    setlocale(LC_CTYPE, "");
    na_view_input_t in = {.order = NA_ORDER_PEAK, .top = 20};
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
            break;
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
        if (at == VIEWS) return usage("no such view", argv[optind]);
        view = &views[at];
        optind++;
    }
    if (optind == argc) return usage("no profile named", NULL);
    if (argc - optind > 1) return usage("one profile at a time", argv[optind + 1]);
    in.path = argv[optind];
    return show(view, &in, json);
}
