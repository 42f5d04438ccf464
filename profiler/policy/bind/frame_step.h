/* frame_step.h - the frame of a function at a return address, where it is found by constants. */
#ifndef NUMALLOC_PROFILER_POLICY_BIND_FRAME_STEP_H
#define NUMALLOC_PROFILER_POLICY_BIND_FRAME_STEP_H

#include <stdbool.h>

#include "profiler/policy/apply/ruled_live.h"
#include "profiler/record/unwind/cfi.h"

/* Fills cfa, cfa_by_bp and bp_at for the return address, which lies in the module; false: they are
 * no constants, or nothing is known. */
bool na_policy_step(const na_unwind_module_t *module, uintptr_t pc, na_policy_node_t *node);

#endif
