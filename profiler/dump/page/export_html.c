/* export_html.c - the profile as one HTML page that needs no server and no network: the data, made
 * by html.h, deflated and in base64, inside a page that was bundled when numalloc was built. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "profiler/dump/page/html_page.h"
#include "profiler/dump/profile/view.h"
#include "profiler/dump/ui/progress.h"
#include "profiler/dump/views/errors/error_groups.h"

bool na_webpage_write(na_view_input_t *in, const na_webpage_beside_t *beside, unsigned shift,
                      FILE *to) {
    na_json_t json = na_json_open(to);
    na_webpage_t r = {
        .in = in, .base = beside->base, .errors = beside->errors, .json = &json, .shift = shift};
    bool good = na_webpage_choose(&r) && na_webpage_functions_choose(&r) &&
                (r.base == NULL || na_webpage_base(&r));
    if (good) {
        na_json_object(&json, NULL);
        na_json_string(&json, "format", "numalloc-report");
        na_json_u64(&json, "version", 1);
        na_webpage_sites(&r);
        na_webpage_functions(&r);
        na_webpage_time(&r);
        na_webpage_growth(&r);
        na_webpage_threads(&r);
        na_webpage_details(&r);
        na_webpage_allocator(&r);
        na_webpage_access(&r);
        na_webpage_parts(&r);
        na_webpage_errors(&r);
        na_webpage_source(&r);
        na_json_end(&json);
        good = !r.out_of_memory;
    }
    na_intern_free(&r.strings);
    na_intern_free(&r.functions);
    na_intern_free(&r.frames);
    na_intern_free(&r.nodes);
    for (size_t i = 0; r.site_handed != NULL && i < NA_WEBPAGE_COURSES; i++)
        free(r.site_handed[i].items);
    free(r.site_handed);
    if (r.blocks == NULL) free(r.handed.items);
    na_blocks_close(r.blocks);
    free(r.sites);
    free(r.row_of_site);
    free(r.by_function.items);
    free(r.by_function.row_of);
    return good;
}

/* page.html with style and script in it, and @TITLE@ and @DATA@ left open (profiler/report). */
extern const char na_report_page[], na_report_page_end[];

static void put_escaped(const char *text) {
    for (; *text != 0; text++) {
        if (*text == '<' || *text == '>' || *text == '&' || *text == '"')
            printf("&#%d;", *text);
        else
            putchar((unsigned char)*text < ' ' ? '?' : *text);
    }
}

static void put_base64(const unsigned char *data, size_t size) {
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < size; i += 3) {
        size_t rest = size - i;
        unsigned word = (unsigned)data[i] << 16 | (rest > 1 ? (unsigned)data[i + 1] << 8 : 0) |
                        (rest > 2 ? (unsigned)data[i + 2] : 0);
        char out[4] = {digit[word >> 18], digit[word >> 12 & 63],
                       rest > 1 ? digit[word >> 6 & 63] : '=', rest > 2 ? digit[word & 63] : '='};
        fwrite(out, 1, sizeof out, stdout);
    }
}

#define PACK_STEP (256u << 10) /* bytes from one look at the clock to the next */

/* As a zlib stream. NULL: out of memory. Free it. */
static unsigned char *deflate_page(unsigned char *data, size_t size, uLongf *packed_size) {
    z_stream z;
    memset(&z, 0, sizeof z);
    if (deflateInit(&z, Z_BEST_COMPRESSION) != Z_OK) return NULL;
    uLong bound = deflateBound(&z, size);
    unsigned char *packed = malloc(bound);
    int result = Z_OK;
    if (packed != NULL) {
        z.next_out = packed;
        for (size_t at = 0; result == Z_OK;) {
            na_progress("compressing", at, size);
            z.next_in = data + at;
            z.avail_in = size - at < PACK_STEP ? (uInt)(size - at) : PACK_STEP;
            at += z.avail_in;
            uLong room = bound - z.total_out;
            z.avail_out = room < UINT_MAX ? (uInt)room : UINT_MAX;
            result = deflate(&z, at == size ? Z_FINISH : Z_NO_FLUSH);
        }
        *packed_size = z.total_out;
    }
    deflateEnd(&z);
    if (packed != NULL && result != Z_STREAM_END) {
        free(packed);
        packed = NULL;
    }
    return packed;
}

