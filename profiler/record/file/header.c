/* header.c - the constant part of a profile: what ran, where, when, as which process of which job.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>

#include "alloc/core/machine/topology.h"
#include "alloc/core/sys/os.h"
#include "alloc/core/sys/syscall.h"
#include "profiler/containers/path.h"
#include "profiler/record/state/state.h"

void na_rec_copy(char *to, size_t size, const char *from) {
    size_t i = 0;
    for (; from[i] != 0 && i < size - 1; i++)
        to[i] = from[i];
    to[i] = 0;
}

/* A decimal number from the environment, -1 if there is none. */
/* Names in one string, each ended by a zero, the last by another one. */
static const char *next_name(const char *name) {
    return name + __builtin_strlen(name) + 1;
}

static int32_t env_number(const char *names) {
    for (; *names != 0; names = next_name(names)) {
        const char *s = na_os_getenv(names);
        if (s == NULL || *s < '0' || *s > '9') continue;
        int64_t v = 0;
        while (*s >= '0' && *s <= '9' && v < INT32_MAX)
            v = v * 10 + (*s++ - '0');
        if (*s == 0 && v <= INT32_MAX) return (int32_t)v;
    }
    return -1;
}

static bool starts_with(const char *s, const char *prefix) {
    while (*prefix != 0)
        if (*s++ != *prefix++) return false;
    return true;
}

static const char *first_set(const char *names) {
    for (; *names != 0; names = next_name(names)) {
        const char *s = na_os_getenv(names);
        /* Slurm's numbers of what is no step of ranks: the batch script, and so on. */
        if (s != NULL && *s != 0 && !starts_with(s, "42949672")) return s;
    }
    return NULL;
}

/* The job's name: the batch system's, and the launcher's, which tells the runs of one batch job
 * from each other. */
static void read_job_id(char *job, size_t size) {
    static const char batch[] = "SLURM_JOB_ID\0PBS_JOBID\0LSB_JOBID\0";
    static const char run[] = "PMIX_NAMESPACE\0PMI_JOBID\0OMPI_MCA_ess_base_jobid\0SLURM_STEP_ID\0";
    const char *parts[] = {first_set(batch), first_set(run)};
    for (size_t i = 0; i < 2; i++) {
        if (parts[i] == NULL) continue;
        size_t used = __builtin_strlen(job);
        if (used != 0 && used + 1 < size) job[used++] = '/';
        na_rec_copy(job + used, size - used, parts[i]);
    }
}

/* Also before there is a header to read it into. Of a path that is longer the end: the name is
 * there. Called by one thread at a time. */
void na_header_program(char *name, size_t size) {
    NA_SPARSE static char path[4096];
    struct stat st;
    long n = na_sys4(SYS_readlinkat, AT_FDCWD, (long)"/proc/self/exe", (long)path, sizeof path - 1);
    if (n <= 0) {
        na_rec_copy(name, size, "program");
        return;
    }
    path[n] = 0;
    size_t length = na_exe_part(path, (size_t)n);
    if (length != (size_t)n && na_sys4(SYS_newfstatat, AT_FDCWD, (long)path, (long)&st, 0) != 0)
        path[length] = 0;
    else
        length = (size_t)n;
    na_rec_copy(name, size, length < size ? path : path + length - size + 1);
}

