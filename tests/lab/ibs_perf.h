/* ibs_perf.h - perf's ibs_op or ibs_fetch of one CPU, with the registers of each sample. Root. */
#ifndef NUMALLOC_TESTS_LAB_IBS_PERF_H
#define NUMALLOC_TESTS_LAB_IBS_PERF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IBS_OPS    (1ULL << 19) /* config of ibs_op: count ops, not cycles */
#define IBS_RANDOM (1ULL << 57) /* of ibs_fetch: the count starts from 0 to 15 */

typedef struct ibs_sample {
    uint64_t ip;
    uint32_t pid, tid;
    uint64_t addr;
    uint32_t cpu, caps;
    uint64_t rip, data, data2, data3, linear, physical; /* the registers of ops */
    uint64_t fetch_ctl; /* those of fetches are this, linear and physical; the others are 0 */
    uint64_t data_src, phys_addr; /* what perf made of them */
} ibs_sample_t;

typedef struct ibs_perf {
    int fd;
    bool fetch;
    struct perf_event_mmap_page *ring;
    uint64_t lost, throttled;
    uint64_t nowhere; /* samples of fetches whose address is 0 */
} ibs_perf_t;

/* 0: this machine has no IBS. */
uint32_t ibs_perf_type(void);
/* Off at first. All programs' samples come, the kernel's too: Linux 6.1 counts on CPUs only. */
ibs_perf_t ibs_perf_open(int cpu, uint64_t period, uint64_t config);
ibs_perf_t ibs_perf_open_fetch(int cpu, uint64_t period, uint64_t config);
void ibs_perf_on(const ibs_perf_t *perf);
void ibs_perf_off(const ibs_perf_t *perf);
void ibs_perf_close(ibs_perf_t *perf);
/* Those of the calling thread in the known loops of ops, or of fetches. */
size_t ibs_perf_drain(ibs_perf_t *perf, ibs_sample_t *to, size_t most);

#endif
