/* policy_check.c - see policy_check.h. */
#include "profiler/dump/policy/policy_check.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "profiler/analyze/blocks/elf_build.h"
#include "profiler/containers/path.h"
#include "profiler/dump/policy/policy_find.h"
#include "profiler/dump/ui/text.h"

/* How a module of the policy, or its program, stands to what is there. */
typedef enum found {
    FOUND_NOT,
    FOUND_OTHER, /* another build */
    FOUND,
} found_t;

typedef struct check {
    const char *file;
    char *text;
    char *faults; /* lines */
    size_t faults_size;
    FILE *to_faults;
    na_policy_t *policy;
    bool looked;      /* there is a program, or a profile */
    bool program_is;  /* and the policy is for it */
    char path[4096];  /* of the program; "": there are profiles, or nothing */
    found_t *modules; /* by module of the policy */
    uint32_t *elfs;   /* with profiles: number of the na_policy_elf_t, plus 1 */
    double *blocks, *bytes;
    uint32_t *sites; /* by rule, with profiles: that it means */
} check_t;

/* ---- the policy ---- */

static void put_fault(void *arg, const na_policy_fault_t *fault) {
    const check_t *c = arg;
    char line[512];
    na_policy_fault_text(fault, c->file, line, sizeof line);
    na_text_put(c->to_faults, line);
    fputc('\n', c->to_faults);
}

static na_status_t read_policy(check_t *c) {
    c->text = malloc(NA_POLICY_TEXT + 2);
    c->policy = calloc(1, sizeof *c->policy);
    if (c->text == NULL || c->policy == NULL) return NA_STATUS_MEMORY;
    FILE *file = fopen(c->file, "re");
    if (file == NULL) return na_fail("%s: %s", c->file, strerror(errno));
    size_t length = fread(c->text, 1, NA_POLICY_TEXT + 2, file);
    bool failed = ferror(file) != 0;
    fclose(file);
    if (failed) return na_fail("%s: %s", c->file, strerror(EIO));
    c->to_faults = open_memstream(&c->faults, &c->faults_size);
    if (c->to_faults == NULL) return NA_STATUS_MEMORY;
    bool good = na_policy_read(c->text, length, c->policy, put_fault, c);
    if (fclose(c->to_faults) != 0) return NA_STATUS_MEMORY;
    if (good) return NA_STATUS_WHOLE;
    return na_fail("%s: no policy of this version; it begins with 'numalloc policy %u'", c->file,
                   NA_POLICY_VERSION);
}

/* ---- against a program ---- */

/* False: no ELF file. */
static bool has_build(const char *path, const na_policy_build_id_t *id, found_t *found) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0) return false;
    elf_version(EV_CURRENT);
    Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
    bool is = elf != NULL && elf_kind(elf) == ELF_K_ELF;
    na_nprof_module_t module = {.build_id_size = id->length};
    memcpy(module.build_id, id->bytes, id->length);
    if (is) *found = na_elf_same_build(elf, &module) ? FOUND : FOUND_OTHER;
    elf_end(elf);
    close(fd);
    return is;
}

static void look_for(check_t *c, const na_policy_module_t *m, found_t *found) {
    static const char *const folders[] = {"",
                                          "/lib/x86_64-linux-gnu",
                                          "/usr/lib/x86_64-linux-gnu",
                                          "/lib/aarch64-linux-gnu",
                                          "/usr/lib/aarch64-linux-gnu",
                                          "/lib64",
                                          "/usr/lib64",
                                          "/lib",
                                          "/usr/lib",
                                          "/usr/local/lib"};
    const char *name = c->policy->text + m->name.at;
    char path[8192];
    if (na_policy_name_is(c->policy, m->name, na_base_name(c->path)) &&
        has_build(c->path, &m->build_id, found) && *found == FOUND)
        return;
    for (size_t i = 0; i < sizeof folders / sizeof folders[0] && *found != FOUND; i++) {
        if (i == 0)
            snprintf(path, sizeof path, "%.*s%.*s", (int)(na_base_name(c->path) - c->path), c->path,
                     (int)m->name.length, name);
        else
            snprintf(path, sizeof path, "%s/%.*s", folders[i], (int)m->name.length, name);
        (void)has_build(path, &m->build_id, found);
    }
}

