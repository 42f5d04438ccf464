/* access_perf.c - see access_perf.h. */
#include "profiler/record/sources/access_perf.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "alloc/core/machine/topology.h"
#include "alloc/core/sys/thread.h"
#include "profiler/record/sources/access_chain.h"

#define FD_FROM 600 /* out of the way of programs that count on small numbers */

na_perf_target_t na_perf_target[NA_PERF_TARGETS];
uint32_t na_perf_count;

static uint32_t ring_bytes, aux_bytes; /* of the targets that are open */

/* Enabled, and running: less where the hardware was shared. */
static void add_times(const na_perf_target_t *t) {
    uint64_t value[3];
    if (na_sys3(SYS_read, t->fd[0], (long)value, sizeof value) != sizeof value) return;
    na_access_entry->enabled_ns += value[1];
    na_access_entry->running_ns += value[2];
}

void na_perf_close(na_perf_target_t *t) {
    if (t->timed) add_times(t);
    if (t->aux != NULL) na_sys2(SYS_munmap, (long)t->aux, (long)aux_bytes);
    if (t->ring != NULL) na_sys2(SYS_munmap, (long)t->ring, (long)(ring_bytes + na_os_page));
    for (uint32_t i = t->events; i-- > 0;)
        na_sys1(SYS_close, t->fd[i]);
    *t = (na_perf_target_t){0};
}

void na_perf_close_all(void) {
    for (uint32_t i = 0; i < na_perf_count; i++)
        if (na_perf_target[i].events != 0) na_perf_close(&na_perf_target[i]);
    na_perf_count = 0;
}

void na_perf_forget(void) {
    for (uint32_t i = 0; i < na_perf_count; i++) {
        for (uint32_t k = 0; k < na_perf_target[i].events; k++)
            na_sys1(SYS_close, na_perf_target[i].fd[k]);
        na_perf_target[i] = (na_perf_target_t){0};
    }
    na_perf_count = 0;
}

static long open_event(const struct perf_event_attr *attr, long tid, long cpu, long group) {
    long fd = na_sys6(SYS_perf_event_open, (long)attr, tid, cpu, group, PERF_FLAG_FD_CLOEXEC, 0);
    if (fd < 0) return fd;
    long high = na_sys3(SYS_fcntl, fd, F_DUPFD_CLOEXEC, FD_FROM);
    na_sys1(SYS_close, fd);
    return high == -EINVAL ? -EMFILE : high;
}

long na_perf_try(const na_perf_plan_t *plan) {
    long fd[NA_PERF_EVENTS], error = 0;
    uint32_t opened = 0;
    for (; opened < plan->events && error == 0; opened++) {
        long group = opened > 0 && opened < plan->group ? fd[0] : -1;
        fd[opened] =
            open_event(&plan->attr[opened], plan->cpus ? -1 : 0, plan->cpus ? 0 : -1, group);
        if (fd[opened] < 0) error = fd[opened];
    }
    while (opened-- > 0)
        if (fd[opened] >= 0) na_sys1(SYS_close, fd[opened]);
    return error;
}

static bool failed(long result) {
    return result < 0 && result > -4096;
}

/* What the hardware writes needs a buffer of its own, behind the ring in the descriptor's offsets.
 */
static long map_aux(na_perf_target_t *t) {
    t->ring->aux_offset = ring_bytes + na_os_page;
    t->ring->aux_size = aux_bytes;
    long aux = na_sys6(SYS_mmap, 0, (long)aux_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, t->fd[0],
                       (long)t->ring->aux_offset);
    if (failed(aux)) return aux;
    t->aux = (const void *)aux;
    na_sys3(SYS_madvise, aux, (long)aux_bytes, MADV_DONTFORK);
    return na_sys3(SYS_ioctl, t->fd[0], PERF_EVENT_IOC_ENABLE, 0);
}

