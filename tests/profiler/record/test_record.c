/* test_record.c - drives the hook table as the allocator does, and reads the file back. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc/core/machine/topology.h"
#include "alloc/core/sys/os.h"
#include "alloc/core/track/hooks.h"
#include "profiler/analyze/blocks/site_sums.h"
#include "profiler/format/reader/reader.h"
#include "profiler/record/state/record.h"

_Atomic(uint8_t) na_profile_epoch = 1;
_Atomic(const na_hooks_t *) na_hooks;

TestSuite(record, .timeout = 300);

static char dir[64], path[128];

static void setup(void) {
    na_os_init();
    na_topology_init(NULL, NULL);
    strcpy(dir, "/tmp/test_record.XXXXXX");
    cr_assert(mkdtemp(dir) != NULL);
    snprintf(path, sizeof path, "%s/p.nprof", dir);
}

static void teardown(void) {
    DIR *d = opendir(dir);
    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) {
        char p[512];
        snprintf(p, sizeof p, "%s/%s", dir, e->d_name);
        unlink(p);
    }
    closedir(d);
    rmdir(dir);
}

static const na_hooks_t *start(na_profile_mode_t mode, uint64_t interval) {
    const na_hooks_t *h = na_profile_start(
        &(na_profile_config_t){.mode = mode, .sample_interval = interval, .file = path});
    cr_assert(h != NULL);
    return h;
}

static __attribute__((noinline)) void take(const na_hooks_t *h, void **prof, na_record_t *r,
                                           size_t size, size_t usable) {
    *r = (na_record_t){.slack = (uint16_t)(usable - size), .epoch = na_profile_epoch};
    h->on_alloc(prof, r, (void *)r, size, usable, NA_ENTRY_MALLOC, NULL);
    __asm__ volatile("" ::: "memory");
}

/* Two sites that no compiler may merge. */
static __attribute__((noinline)) void site_a(const na_hooks_t *h, void **p, na_record_t *r,
                                             size_t n) {
    take(h, p, r, n, (n + 15) & ~(size_t)15);
    __asm__ volatile("# a" ::: "memory");
}
static __attribute__((noinline)) void site_b(const na_hooks_t *h, void **p, na_record_t *r,
                                             size_t n) {
    take(h, p, r, n, (n + 15) & ~(size_t)15);
    __asm__ volatile("# b" ::: "memory");
}

static void give(const na_hooks_t *h, void **p, na_record_t *r, size_t n) {
    h->on_free(p, r, r, (n + 15) & ~(size_t)15, NA_RELEASE_FREE, NULL);
}

typedef struct totals {
    na_nprof_cell_t sum;
    int64_t peak_bytes, peak_count;
    uint32_t peak_epoch, sites, cells, site;
    uint32_t seen[64];
} totals_t;

static void add_cell(void *arg, uint32_t thread, const na_nprof_cell_t *c) {
    totals_t *t = arg;
    (void)thread;
    if (t->site != 0 && c->site != t->site) return;
    t->cells++;
    t->sum.alloc_count += c->alloc_count;
    t->sum.alloc_bytes += c->alloc_bytes;
    t->sum.alloc_usable += c->alloc_usable;
    t->sum.free_count += c->free_count;
    t->sum.free_bytes += c->free_bytes;
    t->sum.free_usable += c->free_usable;
    t->sum.realloc_count += c->realloc_count;
    t->sum.cross_thread_free_count += c->cross_thread_free_count;
    t->sum.raw_allocs += c->raw_allocs;
    bool at_peak = c->peak_epoch == t->peak_epoch;
    t->peak_bytes += at_peak ? c->peak_bytes : (int64_t)(c->alloc_bytes - c->free_bytes);
    t->peak_count += at_peak ? c->peak_count : (int64_t)(c->alloc_count - c->free_count);
    for (uint32_t i = 0; i < 64; i++) {
        if (t->seen[i] == c->site) break;
        if (t->seen[i] == 0) {
            t->seen[i] = c->site;
            t->sites++;
            break;
        }
    }
}

static na_reader_t *reopen(void) {
    char error[256] = "";
    na_reader_t *r = na_reader_open(path, error, sizeof error);
    cr_assert(r != NULL, "%s", error);
    return r;
}

