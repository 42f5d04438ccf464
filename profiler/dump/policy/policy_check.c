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
#include "profiler/dump/policy/policy_match.h"
#include "profiler/dump/ui/text.h"

typedef struct check {
    na_policy_match_t match;
    bool looked;     /* there is a program, or a profile */
    bool program_is; /* and the policy is for it */
    char path[4096]; /* of the program; "": there are profiles, or nothing */
    double *blocks, *bytes;
    uint32_t *sites; /* by rule, with profiles: that it means */
} check_t;

/* ---- against a program ---- */

/* False: no ELF file. */
static bool has_build(const char *path, const na_policy_build_id_t *id, na_policy_found_t *found) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0) return false;
    elf_version(EV_CURRENT);
    Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
    bool is = elf != NULL && elf_kind(elf) == ELF_K_ELF;
    na_nprof_module_t module = {.build_id_size = id->length};
    memcpy(module.build_id, id->bytes, id->length);
    if (is) *found = na_elf_same_build(elf, &module) ? NA_POLICY_FOUND : NA_POLICY_FOUND_OTHER;
    elf_end(elf);
    close(fd);
    return is;
}

static void look_for(check_t *c, const na_policy_module_t *m, na_policy_found_t *found) {
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
    const char *name = c->match.policy->text + m->name.at;
    char path[8192];
    if (na_policy_name_is(c->match.policy, m->name, na_base_name(c->path)) &&
        has_build(c->path, &m->build_id, found) && *found == NA_POLICY_FOUND)
        return;
    for (size_t i = 0; i < sizeof folders / sizeof folders[0] && *found != NA_POLICY_FOUND; i++) {
        if (i == 0)
            snprintf(path, sizeof path, "%.*s%.*s", (int)(na_base_name(c->path) - c->path), c->path,
                     (int)m->name.length, name);
        else
            snprintf(path, sizeof path, "%s/%.*s", folders[i], (int)m->name.length, name);
        (void)has_build(path, &m->build_id, found);
    }
}

static na_status_t look_at_program(check_t *c, const char *path) {
    const na_policy_t *policy = c->match.policy;
    na_policy_found_t found = NA_POLICY_FOUND_NOT;
    na_policy_build_id_t none = {.length = 0};
    if (realpath(path, c->path) == NULL) return na_fail("%s: %s", path, strerror(errno));
    if (!has_build(c->path, &none, &found))
        return na_fail("%s is neither a profile nor a program", path);
    c->looked = true;
    for (uint32_t i = 0; i < policy->program_count; i++) {
        const na_policy_program_t *p = &policy->programs[i];
        bool named =
            p->name.length == 0 || na_policy_name_is(policy, p->name, na_base_name(c->path));
        if (named && (p->any_build ||
                      (has_build(c->path, &p->build_id, &found) && found == NA_POLICY_FOUND)))
            c->program_is = true;
    }
    for (uint32_t i = 0; i < policy->module_count; i++)
        look_for(c, &policy->modules[i], &c->match.modules[i]);
    return NA_STATUS_WHOLE;
}

/* ---- against profiles ---- */

static void count_sites(check_t *c, const na_policy_work_t *w) {
    for (size_t i = 0; i < w->run_count; i++) {
        const na_judged_site_t *run = &w->runs[i];
        uint32_t best = na_policy_match_run(&c->match, run);
        if (best == NA_NO_RULE) continue;
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
        na_policy_match_elfs(&c->match, &w);
        c->program_is = c->match.program_is;
        count_sites(c, &w);
    }
    return na_policy_work_free(&w, status);
}

/* ---- what is said ---- */

static void put_policy_word(const check_t *c, na_policy_name_t name) {
    char text[256];
    snprintf(text, sizeof text, "%.*s", (int)name.length, c->match.policy->text + name.at);
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
static bool put_checked_rule(const check_t *c, uint32_t number) {
    const na_policy_rule_t *rule = &c->match.policy->rules[number];
    bool by_name = false;
    printf("line %u: ", rule->line);
    for (uint32_t i = 0; i < rule->depth; i++) {
        uint32_t module = rule->frames[i].module;
        by_name |= module == NA_POLICY_NO_MODULE;
        if (module == NA_POLICY_NO_MODULE || !c->looked ||
            c->match.modules[module] == NA_POLICY_FOUND)
            continue;
        put_policy_word(c, c->match.policy->modules[module].name);
        puts(c->match.modules[module] == NA_POLICY_FOUND_OTHER ? " is of another build"
                                                               : " is not found");
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

static na_status_t put_check(const check_t *c) {
    uint32_t good = 0, all = c->match.policy->rule_count;
    bool others = c->looked && !c->program_is;
    fputs(c->match.faults, stdout);
    if (others) printf("it is for another program, or another build of this one\n");
    for (uint32_t i = 0; i < all; i++)
        good += put_checked_rule(c, i);
    if (others) good = 0;
    printf("%u of %u rule%s can be obeyed", good, all, all == 1 ? "" : "s");
    if (c->match.policy->faults != 0) printf("; %u lines are wrong", c->match.policy->faults);
    putchar('\n');
    return good == all && !others && c->match.policy->faults == 0 ? NA_STATUS_WHOLE
                                                                  : NA_STATUS_PARTIAL;
}

static na_status_t check_policy(check_t *c, const char *const *files, size_t count,
                                const na_options_t *options) {
    na_status_t status = na_policy_match_read(&c->match, files[0]);
    if (status != NA_STATUS_WHOLE) return status;
    size_t rules = c->match.policy->rule_count;
    c->blocks = calloc(rules + 1, sizeof *c->blocks);
    c->bytes = calloc(rules + 1, sizeof *c->bytes);
    c->sites = calloc(rules + 1, sizeof *c->sites);
    if (c->blocks == NULL || c->bytes == NULL || c->sites == NULL) return NA_STATUS_MEMORY;
    if (count > 1 && !na_policy_is_profile(files[1])) {
        if (count > 2) return na_fail("one program at a time: %s", files[2]);
        status = look_at_program(c, files[1]);
    } else if (count > 1) {
        status = look_at_profiles(c, files + 1, count - 1, options);
    }
    if (status == NA_STATUS_NOTHING || status == NA_STATUS_MEMORY) return status;
    na_status_t said = put_check(c);
    return said == NA_STATUS_WHOLE ? status : said;
}

na_status_t na_policy_check(const char *const *files, size_t count, const na_options_t *options) {
    check_t c = {.path = ""};
    na_status_t status = check_policy(&c, files, count, options);
    na_policy_match_free(&c.match);
    free(c.blocks);
    free(c.bytes);
    free(c.sites);
    return status;
}