static na_status_t look_at_program(check_t *c, const char *path) {
    const na_policy_t *policy = c->policy;
    found_t found = FOUND_NOT;
    na_policy_build_id_t none = {.length = 0};
    if (realpath(path, c->path) == NULL) return na_fail("%s: %s", path, strerror(errno));
    if (!has_build(c->path, &none, &found))
        return na_fail("%s is neither a profile nor a program", path);
    c->looked = true;
    for (uint32_t i = 0; i < policy->program_count; i++) {
        const na_policy_program_t *p = &policy->programs[i];
        bool named =
            p->name.length == 0 || na_policy_name_is(policy, p->name, na_base_name(c->path));
        if (named && (p->any_build || (has_build(c->path, &p->build_id, &found) && found == FOUND)))
            c->program_is = true;
    }
    for (uint32_t i = 0; i < policy->module_count; i++)
        look_for(c, &policy->modules[i], &c->modules[i]);
    return NA_STATUS_WHOLE;
}

/* ---- against profiles ---- */

static void find_elfs(check_t *c, const na_policy_work_t *w) {
    const na_policy_t *policy = c->policy;
    for (uint32_t e = 0; e < w->elf_count; e++) {
        const na_policy_elf_t *elf = &w->elfs[e];
        if (elf->main && na_policy_is_for(policy, elf->name, elf->build_id, elf->build_id_size))
            c->program_is = true;
        for (uint32_t i = 0; i < policy->module_count; i++) {
            const na_policy_module_t *m = &policy->modules[i];
            if (c->modules[i] == FOUND || !na_policy_name_is(policy, m->name, elf->name)) continue;
            bool same = m->build_id.length == elf->build_id_size &&
                        memcmp(m->build_id.bytes, elf->build_id, elf->build_id_size) == 0;
            c->modules[i] = same ? FOUND : FOUND_OTHER;
            if (same) c->elfs[i] = e + 1;
        }
    }
}

/* Is the rule, by address, the beginning of the run? */
static bool means(const check_t *c, const na_policy_rule_t *rule, const na_run_t *run) {
    if (rule->depth > run->depth) return false;
    for (uint32_t i = 0; i < rule->depth; i++) {
        const na_policy_frame_t *frame = &rule->frames[i];
        if (frame->module == NA_POLICY_NO_MODULE || frame->offset != run->frames[i].offset ||
            c->elfs[frame->module] != run->frames[i].module + 1)
            return false;
    }
    return true;
}

static void count_sites(check_t *c, const na_policy_work_t *w) {
    for (size_t i = 0; i < w->run_count; i++) {
        const na_run_t *run = &w->runs[i];
        uint32_t best = UINT32_MAX, depth = 0;
        for (uint32_t r = 0; r < c->policy->rule_count; r++) {
            const na_policy_rule_t *rule = &c->policy->rules[r];
            if (rule->depth <= depth || !means(c, rule, run)) continue;
            best = r;
            depth = rule->depth;
        }
        if (best == UINT32_MAX) continue;
        c->sites[best]++;
        c->blocks[best] += run->blocks;
        c->bytes[best] += run->bytes;
    }
}

static na_status_t look_at_profiles(check_t *c, const char *const *files, size_t count,
                                    const na_options_t *options) {
    na_policy_work_t w;
    na_status_t status = na_policy_find(&w, files, count, options);
    if (status == NA_STATUS_WHOLE) {
        c->looked = true;
        find_elfs(c, &w);
        count_sites(c, &w);
    }
    return na_policy_work_free(&w, status);
}

/* ---- what is said ---- */

static void put_word(const check_t *c, na_policy_name_t name) {
    char text[256];
    snprintf(text, sizeof text, "%.*s", (int)name.length, c->policy->text + name.at);
    na_text_put(stdout, text);
}

static bool node_is_here(unsigned node) {
    char path[64];
    snprintf(path, sizeof path, "/sys/devices/system/node/node%u", node);
    /* Without the folder the system has one node, and no list of them. */
    return access(path, F_OK) == 0 || (node == 0 && access("/sys/devices/system/node", F_OK) != 0);
}