static totals_t totals(na_reader_t *r, uint32_t site) {
    totals_t t = {.peak_epoch = na_reader_header(r)->peak_epoch, .site = site};
    na_reader_cells(r, add_cell, &t);
    return t;
}

static void no_issues(na_reader_t *r) {
    for (uint32_t i = 0; i < na_reader_issue_count(r); i++) {
        char text[256];
        na_reader_issue_text(r, i, text, sizeof text);
        cr_assert(false, "issue: %s", text);
    }
}

Test(record, one_thread_is_exact, .init = setup, .fini = teardown) {
    const na_hooks_t *h = start(NA_PROFILE_SITES, 0);
    void *prof = NULL;
    na_record_t a[100], b[100];
    errno = 99;
    for (int i = 0; i < 100; i++)
        site_a(h, &prof, &a[i], 100);
    for (int i = 0; i < 50; i++)
        give(h, &prof, &a[i], 100);
    for (int i = 0; i < 100; i++)
        site_b(h, &prof, &b[i], 1000); /* peak: 50 x 100 + 100 x 1000 */
    for (int i = 0; i < 100; i++)
        give(h, &prof, &b[i], 1000);
    for (int i = 0; i < 10; i++)
        site_a(h, &prof, &a[i], 33);
    h->on_resize(&prof, &a[0], &a[0], &a[0], 48, 48, 48);
    cr_assert_eq(errno, 99);
    cr_assert_neq(a[60].site, b[60].site);
    h->on_exit(&prof);

    na_reader_t *r = reopen();
    const na_nprof_header_t *hd = na_reader_header(r);
    cr_assert_eq(hd->state, NA_NPROF_CLOSED);
    cr_assert_eq(hd->pid, getpid());
    cr_assert_eq(hd->lost_events, 0);
    cr_assert_eq(hd->truncated_stacks, 0);
    cr_assert_eq(hd->peak_bytes, 50 * 100 + 100 * 1000);
    cr_assert_eq(hd->peak_count, 150);
    totals_t t = totals(r, 0);
    cr_assert_eq(t.sum.alloc_count, 211);
    cr_assert_eq(t.sum.free_count, 151);
    cr_assert_eq(t.sum.alloc_bytes - t.sum.free_bytes, 50 * 100 + 9 * 33 + 48);
    cr_assert_eq(t.sum.alloc_usable - t.sum.free_usable, 50 * 112 + 10 * 48);
    cr_assert_eq(t.sum.realloc_count, 1);
    cr_assert_eq(t.sum.cross_thread_free_count, 0);
    cr_assert_eq(t.peak_bytes, hd->peak_bytes);
    cr_assert_eq(t.peak_count, hd->peak_count);
    totals_t tb = totals(r, b[0].site);
    cr_assert_eq(tb.sum.alloc_count, 100);
    cr_assert_eq(tb.peak_bytes, 100 * 1000);

    /* The stack of a site leads to the root, through modules that are listed. */
    na_stack_table_t st = na_reader_stacks(r);
    na_module_table_t mods = na_reader_modules(r);
    unsigned depth = 0;
    for (uint32_t n = a[60].site; n != NA_NPROF_ROOT; n = st.items[n].parent, depth++) {
        bool found = false;
        for (uint32_t m = 1; m < mods.count; m++)
            found |= st.items[n].pc >= mods.items[m].start && st.items[n].pc < mods.items[m].end;
        cr_assert(found, "pc %lx", (unsigned long)st.items[n].pc);
    }
    cr_assert_geq(depth, 4);
    bool main_seen = false;
    for (uint32_t m = 1; m < mods.count; m++)
        main_seen |=
            (mods.items[m].flags & NA_NPROF_MODULE_MAIN) != 0 && mods.items[m].build_id_size;
    cr_assert(main_seen, "no main module with a build id");

    uint32_t n, ms;
    const na_nprof_point_t *p = na_reader_timeline(r, &n, &ms);
    cr_assert(p != NULL);
    int64_t highest = 0;
    uint64_t count = 0;
    for (uint32_t i = 0; i < n; i++) {
        count += p[i].alloc_count;
        if (p[i].requested_max > highest) highest = p[i].requested_max;
    }
    cr_assert_eq(highest, hd->peak_bytes);
    cr_assert_eq(count, 211);
    no_issues(r);
    na_reader_close(r);
}