static long open_target(const na_perf_plan_t *plan, na_perf_target_t *t, uint32_t tid, long cpu) {
    t->tid = tid;
    t->seen = true;
    for (uint32_t i = 0; i < plan->events; i++) {
        long group = i > 0 && i < plan->group ? t->fd[0] : -1;
        long fd = open_event(&plan->attr[i], plan->cpus ? -1 : (long)tid, cpu, group);
        if (fd < 0) {
            na_perf_close(t);
            return fd;
        }
        t->fd[t->events++] = (int)fd;
        t->timed = plan->attr[0].read_format == NA_PERF_TIMES;
        long error = na_sys3(SYS_ioctl, fd, PERF_EVENT_IOC_ID, (long)&t->id[i]);
        if (error == 0 && i == 0) {
            long ring = na_sys6(SYS_mmap, 0, (long)(ring_bytes + na_os_page),
                                PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
            if (failed(ring))
                error = ring;
            else
                t->ring = (struct perf_event_mmap_page *)ring;
            if (error == 0)
                na_sys3(SYS_madvise, ring, (long)(ring_bytes + na_os_page), MADV_DONTFORK);
            if (error == 0 && aux_bytes != 0) error = map_aux(t);
        } else if (error == 0) {
            error = na_sys3(SYS_ioctl, fd, PERF_EVENT_IOC_SET_OUTPUT, t->fd[0]);
        }
        if (error != 0) {
            na_perf_close(t);
            return error;
        }
    }
    return 0;
}

static na_perf_target_t *perf_target(uint32_t tid) {
    static uint32_t hint; /* tids come in the same order each time */
    for (uint32_t i = 0; i < na_perf_count; i++) {
        na_perf_target_t *t = &na_perf_target[(hint + i) % na_perf_count];
        if (t->events == 0 || t->tid != tid) continue;
        hint = (hint + i + 1) % na_perf_count;
        return t;
    }
    hint = 0;
    return NULL;
}

static na_perf_target_t *free_target(void) {
    for (uint32_t i = 0; i < na_perf_count; i++)
        if (na_perf_target[i].events == 0) return &na_perf_target[i];
    return na_perf_count < NA_PERF_TARGETS ? &na_perf_target[na_perf_count++] : NULL;
}

typedef struct scan {
    const na_perf_plan_t *plan;
    uint32_t refused;
    long error;
} scan_t;

static void meet_thread(void *scan, uint32_t tid) {
    scan_t *s = scan;
    if (tid == 0 || na_thread_tid_is_ours(tid)) return;
    if (s->plan->may != NULL && !s->plan->may(tid)) {
        s->refused++;
        s->error = -EBUSY;
        return;
    }
    na_perf_target_t *t = perf_target(tid);
    if (t != NULL) {
        t->seen = true;
        return;
    }
    t = free_target();
    if (s->plan->before != NULL) s->plan->before(tid);
    long error = t == NULL ? -EMFILE : open_target(s->plan, t, tid, -1);
    if (s->plan->after != NULL) s->plan->after();
    if (error == 0 || error == -ESRCH) return; /* it has ended meanwhile */
    s->refused++;
    s->error = error;
}

static void each_task(scan_t *s) {
    long error = na_access_each_number("/proc/self/task", "", meet_thread, s);
    if (error == 0) return;
    s->error = error;
    s->refused++;
}

static void each_cpu(scan_t *s) {
    if (na_perf_count != 0) return;
    for (unsigned cpu = 0; cpu < NA_MAX_CPUS; cpu++) {
        na_perf_target_t beyond = {0}, *t = &beyond; /* there is no room for it */
        if (na_perf_count < NA_PERF_TARGETS) t = &na_perf_target[na_perf_count];
        long error = open_target(s->plan, t, 0, (long)cpu);
        if (error == 0 && t == &beyond) {
            na_perf_close(t);
            s->refused++;
            s->error = -EMFILE;
        } else if (error == 0)
            na_perf_count++;
        else if (error == -ENODEV && cpu > 0)
            continue; /* numbers have gaps; a CPU that comes later is not sampled */
        else if (error == -EINVAL && cpu > 0)
            break; /* no CPU can have so high a number */
        else {
            s->refused++;
            s->error = error;
        }
    }
}

uint32_t na_perf_scan(const na_perf_plan_t *plan, na_perf_sample_fn_t each, long *error) {
    scan_t s = {.plan = plan};
    ring_bytes = plan->ring_bytes;
    aux_bytes = plan->aux_bytes;
    if (plan->cpus) {
        each_cpu(&s);
    } else {
        for (uint32_t i = 0; i < na_perf_count; i++)
            na_perf_target[i].seen = false;
        each_task(&s);
        for (uint32_t i = 0; i < na_perf_count; i++)
            if (na_perf_target[i].events != 0 && !na_perf_target[i].seen) {
                na_perf_drain(&na_perf_target[i], each);
                na_perf_close(&na_perf_target[i]);
            }
    }
    if (error != NULL) *error = s.error;
    return s.refused;
}

uint32_t na_perf_open_count(void) {
    uint32_t open = 0;
    for (uint32_t i = 0; i < na_perf_count; i++)
        open += na_perf_target[i].events != 0;
    return open;
}

long na_perf_open_self(const na_perf_plan_t *plan) {
    na_perf_close_all();
    ring_bytes = plan->ring_bytes;
    aux_bytes = plan->aux_bytes;
    long error = open_target(plan, &na_perf_target[0], (uint32_t)na_sys0(SYS_gettid), -1);
    if (error == 0) na_perf_count = 1;
    return error;
}

/* ---- rings ---- */

#define MOST_BYTES (512u + NA_BATCH_STACK_MOST) /* of a record that is looked at */

uint64_t na_perf_drain(na_perf_target_t *t, na_perf_sample_fn_t each) {
    static uint64_t record[MOST_BYTES / 8];
    if (t->ring == NULL) return 0;
    const char *data = (const char *)t->ring + na_os_page;
    uint64_t mask = ring_bytes - 1;
    uint64_t head = __atomic_load_n(&t->ring->data_head, __ATOMIC_ACQUIRE);
    uint64_t there = head - t->tail;
    while (t->tail != head) {
        struct perf_event_header header;
        uint64_t at = t->tail & mask; /* headers are 8 bytes at a multiple of 8: never divided */
        __builtin_memcpy(&header, data + at, sizeof header);
        uint64_t size = header.size;
        if (size < sizeof header || size > head - t->tail) break; /* never, by the kernel's word */
        if (size <= MOST_BYTES) {
            uint64_t first = mask + 1 - at < size ? mask + 1 - at : size;
            __builtin_memcpy(record, data + at, first);
            __builtin_memcpy((char *)record + first, data, size - first);
            const uint64_t *body = record + 1;
            if (header.type == PERF_RECORD_SAMPLE || header.type == PERF_RECORD_SWITCH ||
                header.type == PERF_RECORD_AUX)
                each(t, &header, body, (uint32_t)(size / 8 - 1));
            else if (header.type == PERF_RECORD_LOST && size >= 24)
                na_access_entry->lost += body[1];
            else if (header.type == PERF_RECORD_THROTTLE) {
                na_access_entry->throttled++;
                t->throttled = true;
            }
        }
        t->tail += size;
    }
    t->tail = head;
    __atomic_store_n(&t->ring->data_tail, head, __ATOMIC_RELEASE);
    return there;
}

void na_perf_aux_read(na_perf_target_t *t) {
    __atomic_store_n(&t->ring->aux_tail, t->aux_tail, __ATOMIC_RELEASE);
}

/* ---- budgets ---- */

static uint32_t tried;

static void count_hit(na_perf_target_t *t, const struct perf_event_header *header,
                      const uint64_t *body, uint32_t words) {
    (void)t, (void)body, (void)words;
    tried += header->type == PERF_RECORD_SAMPLE;
}

bool na_perf_refills(const na_perf_plan_t *plan, uint32_t event) {
    static volatile uint64_t word;
    na_perf_plan_t one = {.events = 1, .ring_bytes = plan->ring_bytes};
    one.attr[0] = plan->attr[event];
    one.attr[0].bp_addr = (uintptr_t)&word;
    if (na_perf_open_self(&one) != 0) return false;
    tried = 0;
    uint32_t twice = 0;
    for (uint32_t i = 0; i < 2; i++) {
        na_sys3(SYS_ioctl, na_perf_target[0].fd[0], PERF_EVENT_IOC_REFRESH, 1);
        word = i;
        na_perf_drain(&na_perf_target[0], count_hit);
        twice += tried == i + 1;
    }
    na_perf_close_all();
    return twice == 2;
}

/* ---- reasons ---- */

void na_perf_refusal(long error, char why[NA_WHY]) {
    char level[2] = {0, 0};
    long paranoid = na_access_number_in("/proc/sys/kernel/perf_event_paranoid");
    switch (-error) {
    case EACCES: /* the sysctl's own answer; seccomp filters give EPERM */
        if (paranoid > 2) {
            level[0] = (char)('0' + (paranoid > 9 ? 9 : paranoid));
            na_access_why(why, "kernel.perf_event_paranoid is ", level,
                          "; as root: sysctl kernel.perf_event_paranoid=2", NULL);
            break;
        } /* fallthrough */
    case EPERM:
        na_access_why(why,
                      "perf_event_open is not permitted: a container's seccomp filter "
                      "(allow it, or add CAP_PERFMON), or what is asked for needs a lower "
                      "kernel.perf_event_paranoid",
                      NULL);
        break;
    case ENOSYS:
        na_access_why(why,
                      "the kernel has no perf_event_open, or a container's seccomp filter "
                      "hides it",
                      NULL);
        break;
    case ENOSPC:
        na_access_why(why, "all debug registers are taken; end the debugger that uses them", NULL);
        break;
    case EMFILE:
    case ENFILE:
        na_access_why(why, "too few descriptors; raise ulimit -n", NULL);
        break;
    case ENOENT:
    case ENODEV:
    case EOPNOTSUPP:
        na_access_why(why, "this machine has no such counter", NULL);
        break;
    default:
        na_access_why(why, "perf_event_open refuses it on this kernel", NULL);
    }
}
