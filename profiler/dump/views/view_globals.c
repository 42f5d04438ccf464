/* view_globals.c - global and thread-local variables, by variable or by module. */
#include <stdint.h>
#include <stdio.h>

#include "profiler/analyze/blocks/globals.h"
#include "profiler/dump/profile/view.h"
#include "profiler/dump/symbols/names/demangle.h"
#include "profiler/dump/ui/table.h"
#include "profiler/dump/ui/text.h"

static const na_column_t global_modules_columns[] = {
    {"bytes", "bytes", NA_KIND_BYTES, "total"},
    {"data_bytes", "initialised", NA_KIND_BYTES, NULL},
    {"zeroed_bytes", "zeroed", NA_KIND_BYTES, NULL},
    {"tls_bytes", "a thread's", NA_KIND_BYTES, NULL},
    {"module", "module", NA_KIND_TEXT, NULL},
};
static const na_columns_t global_modules_table = NA_COLUMNS(global_modules_columns);

static na_status_t put_global_modules(const na_view_input_t *in, const na_globals_t *globals) {
    enum { ALL, DATA, ZEROED, TLS, MODULE };
    na_table_t *table = na_table_open(&global_modules_table);
    if (table == NULL) return NA_STATUS_MEMORY;
    for (size_t i = 0; i < globals->module_count; i++) {
        const na_global_module_t *m = &globals->modules[i];
        na_table_row(table, i);
        na_table_number(table, ALL, (double)na_global_module_bytes(globals, m));
        na_table_number(table, DATA, (double)m->data);
        na_table_number(table, ZEROED, (double)m->zeroed);
        na_table_number(table, TLS, (double)m->tls);
        na_table_text(table, MODULE, m->path);
    }
    const na_table_print_t print = {.view = "globals",
                                    .title = "Global and thread-local memory by module (%s)",
                                    .sort = "bytes"};
    na_status_t status = na_table_write(table, in->options, &print);
    na_table_close(table);
    return status;
}

static const na_column_t globals_columns[] = {
    {"bytes", "bytes", NA_KIND_BYTES, "total"},
    {"size", "size", NA_KIND_BYTES, NULL},
    {"copies", "copies", NA_KIND_COUNT, "count"},
    {"kind", "kind", NA_KIND_TEXT, NULL}, /* "global", "tls", "allocator" */
    {NULL, "variable", NA_KIND_TEXT, NULL},
    {"variable", NULL, NA_KIND_TEXT, NULL},
    {"module", "module", NA_KIND_TEXT, NULL},
};
static const na_columns_t globals_table = NA_COLUMNS(globals_columns);

static na_status_t put_variables(const na_view_input_t *in, const na_globals_t *globals) {
    enum { ALL, SIZE, COPIES, KIND, LABEL, NAME, MODULE };
    na_table_t *table = na_table_open(&globals_table);
    if (table == NULL) return NA_STATUS_MEMORY;
    na_module_table_t modules = na_reader_modules(in->reader);
    for (size_t i = 0; i < globals->count; i++) {
        const na_global_t *v = &globals->items[i];
        const na_nprof_module_t *m = v->module < modules.count ? &modules.items[v->module] : NULL;
        bool own = m != NULL && (m->flags & NA_NPROF_MODULE_SELF) != 0;
        if (own && in->options->table.format == NA_FORMAT_TEXT && !in->options->table.filter.given)
            continue;
        char name[512];
        na_demangle_short(v->name, 60, name, sizeof name);
        na_table_row(table, i);
        na_table_number(table, ALL, (double)na_global_bytes(globals, v));
        na_table_number(table, SIZE, (double)v->size);
        na_table_number(table, COPIES, v->tls ? globals->threads : 1);
        na_table_text(table, KIND, own ? "allocator" : v->tls ? "tls" : "global");
        na_table_text(table, LABEL, name);
        na_table_text(table, NAME, v->name);
        if (m != NULL) na_table_text(table, MODULE, m->path);
    }
    const na_table_print_t print = {
        .view = "globals",
        .title = in->options->table.filter.given
                     ? "Global and thread-local variables (%s); thread-local ones "
                       "times the threads"
                     : "Global and thread-local variables (%s), the allocator's "
                       "left out; thread-local ones times the threads",
        .empty = "No variables: no module's file is here, or none has symbols of them.",
        .sort = "bytes",
    };
    na_status_t status = na_table_write(table, in->options, &print);
    na_table_close(table);
    return status;
}

static na_status_t show_globals(na_view_input_t *in) {
    na_globals_t globals;
    na_status_t status = NA_STATUS_MEMORY;
    if (na_globals_read(in->reader, SIZE_MAX, &globals))
        status = in->options->rows.modules ? put_global_modules(in, &globals)
                                           : put_variables(in, &globals);
    if (status == NA_STATUS_WHOLE && in->options->table.format == NA_FORMAT_TEXT) {
        double all = 0;
        char a[NA_TEXT], b[NA_TEXT], c[NA_TEXT], d[NA_TEXT];
        for (size_t i = 0; i < globals.module_count; i++)
            all += (double)na_global_module_bytes(&globals, &globals.modules[i]);
        printf("\nAll: %s in %s, for %s at one time; %s of them in no symbol's name\n",
               na_text_bytes(a, all), na_text_counted(d, (double)globals.module_count, "module"),
               na_text_counted(b, globals.threads, "thread"),
               na_text_bytes(c, (double)globals.unnamed));
        if (globals.missing != 0)
            printf("Not looked at: %s whose file is gone, or is another one by now\n",
                   na_text_counted(a, globals.missing, "module"));
    }
    na_globals_free(&globals);
    return status;
}

const na_view_t na_view_row_globals = {
    .name = "globals",
    .words = "FILE",
    .help = "global and thread-local variables, by variable or module",
    .more = "Read from the modules' own files, not from the profile.",
    .modes = NA_IN_ALL,
    .flags = NA_VIEW_LIGHT | NA_VIEW_FACTS,
    .takes = NA_TAKES_TABLE | NA_TAKES(MODULES),
    .tables = {{&globals_table, 0}, {&global_modules_table, NA_TAKES(MODULES)}},
    .show = show_globals,
};