#define THREADS 6
#define ROUNDS  20000
#define KEEP    64

static const na_hooks_t *mt_hooks;
static na_record_t *_Atomic handed[THREADS];

static void *work(void *arg) {
    long id = (long)arg;
    void *prof = NULL;
    na_record_t ring[KEEP];
    for (int i = 0; i < ROUNDS; i++) {
        na_record_t *r = &ring[i % KEEP];
        if (i >= KEEP) give(mt_hooks, &prof, r, 256);
        if (i % 3)
            site_a(mt_hooks, &prof, r, 256);
        else
            site_b(mt_hooks, &prof, r, 256);
    }
    /* One block goes to the next thread, which frees it. */
    na_record_t *mine = malloc(sizeof *mine);
    site_a(mt_hooks, &prof, mine, 256);
    atomic_store(&handed[(id + 1) % THREADS], mine);
    na_record_t *other;
    while ((other = atomic_exchange(&handed[id], NULL)) == NULL)
        usleep(100);
    give(mt_hooks, &prof, other, 256);
    free(other);
    mt_hooks->on_thread_exit(&prof);
    cr_assert(prof == NULL);
    return NULL;
}

Test(record, threads_add_up, .init = setup, .fini = teardown) {
    mt_hooks = start(NA_PROFILE_SITES, 0);
    pthread_t t[THREADS];
    for (long i = 0; i < THREADS; i++)
        pthread_create(&t[i], NULL, work, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    void *prof = NULL;
    mt_hooks->on_exit(&prof);
    na_reader_t *r = reopen();
    totals_t s = totals(r, 0);
    const na_nprof_header_t *hd = na_reader_header(r);
    cr_assert_eq(hd->lost_events, 0);
    cr_assert_eq(s.sum.alloc_count, THREADS * (ROUNDS + 1));
    cr_assert_eq(s.sum.alloc_count - s.sum.free_count, THREADS * KEEP);
    cr_assert_eq(s.sum.alloc_bytes - s.sum.free_bytes, THREADS * KEEP * 256);
    cr_assert_eq(s.sum.cross_thread_free_count, THREADS);
    int64_t true_peak = THREADS * (KEEP + 1) * 256, slack = THREADS * (int64_t)hd->publish_quantum;
    cr_assert(hd->peak_bytes <= true_peak + slack && hd->peak_bytes >= true_peak - slack);
    na_thread_table_t th = na_reader_threads(r);
    cr_assert_eq(th.count, THREADS + 1);
    uint64_t by_thread = 0;
    for (uint32_t i = 1; i < th.count; i++) {
        by_thread += th.items[i].alloc_count;
        cr_assert_neq(th.items[i].end_ms, UINT64_MAX);
    }
    cr_assert_eq(by_thread, s.sum.alloc_count);
    no_issues(r);
    na_reader_close(r);
}

/* Two at a time: each frees what the one before kept, and keeps a block of its own. Past those that
 * have entries of their own they are counted together, and nothing of them is lost. */
Test(record, more_threads_than_entries, .init = setup, .fini = teardown) {
    enum { MANY = NA_NPROF_THREADS_OWN + 4001 };
    const na_hooks_t *h = start(NA_PROFILE_SITES, 0);
    void *prof[2] = {NULL, NULL};
    na_record_t kept[2], passing;
    for (unsigned i = 0; i < MANY; i++) {
        void **mine = &prof[i % 2];
        if (*mine != NULL) h->on_thread_exit(mine);
        site_a(h, mine, &passing, 1000);
        give(h, mine, &passing, 1000);
        site_b(h, mine, &kept[i % 2], 100);
        if (i != 0) give(h, mine, &kept[(i + 1) % 2], 100);
    }
    h->on_exit(&prof[0]);

    na_reader_t *r = reopen();
    totals_t s = totals(r, 0);
    const na_nprof_header_t *hd = na_reader_header(r);
    cr_assert_eq(hd->lost_events + hd->lost_threads + hd->lost_stacks, 0);
    cr_assert_eq(na_reader_threads_seen(r), MANY);
    cr_assert_eq(s.sum.alloc_count, 2 * MANY);
    cr_assert_eq(s.sum.cross_thread_free_count, MANY - 1);
    cr_assert_leq(hd->peak_bytes, 1200 + 2 * (int64_t)hd->publish_quantum);
    na_thread_table_t th = na_reader_threads(r);
    cr_assert_eq(th.count, NA_NPROF_THREADS_OWN + 3);
    na_nprof_thread_t sum = {0};
    for (uint32_t i = 1; i < th.count; i++) {
        const na_nprof_thread_t *t = &th.items[i];
        bool own = i <= NA_NPROF_THREADS_OWN;
        cr_assert(own ? t->more == 0 && t->alloc_count == 2 : t->more >= 1999, "thread %u", i);
        cr_assert_leq(t->start_ms, t->end_ms);
        sum.alloc_count += t->alloc_count;
        sum.free_count += t->free_count;
        sum.alloc_bytes += t->alloc_bytes;
        sum.free_bytes += t->free_bytes;
        sum.cross_thread_free_count += t->cross_thread_free_count;
    }
    cr_assert_eq(sum.alloc_count, 2 * MANY);
    cr_assert_eq(sum.free_count, 2 * MANY - 1);
    cr_assert_eq(sum.alloc_bytes - sum.free_bytes, 100);
    cr_assert_eq(sum.cross_thread_free_count, MANY - 1);
    no_issues(r);
    na_reader_close(r);
}

static void *free_all(void *arg) {
    void *prof = NULL;
    na_record_t *records = arg;
    for (int i = 0; i < KEEP; i++)
        give(mt_hooks, &prof, &records[i], 256);
    mt_hooks->on_thread_exit(&prof);
    return NULL;
}

/* A thread publishes what it freed before another one what it allocated. */
Test(record, nothing_is_below_zero, .init = setup, .fini = teardown) {
    mt_hooks = start(NA_PROFILE_SITES, 0);
    void *prof = NULL;
    na_record_t records[KEEP];
    for (int i = 0; i < KEEP; i++)
        site_a(mt_hooks, &prof, &records[i], 256);
    pthread_t t;
    pthread_create(&t, NULL, free_all, records);
    pthread_join(t, NULL);
    mt_hooks->on_exit(&prof);
    na_reader_t *r = reopen();
    uint32_t n, ms;
    const na_nprof_point_t *p = na_reader_timeline(r, &n, &ms);
    cr_assert(p != NULL && n != 0);
    for (uint32_t i = 0; i < n; i++)
        cr_assert(p[i].requested_min >= 0 && p[i].requested_max >= 0 && p[i].blocks_max >= 0,
                  "point %u: %ld to %ld bytes, %ld blocks", i, p[i].requested_min,
                  p[i].requested_max, p[i].blocks_max);
    no_issues(r);
    na_reader_close(r);
}

static __attribute__((noinline)) void deep(const na_hooks_t *h, void **p, na_record_t *r,
                                           int bits) {
    if (bits <= 1) {
        site_a(h, p, r, 64);
    } else if (bits & 1) {
        __asm__ volatile("# odd, before" ::: "memory");
        deep(h, p, r, bits >> 1);
        __asm__ volatile("# odd" ::: "memory"); /* two call sites, which may not be merged */
    } else {
        __asm__ volatile("# even, before" ::: "memory");
        deep(h, p, r, bits >> 1);
        __asm__ volatile("# even" ::: "memory");
    }
}

static __attribute__((noinline)) void all_paths(const na_hooks_t *h, void **p, na_record_t *r) {
    for (int i = 0; i < 4096; i++)
        deep(h, p, &r[i], 4096 + i);
}

/* 4096 different paths of 12 frames: the tree, the hash and the cell tables grow. */
Test(record, many_sites, .init = setup, .fini = teardown) {
    const na_hooks_t *h = start(NA_PROFILE_SITES, 0);
    void *prof = NULL;
    static na_record_t rec[2][4096];
    for (volatile int round = 0; round < 2; round++)
        all_paths(h, &prof, rec[round]);
    for (int i = 0; i < 4096; i++)
        cr_assert_eq(rec[0][i].site, rec[1][i].site, "path %d", i);
    h->on_exit(&prof);
    na_reader_t *r = reopen();
    totals_t t = totals(r, 0);
    cr_assert_eq(t.sum.alloc_count, 8192);
    cr_assert_eq(t.cells, 4096);
    no_issues(r);
    na_reader_close(r);
}

Test(record, killed_leaves_everything, .init = setup, .fini = teardown) {
    pid_t child = fork();
    if (child == 0) {
        const na_hooks_t *h = start(NA_PROFILE_SITES, 0);
        void *prof = NULL;
        na_record_t rec;
        for (int i = 0; i < 1000; i++)
            site_a(h, &prof, &rec, 10);
        kill(getpid(), SIGKILL);
    }
    int status;
    waitpid(child, &status, 0);
    cr_assert(WIFSIGNALED(status));
    na_reader_t *r = reopen();
    cr_assert_eq(na_reader_header(r)->state, NA_NPROF_RUNNING);
    totals_t t = totals(r, 0);
    cr_assert_eq(t.sum.alloc_count, 1000);
    na_sites_t sites;
    cr_assert(na_sites_fold(r, &sites));
    cr_assert_eq(sites.total.peak_bytes, 10000); /* no free came: the end is the peak */
    na_sites_free(&sites);
    no_issues(r);
    na_reader_close(r);
}

static void child_events(const na_hooks_t *h, void **prof, na_record_t *before) {
    na_record_t rec;
    give(h, prof, before, 77);
    for (int i = 0; i < 5; i++)
        site_b(h, prof, &rec, 50);
    h->on_exit(prof);
    _exit(0);
}

static void check_child(int parent) {
    snprintf(path, sizeof path, "%s/p.nprof.1", dir);
    na_reader_t *r = reopen();
    cr_assert_eq(na_reader_header(r)->inherited_pid, parent);
    cr_assert_neq(na_reader_header(r)->inherited_start_unix_ns, 0);
    cr_assert_eq(na_reader_header(r)->before_frees, 1);
    totals_t t = totals(r, 0);
    cr_assert_eq(t.sum.alloc_count, 5);
    cr_assert_eq(t.sum.free_count, 0);
    cr_assert_gt(na_reader_modules(r).count, 1);
    no_issues(r);
    na_reader_close(r);
    snprintf(path, sizeof path, "%s/p.nprof", dir);
    r = reopen();
    t = totals(r, 0);
    cr_assert_eq(t.sum.alloc_count, 1, "the child wrote into its parent's file");
    na_reader_close(r);
}

Test(record, fork_gets_a_file_of_its_own, .init = setup, .fini = teardown) {
    const na_hooks_t *h = start(NA_PROFILE_SITES, 0);
    void *prof = NULL;
    na_record_t before;
    site_a(h, &prof, &before, 77);
    h->before_fork();
    pid_t child = fork();
    if (child == 0) {
        h->after_fork_child(&prof);
        child_events(h, &prof, &before);
    }
    h->after_fork_parent();
    waitpid(child, NULL, 0);
    check_child(getpid());
}

Test(record, raw_fork_is_noticed, .init = setup, .fini = teardown) {
    const na_hooks_t *h = start(NA_PROFILE_SITES, 0);
    void *prof = NULL;
    na_record_t before;
    site_a(h, &prof, &before, 77);
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) child_events(h, &prof, &before);
    int status;
    waitpid(child, &status, 0);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    check_child(getpid());
}

