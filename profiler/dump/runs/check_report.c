/* check_report.c - see check_report.h. */
#include "profiler/dump/runs/check_report.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "profiler/containers/array.h"

na_check_case_t *na_check_begin(na_check_report_t *report, const char *name) {
    if (!NA_ARRAY_RESERVE(report->items, report->room, report->count + 1u)) return NULL;
    na_check_case_t *item = &report->items[report->count];
    *item = (na_check_case_t){.name = strdup(name)};
    if (item->name == NULL) return NULL;
    report->count++;
    report->open = open_memstream(&item->text, &item->text_size);
    return report->open != NULL ? item : NULL;
}

void na_check_place(na_check_report_t *report, const char *file, unsigned line) {
    na_check_case_t *item = &report->items[report->count - 1];
    if (file == NULL || line == 0 || item->file != NULL) return;
    item->file = strdup(file);
    item->line = line;
}

bool na_check_end(na_check_report_t *report) {
    FILE *open = report->open;
    report->open = NULL;
    return open == NULL || fclose(open) == 0;
}

void na_check_free(na_check_report_t *report) {
    if (report->open != NULL) fclose(report->open);
    for (size_t i = 0; i < report->count; i++) {
        free(report->items[i].name);
        free(report->items[i].text);
        free(report->items[i].file);
    }
    free(report->items);
}

static bool says(const na_check_case_t *item) {
    return item->text != NULL && item->text[0] != 0;
}

/* ---- GitHub ---- */

/* As its toolkit escapes them: a property more than a message. */
static void put_escaped(const char *text, bool property) {
    for (; *text != 0; text++) {
        bool escape = *text == '%' || *text == '\r' || *text == '\n' ||
                      (property && (*text == ':' || *text == ','));
        if (escape)
            printf("%%%02X", (unsigned)(unsigned char)*text);
        else
            putchar(*text);
    }
}

/* Annotations name files from the checkout on, which is where the command runs. */
static const char *from_here(const char *file) {
    char here[4096];
    size_t length = getcwd(here, sizeof here) != NULL ? strlen(here) : 0;
    return length > 1 && strncmp(file, here, length) == 0 && file[length] == '/' ? file + length + 1
                                                                                 : file;
}

static void put_annotation(const na_check_case_t *item) {
    if (!says(item)) return;
    printf("::%s ", item->failed ? "error" : "warning");
    if (item->file != NULL) {
        printf("file=");
        put_escaped(from_here(item->file), true);
        printf(",line=%u,", item->line);
    }
    printf("title=numalloc::");
    size_t length = strlen(item->text);
    while (length > 0 && item->text[length - 1] == '\n')
        item->text[--length] = 0;
    put_escaped(item->text, false);
    putchar('\n');
}

/* ---- JUnit ---- */

/* What XML 1.0 has no form for is left out. */
static void put_xml(const char *text, size_t length) {
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        const char *as = c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : NULL;
        if (c == '"') as = "&quot;";
        if (as != NULL)
            fputs(as, stdout);
        else if (c >= 0x20 || c == '\n' || c == '\t')
            putchar(c);
    }
}

static void put_case(const na_check_case_t *item) {
    printf("  <testcase classname=\"numalloc\" name=\"");
    put_xml(item->name, strlen(item->name));
    if (!says(item)) {
        puts("\"/>");
        return;
    }
    const char *element = item->failed ? "failure" : "system-out";
    printf("\">\n    <%s", element);
    if (item->failed) {
        printf(" message=\"");
        put_xml(item->text, strcspn(item->text, "\n"));
        putchar('"');
    }
    putchar('>');
    put_xml(item->text, strlen(item->text));
    printf("</%s>\n  </testcase>\n", element);
}

static void put_suite(const na_check_report_t *report) {
    size_t failed = 0;
    for (size_t i = 0; i < report->count; i++)
        failed += report->items[i].failed;
    printf("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
           "<testsuite name=\"numalloc\" tests=\"%zu\" failures=\"%zu\">\n",
           report->count, failed);
    for (size_t i = 0; i < report->count; i++)
        put_case(&report->items[i]);
    puts("</testsuite>");
}

void na_check_write(const na_check_report_t *report, na_check_format_t format, const char *ok) {
    if (format == NA_CHECK_JUNIT) {
        put_suite(report);
        return;
    }
    for (size_t i = 0; i < report->count; i++) {
        if (format == NA_CHECK_GITHUB)
            put_annotation(&report->items[i]);
        else if (says(&report->items[i]))
            fputs(report->items[i].text, stdout);
    }
    if (ok != NULL && format == NA_CHECK_TEXT) puts(ok);
}
