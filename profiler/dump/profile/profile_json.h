/* profile_json.h - members that JSON documents about a profile have in common. */
#ifndef NUMALLOC_PROFILER_DUMP_PROFILE_PROFILE_JSON_H
#define NUMALLOC_PROFILER_DUMP_PROFILE_PROFILE_JSON_H

#include "profiler/dump/profile/input.h"
#include "profiler/json/json.h"

void na_json_run(na_json_t *json, const na_view_input_t *in);    /* what the header says */
void na_json_header(na_json_t *json, const na_view_input_t *in); /* and what the sites say of it */
void na_json_counters(na_json_t *json, const na_view_input_t *in, const na_counters_t *sum);
/* Without those that are 0. */
void na_json_counters_sparse(na_json_t *json, const na_view_input_t *in, const na_counters_t *sum);
void na_json_threads(na_json_t *json, const na_view_input_t *in);
void na_json_environment(na_json_t *json, const na_view_input_t *in);
void na_json_modules(na_json_t *json, const na_view_input_t *in);
void na_json_timeline(na_json_t *json, const na_view_input_t *in);
void na_json_rest(na_json_t *json, const na_view_input_t *in); /* no symbols, damage */

/* An object of a frame; "stack" and "stack_truncated" of a site. */
void na_json_frame(na_json_t *json, const char *name, const na_symbol_frame_t *frame);
void na_json_stack(na_json_t *json, const na_view_input_t *in, uint32_t site);
/* The same as members of a row, for na_table_print_t.members, with the input as arg. */
void na_view_json_stack(na_json_t *json, void *arg, uint64_t site);

#endif