Test(record, never_overwrites_and_says_why_not, .init = setup, .fini = teardown) {
    FILE *f = fopen(path, "w");
    fputs("precious", f);
    fclose(f);
    start(NA_PROFILE_SITES, 0);
    char text[16] = "";
    f = fopen(path, "r");
    cr_assert(fgets(text, sizeof text, f) != NULL);
    cr_assert_str_eq(text, "precious");
    fclose(f);
    int fds[2];
    cr_assert_eq(pipe(fds), 0);
    int old = dup(2);
    dup2(fds[1], 2);
    const na_hooks_t *h = na_profile_start(
        &(na_profile_config_t){.mode = NA_PROFILE_SITES, .file = "/nonexistent/dir/x.nprof"});
    dup2(old, 2);
    cr_assert(h == NULL);
    char line[512] = "";
    ssize_t n = read(fds[0], line, sizeof line - 1);
    cr_assert_gt(n, 40);
    cr_assert(strncmp(line, "numalloc: ", 10) == 0 && strchr(line, '\n') == line + n - 1, "%s",
              line);
    cr_assert(strstr(line, "/nonexistent/dir/x.nprof") && strstr(line, "NUMALLOC_PROFILE_FILE"));
}

static uint64_t known_mapped(void) {
    return 123 << 20;
}

