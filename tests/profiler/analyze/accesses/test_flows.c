/* test_flows.c - flows of threads and objects: their order, the objects' lives, conditions, several
 * processes. */
#include "profiler/analyze/accesses/flows_where.h"
#include "tests/support/access_judge.h"

TestSuite(flows, .timeout = 300);

typedef struct read_back {
    na_reader_t *reader[2];
    na_flows_t flows;
} read_back_t;

static void read_one(made_t *m, read_back_t *r) {
    r->reader[0] = made_reader(m);
    r->reader[1] = NULL;
    cr_assert(na_flows_read(r->reader, 1, &r->flows));
    cr_assert_eq(na_reader_issue_count(r->reader[0]), 0);
}

static void forget(read_back_t *r) {
    na_flows_free(&r->flows);
    for (int i = 0; i < 2; i++)
        if (r->reader[i] != NULL) na_reader_close(r->reader[i]);
}

/* Every sample is in one flow of a thread and one of an object, in order of time. */
static void check_flows(const na_flows_t *f) {
    uint32_t in_threads = 0, in_objects = 0;
    for (uint32_t t = 0; t < f->thread_count; t++) {
        na_flow_t flow = na_flow_of_thread(f, t);
        in_threads += flow.count;
        for (uint32_t i = 0; i < flow.count; i++) {
            cr_assert_eq(f->items[flow.items[i]].thread, t);
            if (i > 0) cr_assert_leq(f->items[flow.items[i - 1]].ns, f->items[flow.items[i]].ns);
        }
    }
    for (uint32_t o = 0; o < f->object_count; o++) {
        na_flow_t flow = na_flow_of_object(f, o);
        in_objects += flow.count;
        for (uint32_t i = 0; i < flow.count; i++) {
            cr_assert_eq(f->items[flow.items[i]].object, o);
            if (i > 0) cr_assert_lt(flow.items[i - 1], flow.items[i]);
        }
    }
    cr_assert_eq(in_threads, f->count);
    cr_assert_eq(in_objects, f->count);
    uint32_t members = 0;
    for (uint32_t g = 0; g < f->group_count; g++) {
        for (uint32_t i = 0; i < f->groups[g].objects; i++)
            cr_assert_eq(f->objects[f->groups[g].members[i]].group, g);
        members += f->groups[g].objects;
    }
    cr_assert_eq(members, f->object_count);
}

Test(flows, order_and_membership) {
    made_t m;
    made_begin(&m);
    uint32_t block[20];
    for (uint32_t i = 0; i < 20; i++)
        block[i] = made_object(&m, 4 + i % 2, 1 + i % 3, (int)(i % 4), 4096);
    for (uint32_t i = 0; i < 5000; i++) {
        made_touch(&m, block[i * 7 % 20], 1 + i * 5 % 6, (int)(i % 4), (int)(i / 3 % 4));
        if (i % 3 == 0) m.samples[i].ns -= 2 * MADE_MS; /* sources are nearly in order only */
    }
    read_back_t r;
    read_one(&m, &r);
    check_flows(&r.flows);
    cr_assert_eq(r.flows.count, 5000);
    cr_assert_eq(r.flows.group_count, 2);
    cr_assert_eq(r.flows.node_count, 4);
    cr_assert_eq(r.flows.nodes[1].distance[2], 20);
    forget(&r);
}

/* The same memory, handed out twice, is two objects. */
Test(flows, lives) {
    made_t m;
    made_begin(&m);
    uint32_t first = made_object(&m, 4, 1, 0, 64);
    for (int i = 0; i < 10; i++)
        made_touch(&m, first, 1, 0, 0);
    m.objects[first - 1].death_ns = m.ns + 1;
    m.ns += 10 * MADE_MS;
    uint32_t second = made_object(&m, 4, 2, 1, 64);
    m.objects[second - 1].base = m.objects[first - 1].base;
    for (int i = 0; i < 5; i++)
        made_touch(&m, second, 2, 1, 0);
    read_back_t r;
    read_one(&m, &r);
    cr_assert_eq(r.flows.object_count, 2);
    cr_assert_eq(r.flows.objects[0].base, r.flows.objects[1].base);
    cr_assert_lt(r.flows.objects[0].end_ns, r.flows.objects[1].birth_ns);
    cr_assert_eq(na_flow_of_object(&r.flows, 0).count, 10);
    cr_assert_eq(na_flow_of_object(&r.flows, 1).count, 5);
    forget(&r);
}

