/* export_json.h - parts of the JSON document that have a file of their own. */
#ifndef NUMALLOC_PROFILER_DUMP_EXPORTS_EXPORT_JSON_H
#define NUMALLOC_PROFILER_DUMP_EXPORTS_EXPORT_JSON_H

#include "profiler/dump/profile/input.h"
#include "profiler/json/json.h"

/* export_json_metrics.c. False: out of memory. */
bool na_json_metrics(na_json_t *json, const na_view_input_t *in);

#endif