/* A directory gets the default name; the allocator's figure is in the timeline. */
Test(record, directory_and_mapped, .init = setup, .fini = teardown) {
    const na_hooks_t *h = na_profile_start(
        &(na_profile_config_t){.mode = NA_PROFILE_SITES, .file = dir, .mapped = known_mapped});
    cr_assert(h != NULL);
    void *prof = NULL;
    na_record_t rec;
    site_a(h, &prof, &rec, 64);
    give(h, &prof, &rec, 64);
    h->on_exit(&prof);
    DIR *d = opendir(dir);
    int files = 0;
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        if (e->d_name[0] == '.') continue;
        files++;
        int pid = 0;
        cr_assert(sscanf(e->d_name, "numalloc.test_record.%d.", &pid) == 1, "%s", e->d_name);
        cr_assert_eq(pid, getpid());
        snprintf(path, sizeof path, "%s/%.60s", dir, e->d_name);
    }
    closedir(d);
    cr_assert_eq(files, 1);
    na_reader_t *r = reopen();
    uint32_t count, interval;
    const na_nprof_point_t *points = na_reader_timeline(r, &count, &interval);
    cr_assert(points != NULL && count > 0);
    uint64_t mapped = 0;
    for (uint32_t i = 0; i < count; i++)
        if (points[i].mapped > mapped) mapped = points[i].mapped;
    cr_assert_eq(mapped, known_mapped());
    na_reader_close(r);
}