/* An end that nobody saw is when the next block began there, or in a part of it. */
Test(flows, ends_by_the_next) {
    made_t m;
    made_begin(&m);
    uint64_t birth[5];
    for (int i = 0; i < 5; i++) {
        uint32_t id = made_object(&m, 4, 1, 0, 256);
        birth[i] = m.objects[id - 1].birth_ns;
        made_touch(&m, id, 1, 0, 0);
        m.ns += 10 * MADE_MS;
    }
    uint64_t base = m.objects[0].base;
    m.objects[1].base = base + 256; /* beside the first */
    m.objects[2].base = base + 128; /* in the first: a pool's */
    m.objects[2].kind = NA_NPROF_OBJECT_POOL;
    m.objects[2].size = 64;
    m.objects[3].base = base + 255; /* in the first and over the second */
    m.objects[4].base = base;
    m.objects[4].size = 255; /* where the first was, before the fourth */
    read_back_t r;
    read_one(&m, &r);
    cr_assert_eq(r.flows.object_count, 5);
    cr_assert_eq(r.flows.objects[0].end_ns, birth[3]);
    cr_assert_eq(r.flows.objects[1].end_ns, birth[3]);
    for (uint32_t i = 2; i < 5; i++)
        cr_assert_eq(r.flows.objects[i].end_ns, UINT64_MAX, "object %u", i);
    forget(&r);
}

static uint32_t left(made_t *m, const char *conditions) {
    read_back_t r;
    read_one(m, &r);
    char why[NA_WHERE_WHY];
    cr_assert(na_flows_select(&r.flows, conditions, why), "%s: %s", conditions, why);
    check_flows(&r.flows);
    cr_assert_eq(r.flows.all, 100);
    uint32_t count = r.flows.count;
    forget(&r);
    return count;
}

/* A hundred accesses; every property holds for a number that no other one holds for. */
static void hundred(made_t *m) {
    made_begin(m);
    uint32_t a = made_object(m, 4, 1, 0, 4096), b = made_object(m, 5, 1, 0, 4096);
    for (uint32_t i = 0; i < 100; i++) {
        m->op = i < 11 ? NA_NPROF_OP_WRITE : NA_NPROF_OP_READ;
        m->level = i < 23 ? NA_NPROF_LEVEL_L2 : NA_NPROF_LEVEL_REMOTE_DRAM;
        m->latency = i < 5 ? -1 : (int32_t)i * 10;
        na_nprof_access_sample_t *s =
            made_touch(m, i < 31 ? a : b, i < 41 ? 1 : 2, i < 53 ? 1 : 2, i < 17 ? 1 : 3);
        s->cpu = i < 61 ? 7 : 8;
    }
}

Test(flows, conditions) {
    static const struct {
        const char *conditions;
        uint32_t left;
    } cases[] = {
        {"write", 11},           {"read", 89},          {"dram", 77},
        {"local", 17},           {"remote", 83},        {"node=1", 53},
        {"home=3", 83},          {"cpu=7", 61},         {"thread=101", 41},
        {"thread=thread 2", 59}, {"process=4242", 100}, {"process=1", 0},
        {"site=4", 31},          {"object=1", 69},      {"kind=heap", 100},
        {"kind=stack", 0},       {"latency>500", 49},   {"latency<500", 45},
        {"time=11-20", 10},      {"time=91-", 10},      {"time=-10", 10},
        {"write,remote", 0},     {"read,local", 6},     {"node=1,home=3,thread=102", 12},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        made_t m;
        hundred(&m);
        uint32_t count = left(&m, cases[i].conditions);
        cr_assert_eq(count, cases[i].left, "%s leaves %u", cases[i].conditions, count);
    }
}

Test(flows, conditions_not_understood) {
    static const char *const wrong[] = {"",
                                        "remot",
                                        "remote=1",
                                        "node",
                                        "node=",
                                        "node=x",
                                        "node>1",
                                        "latency=5",
                                        "latency<0",
                                        "time=5",
                                        "time=9-5",
                                        "kind=odd",
                                        "remote,",
                                        "thread=",
                                        "cpu=-1",
                                        "time=a-b",
                                        "process=99999999999999999999"};
    made_t m;
    hundred(&m);
    read_back_t r;
    read_one(&m, &r);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char why[NA_WHERE_WHY] = "";
        cr_assert(!na_flows_select(&r.flows, wrong[i], why), "'%s' is understood", wrong[i]);
        cr_assert_neq(why[0], 0);
    }
    cr_assert_eq(r.flows.count, 100, "what is not understood changes nothing");
    forget(&r);
}