void na_header_fill(const na_header_facts_t *facts) {
    static const char rank[] = "OMPI_COMM_WORLD_RANK\0PMI_RANK\0PMIX_RANK\0SLURM_PROCID\0";
    static const char size[] = "OMPI_COMM_WORLD_SIZE\0PMI_SIZE\0SLURM_NTASKS\0";
    na_nprof_header_t *h = na_rec.header;
    h->version = NA_NPROF_VERSION;
    h->header_size = NA_NPROF_PAGE;
    h->mode = na_rec.sampling  ? NA_NPROF_MODE_SAMPLE
              : na_rec.tracing ? NA_NPROF_MODE_TRACE
                               : NA_NPROF_MODE_SITES;
    h->clock_kind = na_rec.tsc ? NA_NPROF_CLOCK_TSC : NA_NPROF_CLOCK_MONOTONIC;
    h->page_size = (uint32_t)na_os_page;
    h->count_scale = na_rec.sampling ? NA_COUNT_SCALE : 1;
    h->sample_interval = na_rec.sampling ? (uint64_t)na_rec.interval : 0;
    h->publish_quantum = NA_QUANTUM;
    h->age_shift = NA_AGE_SHIFT;
    h->own_limit = na_rec.own_limit;
    h->checks = NA_NPROF_CHECK_ENTRIES | NA_NPROF_CHECK_ONCE | NA_NPROF_CHECK_SERIES |
                NA_NPROF_CHECK_LOST |
                (na_rec.tracing ? 0 : NA_NPROF_CHECK_TWICE | NA_NPROF_CHECK_FREES);
    h->pid = facts->pid;
    h->ppid = (int32_t)na_sys0(SYS_getppid);
    h->inherited_pid = facts->parent_pid;
    h->inherited_start_unix_ns = facts->parent_start;
    h->mpi_rank = env_number(rank);
    int32_t ranks = env_number(size);
    h->mpi_size = h->mpi_rank >= 0 && ranks > 0 ? (uint32_t)ranks : 0;
    read_job_id(h->job, sizeof h->job);
    if (facts->other_malloc != NULL)
        na_rec_copy(h->other_malloc, sizeof h->other_malloc, facts->other_malloc);
    h->start_unix_ns = facts->start_unix_ns;
    na_rec_both_clocks(&h->start_mono_ns, &h->start_ticks);
    na_rec.start_ticks = h->start_ticks;
    h->node_count = na_node_count < 1                    ? 1
                    : na_node_count > NA_NPROF_MAX_NODES ? NA_NPROF_MAX_NODES
                                                         : na_node_count;
    for (unsigned i = 0; i < h->node_count && na_node_count != 0; i++)
        h->node_ids[i] = (uint16_t)na_node_system_id(i);
    na_rec_copy(h->writer, sizeof h->writer, "numalloc");
    h->locked = na_rec.locked;
    long boot = na_os_read_file("/proc/sys/kernel/random/boot_id", h->boot, sizeof h->boot);
    h->boot[boot > 0 && h->boot[boot - 1] == '\n' ? boot - 1 : 0] = 0;
    struct utsname u;
    if (na_sys1(SYS_uname, (long)&u) == 0) na_rec_copy(h->host, sizeof h->host, u.nodename);
    na_header_program(h->program, sizeof h->program);
    long n = na_os_read_file("/proc/self/cmdline", h->command, sizeof h->command);
    for (long i = 0; i + 1 < n; i++)
        if (h->command[i] == 0) h->command[i] = ' ';
    h->peak_epoch = 1;
    h->peak_check = na_nprof_peak_check(h);
    h->state = NA_NPROF_RUNNING;
}

/* True: there was room. */
static bool add_string(na_nprof_chunk_t *c, const char *s) {
    size_t bytes = __builtin_strlen(s) + 1;
    if (bytes > c->capacity - c->count) return false;
    na_rec_copy((char *)(c + 1) + c->count, bytes, s);
    c->count += (uint32_t)bytes;
    return true;
}

void na_header_environment(void) {
    static const char labels[] = "NUMALLOC_PROFILE_LABELS=";
    static const char wanted[] = "NUMALLOC_\0LD_PRELOAD=\0OMPI_COMM_WORLD_\0PMI_\0"
                                 "PMIX_RANK=\0SLURM_PROCID=\0SLURM_NTASKS=\0PYTHONMALLOC=\0";
    na_nprof_chunk_t *c = na_writer_chunk(NA_NPROF_ENVIRONMENT, NA_NPROF_PAGE, 1, 0, 0, 0);
    if (c == NULL) return;
    const char *s;
    for (size_t i = 0; (s = na_os_env_at(i)) != NULL; i++)
        if (starts_with(s, labels) && add_string(c, s)) break; /* nothing else takes their room */
    for (size_t i = 0; (s = na_os_env_at(i)) != NULL; i++) {
        for (const char *w = wanted; *w != 0; w = next_name(w)) {
            if (!starts_with(s, w) || starts_with(s, labels)) continue;
            (void)add_string(c, s);
            break;
        }
    }
    na_writer_publish(c);
}

/* The magic makes the file exist, so it comes last; the checksum covers it and is made on a copy.
 */
void na_header_seal(void) {
    na_nprof_header_t *h = na_rec.header, *copied = na_own_alloc(sizeof *h);
    if (copied != NULL) {
        __builtin_memcpy(copied, h, sizeof *h);
        copied->magic = NA_NPROF_MAGIC;
        h->const_crc = na_nprof_header_crc(copied);
    }
    __atomic_store_n(&h->magic, NA_NPROF_MAGIC, __ATOMIC_RELEASE);
}
