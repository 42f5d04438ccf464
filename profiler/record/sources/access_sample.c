/* access_sample.c - see access_sample.h. */
#include "profiler/record/sources/access_sample.h"

#include "profiler/record/sources/access_chain.h"
#include "profiler/record/unwind/umodules.h"

bool na_perf_body(const uint64_t *words, uint32_t count, uint64_t type, na_perf_body_t *to) {
    if (count < 6) return false;
    *to = (na_perf_body_t){.id = words[0],
                           .ip = words[1],
                           .pid = (uint32_t)words[2],
                           .tid = (uint32_t)(words[2] >> 32),
                           .time = words[3],
                           .address = words[4],
                           .cpu = (uint32_t)words[5]};
    words += 6;
    count -= 6;
    if ((type & PERF_SAMPLE_CALLCHAIN) != 0) {
        if (count < 1 || words[0] > count - 1) return false;
        to->frame_count = (uint32_t)words[0];
        to->frames = words + 1;
        words += 1 + to->frame_count;
        count -= 1 + to->frame_count;
    }
    if ((type & PERF_SAMPLE_RAW) != 0) {
        if (count < 1) return false;
        uint32_t bytes = (uint32_t)words[0], used = (bytes + 4 + 7) / 8;
        if (used > count || bytes > UINT32_MAX - 11) return false;
        to->raw = (const char *)words + 4;
        to->raw_bytes = bytes;
        words += used;
        count -= used;
    }
    if ((type & NA_SAMPLE_MEMORY) == 0) return true;
    if (count < 2) return false;
    to->latency = words[0];
    to->data_src = words[1];
    return true;
}

uint32_t na_frames_ask(struct perf_event_attr *attr, uint32_t frames) {
    long allowed = na_access_number_in("/proc/sys/kernel/perf_event_max_stack");
    if (allowed >= 0 && frames > (unsigned long)allowed) frames = (uint32_t)allowed;
    if (frames == 0) return 0;
    attr->sample_type |= PERF_SAMPLE_CALLCHAIN;
    attr->sample_max_stack = (uint16_t)frames;
    attr->exclude_callchain_kernel = 1;
    return frames;
}

uint32_t na_frames_bytes(uint32_t frames) {
    return frames == 0 ? 0 : (2 + frames / 2) * 8;
}

/* Where frame pointers lead into the blue, what comes out is no address of code. */
static bool is_code(uint64_t pc) {
    na_unwind_module_t module;
    uint32_t id;
    if (na_umodule_of_others(pc, &module) != NA_UMODULE_NONE) return true;
    const na_nprof_access_mapping_t *m = na_amaps_find(pc, &id);
    return m != NULL && (m->flags & NA_NPROF_MAPPING_EXECUTE) != 0;
}

uint32_t na_frames_chain(const na_perf_body_t *body, bool in_kernel, uint32_t most) {
    uint64_t pcs[NA_SAMPLE_FRAMES_MOST + 1];
    uint32_t count = 1, met = 0;
    bool truncated = false;
    if (body->ip == 0) return 0;
    pcs[0] = body->ip;
    for (uint32_t i = 0; i < body->frame_count; i++) {
        uint64_t pc = body->frames[i];
        if (pc >= (uint64_t)PERF_CONTEXT_MAX) continue; /* a mark: whose frames follow */
        /* The first is where the program was when the sample was taken. That is the sample's
         * instruction, or some after it, or where it called the kernel. */
        if (met++ == 0 && !in_kernel) continue;
        if (count == NA_SAMPLE_FRAMES_MOST + 1 || !is_code(pc - 1)) {
            truncated = true;
            break;
        }
        pcs[count++] = pc;
    }
    if (met == 0) return 0;
    return na_access_batch_enter(&(na_access_batch_t){
        .pcs = pcs, .count = count, .exact_first = true, .truncated = truncated || met >= most});
}