/* The page's data, deflated. NULL: out of memory. Free it. */
static unsigned char *make_data(na_view_input_t *in, const na_webpage_beside_t *beside,
                                unsigned shift, uLongf *packed_size) {
    char *json = NULL;
    unsigned char *packed = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&json, &size);
    if (to == NULL) return NULL;
    bool good = na_webpage_write(in, beside, shift, to);
    good = fclose(to) == 0 && good;
    if (good) packed = deflate_page((unsigned char *)json, size, packed_size);
    free(json);
    return packed;
}

/* Writes the page up to `mark` and returns what follows it. */
static const char *put_upto(const char *page, const char *mark) {
    const char *at = strstr(page, mark);
    if (at == NULL) return page;
    fwrite(page, 1, (size_t)(at - page), stdout);
    return at + strlen(mark);
}

#define MOST_SHIFT 12u /* four sites are told apart */

static na_status_t write_page(na_view_input_t *in, const na_webpage_beside_t *beside) {
    size_t room = NA_WEBPAGE_PAGE_BYTES - (size_t)(na_report_page_end - na_report_page);
    for (unsigned shift = 0;; shift++) {
        uLongf size;
        unsigned char *data = make_data(in, beside, shift, &size);
        if (data == NULL) return NA_STATUS_MEMORY;
        if (size / 3 * 4 > room && shift < MOST_SHIFT) {
            free(data);
            continue;
        }
        const char *program = na_reader_header(in->reader)->program, *slash = strrchr(program, '/');
        const char *page = put_upto(na_report_page, "@TITLE@");
        put_escaped(slash == NULL ? program : slash + 1);
        page = put_upto(page, "@DATA@");
        put_base64(data, size);
        fwrite(page, 1, (size_t)(na_report_page_end - page), stdout);
        free(data);
        return NA_STATUS_WHOLE;
    }
}

static na_status_t with_errors(na_view_input_t *in, na_webpage_beside_t *beside) {
    const na_options_t *o = in->options;
    if (o->errors.file_count == 0) return write_page(in, beside);
    na_errors_t errors;
    na_status_t damage, status = NA_STATUS_MEMORY;
    if (na_errors_read(&errors, o->errors.files, o->errors.file_count, o, &damage)) {
        beside->errors = &errors;
        status = damage == NA_STATUS_NOTHING ? damage : write_page(in, beside);
        if (status == NA_STATUS_WHOLE) status = damage;
    }
    na_errors_free(&errors);
    return status;
}

static na_status_t show_html(na_view_input_t *in) {
    na_webpage_beside_t beside = {0};
    if (in->options->check.baseline == NULL) return with_errors(in, &beside);
    na_view_input_t base;
    na_status_t status = na_view_load(&base, in->options->check.baseline, in->options, false);
    if (status != NA_STATUS_WHOLE) return status;
    beside.base = &base;
    status = with_errors(in, &beside);
    na_status_t damage = na_view_unload(&base, true);
    return status == NA_STATUS_WHOLE ? damage : status;
}

const na_view_t na_view_row_html = {
    .name = "html",
    .words = "FILE",
    .help = "one page with charts, flame graph and source, for a browser",
    .more =
        "The page needs no server and no network: numalloc-dump html FILE -o report.html. With\n"
        "--baseline OLD it colours the flame graph and lists the sites by what changed; with\n"
        "--errors it marks the sites in whose blocks NUMALLOC_GUARD=1 found memory errors.",
    .modes = NA_IN_ALL,
    .flags = NA_VIEW_EXPORT | NA_VIEW_FILE,
    .without = NA_VIEW_WHOLE,
    .takes = NA_TAKES(WRAPPERS) | NA_TAKES(BASELINE) | NA_TAKES(ERRORS),
    .show = show_html,
};