/* RLIMIT_FSIZE stands for the full disk: growth is refused; the program neither dies nor waits. */
Test(record, full_disk_stops_growth_only, .init = setup, .fini = teardown) {
    const na_hooks_t *h = start(NA_PROFILE_SITES, 0);
    void *prof = NULL;
    static na_record_t rec[4096];
    site_a(h, &prof, &rec[0], 64);
    struct rlimit small = {400 << 10, 400 << 10};
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
    all_paths(h, &prof, rec);
    for (int i = 0; i < 4096; i++)
        give(h, &prof, &rec[i], 64);
    h->on_exit(&prof);
    na_reader_t *r = reopen();
    const na_nprof_header_t *hd = na_reader_header(r);
    totals_t t = totals(r, 0);
    cr_assert_leq(na_reader_file_size(r), 400 << 10);
    cr_assert(t.sum.alloc_count + hd->lost_events >= 4097);
    cr_assert_eq(t.cells == 0, false);
    no_issues(r);
    na_reader_close(r);
}

/* Blocks drawn as the allocator draws them: the estimate is unbiased. */
Test(record, sampled_estimates, .init = setup, .fini = teardown) {
    const double interval = 4096;
    const na_hooks_t *h = start(NA_PROFILE_SAMPLE, 4096);
    void *prof = NULL;
    na_record_t rec;
    unsigned seed = 1;
    static const size_t sizes[] = {16, 320, 4096, 65536};
    double true_bytes = 0, true_count = 0;
    for (int i = 0; i < 400000; i++) {
        size_t n = sizes[i % 4];
        true_bytes += (double)n;
        true_count++;
        if ((rand_r(&seed) + 0.5) / ((double)RAND_MAX + 1) < 1 - exp(-(double)n / interval))
            site_a(h, &prof, &rec, n);
    }
    h->on_exit(&prof);
    na_reader_t *r = reopen();
    const na_nprof_header_t *hd = na_reader_header(r);
    totals_t t = totals(r, 0);
    double bytes = (double)t.sum.alloc_bytes / true_bytes;
    double count = (double)t.sum.alloc_count / hd->count_scale / true_count;
    cr_assert(fabs(bytes - 1) < 0.005, "bytes %.4f", bytes);
    cr_assert(fabs(count - 1) < 0.10, "count %.4f", count); /* ~390 of the small ones drawn: 5 % */
    cr_assert_gt(t.sum.raw_allocs, 100000);
    no_issues(r);
    na_reader_close(r);
}
