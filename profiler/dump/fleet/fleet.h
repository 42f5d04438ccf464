/* fleet.h - what `aggregate` shows of many processes besides the ranks of jobs. Runs have been read
 * and damaged ones left out (runs.h). */
#ifndef NUMALLOC_PROFILER_DUMP_FLEET_FLEET_H
#define NUMALLOC_PROFILER_DUMP_FLEET_FLEET_H

#include "profiler/dump/runs/runs.h"
#include "profiler/dump/ui/table.h"

/* --leaks: sites that grow steadily over the dumps of their process, put together over the
 * processes that have the labels of --by in common (service and version, unless it is given). */
extern const na_columns_t na_fleet_growth_table;
na_status_t na_fleet_growth(na_recorded_run_t *runs, size_t count, const na_options_t *options,
                            na_status_t status);

/* --by: processes put together by labels. */
extern const na_columns_t na_fleet_groups_table;
na_status_t na_fleet_groups(na_recorded_run_t *runs, size_t count, const na_options_t *options);

#endif