/* The first node that the rule names and the machine has not; -1: none. */
static int missing_node(const na_policy_action_t *a) {
    if (a->node != NA_POLICY_NO_NODE && !node_is_here(a->node)) return a->node;
    for (unsigned n = 0; n < NA_POLICY_NODES_MOST; n++)
        if ((a->nodes[n / 64] >> n % 64 & 1) != 0 && !node_is_here(n)) return (int)n;
    return -1;
}

/* One line. True: it can be obeyed. */
static bool put_rule(const check_t *c, uint32_t number) {
    const na_policy_rule_t *rule = &c->policy->rules[number];
    bool by_name = false;
    printf("line %u: ", rule->line);
    for (uint32_t i = 0; i < rule->depth; i++) {
        uint32_t module = rule->frames[i].module;
        by_name |= module == NA_POLICY_NO_MODULE;
        if (module == NA_POLICY_NO_MODULE || !c->looked || c->modules[module] == FOUND) continue;
        put_word(c, c->policy->modules[module].name);
        puts(c->modules[module] == FOUND_OTHER ? " is of another build" : " is not found");
        return false;
    }
    int node = missing_node(&rule->action);
    if (node >= 0) {
        printf("this machine has no node %d\n", node);
        return false;
    }
    char blocks[NA_TEXT], bytes[NA_TEXT];
    if (by_name)
        printf("by function\n");
    else if (!c->looked || c->path[0] != 0)
        printf("good\n");
    else if (c->sites[number] == 0)
        printf("good, but means none of these sites\n");
    else
        printf("good, means %u site%s: %s in %s blocks\n", c->sites[number],
               c->sites[number] == 1 ? "" : "s", na_text_bytes(bytes, c->bytes[number]),
               na_text_count(blocks, c->blocks[number]));
    return true;
}

static na_status_t put_all(const check_t *c) {
    uint32_t good = 0, all = c->policy->rule_count;
    bool others = c->looked && !c->program_is;
    fputs(c->faults, stdout);
    if (others) printf("it is for another program, or another build of this one\n");
    for (uint32_t i = 0; i < all; i++)
        good += put_rule(c, i);
    if (others) good = 0;
    printf("%u of %u rule%s can be obeyed", good, all, all == 1 ? "" : "s");
    if (c->policy->faults != 0) printf("; %u lines are wrong", c->policy->faults);
    putchar('\n');
    return good == all && !others && c->policy->faults == 0 ? NA_STATUS_WHOLE : NA_STATUS_PARTIAL;
}

static bool is_profile(const char *path) {
    uint64_t magic = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    bool is = fd >= 0 && read(fd, &magic, sizeof magic) == sizeof magic && magic == NA_NPROF_MAGIC;
    if (fd >= 0) close(fd);
    return is;
}

static na_status_t check(check_t *c, const char *const *files, size_t count,
                         const na_options_t *options) {
    na_status_t status = read_policy(c);
    if (status != NA_STATUS_WHOLE) return status;
    size_t rules = c->policy->rule_count;
    c->modules = calloc((size_t)c->policy->module_count + 1, sizeof *c->modules);
    c->elfs = calloc((size_t)c->policy->module_count + 1, sizeof *c->elfs);
    c->blocks = calloc(rules + 1, sizeof *c->blocks);
    c->bytes = calloc(rules + 1, sizeof *c->bytes);
    c->sites = calloc(rules + 1, sizeof *c->sites);
    if (c->modules == NULL || c->elfs == NULL || c->blocks == NULL || c->bytes == NULL ||
        c->sites == NULL)
        return NA_STATUS_MEMORY;
    if (count > 1 && !is_profile(files[1])) {
        if (count > 2) return na_fail("one program at a time: %s", files[2]);
        status = look_at_program(c, files[1]);
    } else if (count > 1) {
        status = look_at_profiles(c, files + 1, count - 1, options);
    }
    if (status == NA_STATUS_NOTHING || status == NA_STATUS_MEMORY) return status;
    na_status_t said = put_all(c);
    return said == NA_STATUS_WHOLE ? status : said;
}

na_status_t na_policy_check(const char *const *files, size_t count, const na_options_t *options) {
    check_t c = {.file = files[0]};
    na_status_t status = check(&c, files, count, options);
    free(c.text);
    free(c.faults);
    free(c.policy);
    free(c.modules);
    free(c.elfs);
    free(c.blocks);
    free(c.bytes);
    free(c.sites);
    return status;
}