/* Two processes of one application: one axis of time, one site, two threads with one number. */
Test(flows, processes) {
    read_back_t r;
    for (int p = 0; p < 2; p++) {
        made_t m;
        made_begin(&m);
        m.pid = 4242 + p;
        m.start_mono_ns = p == 0 ? 5 * MADE_MS : 0;
        uint32_t block = made_object(&m, 4, 1, 0, 4096);
        for (uint32_t i = 0; i < 10; i++)
            made_touch(&m, block, 1, p, 0);
        r.reader[p] = made_reader(&m);
    }
    cr_assert(na_flows_read(r.reader, 2, &r.flows));
    check_flows(&r.flows);
    cr_assert_eq(r.flows.process_count, 2);
    cr_assert_eq(r.flows.object_count, 2, "blocks of two processes are two objects");
    cr_assert_eq(r.flows.group_count, 1, "of one site");
    cr_assert_eq(r.flows.thread_count, 2);
    cr_assert_eq(r.flows.items[0].process, 1, "the second one began first");
    cr_assert_eq(r.flows.items[19].process, 0);
    cr_assert_eq(r.flows.source_count, 1);
    cr_assert_eq(r.flows.sources[0].of.stored, 20);
    char why[NA_WHERE_WHY];
    cr_assert(na_flows_select(&r.flows, "process=4243", why));
    cr_assert_eq(r.flows.count, 10);
    forget(&r);
}

/* A file that processes map together is one object; private mappings of it are two. */
Test(flows, shared_files) {
    for (int shared = 0; shared < 2; shared++) {
        read_back_t r;
        for (int p = 0; p < 2; p++) {
            made_t m;
            made_begin(&m);
            m.pid = 4242 + p;
            m.mappings = calloc(1, sizeof *m.mappings);
            m.mappings[0] =
                (na_nprof_access_mapping_t){.start = 0x7000000 + (uint64_t)p * 0x100000,
                                            .end = 0x7002000 + (uint64_t)p * 0x100000,
                                            .to_ns = NA_NPROF_NS_STILL,
                                            .dev = 5,
                                            .inode = 77,
                                            .flags = shared != 0 ? NA_NPROF_MAPPING_SHARED : 0,
                                            .path = "/data/index"};
            m.mapping_count = 1;
            na_nprof_access_sample_t *s = made_sample(&m, 1, 0, 1);
            s->mapping = 1;
            s->target = NA_NPROF_TARGET_FILE;
            s->address = m.mappings[0].start + 64;
            r.reader[p] = made_reader(&m);
        }
        cr_assert(na_flows_read(r.reader, 2, &r.flows));
        check_flows(&r.flows);
        cr_assert_eq(r.flows.group_count, 1);
        cr_assert_str_eq(r.flows.groups[0].name, "/data/index");
        cr_assert_eq(r.flows.groups[0].kind, NA_FLOW_FILE);
        cr_assert_eq(r.flows.object_count, shared != 0 ? 1 : 2);
        forget(&r);
    }
}

/* What the library does for itself is nothing of the program's: not its objects, not its sums. */
Test(flows, own_tables) {
    made_t m;
    made_begin(&m);
    uint32_t block = made_object(&m, 4, 1, 0, 4096);
    for (uint32_t i = 0; i < 100; i++) {
        made_touch(&m, block, 1, 0, 0);
        na_nprof_access_sample_t *s = made_sample(&m, 1, 1, 0);
        s->target = NA_NPROF_TARGET_OWN;
        s->address = UINT64_C(0x70000000) + 8 * i;
    }
    judged_t j;
    made_judge(&m, &j);
    cr_assert_eq(j.flows.count, 100);
    cr_assert_eq(j.flows.all, 100);
    cr_assert_eq(j.flows.object_count, 1);
    cr_assert_eq(j.flows.group_count, 1);
    cr_assert_eq(j.verdicts.samples, 100);
    cr_assert_float_eq(j.verdicts.remote, 0, 1e-9);
    judged_free(&j);
}
