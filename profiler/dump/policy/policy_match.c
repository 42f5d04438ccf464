/* policy_match.c - see policy_match.h. */
#include "profiler/dump/policy/policy_match.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "profiler/dump/ui/text.h"

/* ---- the file ---- */

typedef struct reading {
    const char *file;
    FILE *to;
} reading_t;

static void put_fault(void *arg, const na_policy_fault_t *fault) {
    const reading_t *r = arg;
    char line[512];
    na_policy_fault_text(fault, r->file, line, sizeof line);
    na_text_put(r->to, line);
    fputc('\n', r->to);
}

na_status_t na_policy_match_read(na_policy_match_t *m, const char *name) {
    *m = (na_policy_match_t){.file = name};
    m->text = malloc(NA_POLICY_TEXT + 2);
    m->policy = calloc(1, sizeof *m->policy);
    if (m->text == NULL || m->policy == NULL) return NA_STATUS_MEMORY;
    FILE *file = fopen(name, "re");
    if (file == NULL) return na_fail("%s: %s", name, strerror(errno));
    size_t length = fread(m->text, 1, NA_POLICY_TEXT + 2, file);
    bool failed = ferror(file) != 0;
    fclose(file);
    if (failed) return na_fail("%s: %s", name, strerror(EIO));
    reading_t reading = {name, open_memstream(&m->faults, &m->faults_size)};
    if (reading.to == NULL) return NA_STATUS_MEMORY;
    bool good = na_policy_read(m->text, length, m->policy, put_fault, &reading);
    if (fclose(reading.to) != 0) return NA_STATUS_MEMORY;
    if (!good)
        return na_fail("%s: no policy of this version; it begins with 'numalloc policy %u'", name,
                       NA_POLICY_VERSION);
    m->modules = calloc((size_t)m->policy->module_count + 1, sizeof *m->modules);
    m->elfs = calloc((size_t)m->policy->module_count + 1, sizeof *m->elfs);
    return m->modules != NULL && m->elfs != NULL ? NA_STATUS_WHOLE : NA_STATUS_MEMORY;
}

void na_policy_match_free(na_policy_match_t *m) {
    free(m->text);
    free(m->policy);
    free(m->faults);
    free(m->modules);
    free(m->elfs);
    *m = (na_policy_match_t){0};
}

/* ---- beside profiles ---- */

bool na_policy_is_profile(const char *path) {
    uint64_t magic = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    bool is = fd >= 0 && read(fd, &magic, sizeof magic) == sizeof magic && magic == NA_NPROF_MAGIC;
    if (fd >= 0) close(fd);
    return is;
}

void na_policy_match_elfs(na_policy_match_t *match, const na_policy_work_t *w) {
    const na_policy_t *policy = match->policy;
    for (uint32_t e = 0; e < w->elf_count; e++) {
        const na_policy_elf_t *elf = &w->elfs[e];
        if (elf->main && na_policy_is_for(policy, elf->name, elf->build_id, elf->build_id_size))
            match->program_is = true;
        for (uint32_t i = 0; i < policy->module_count; i++) {
            const na_policy_module_t *m = &policy->modules[i];
            if (match->modules[i] == NA_POLICY_FOUND ||
                !na_policy_name_is(policy, m->name, elf->name))
                continue;
            bool same = m->build_id.length == elf->build_id_size &&
                        memcmp(m->build_id.bytes, elf->build_id, elf->build_id_size) == 0;
            match->modules[i] = same ? NA_POLICY_FOUND : NA_POLICY_FOUND_OTHER;
            if (same) match->elfs[i] = e + 1;
        }
    }
}

/* Is the rule, by address, the beginning of the run? */
static bool means(const na_policy_match_t *m, const na_policy_rule_t *rule,
                  const na_judged_site_t *run) {
    if (rule->depth > run->depth) return false;
    for (uint32_t i = 0; i < rule->depth; i++) {
        const na_policy_frame_t *frame = &rule->frames[i];
        if (frame->module == NA_POLICY_NO_MODULE || frame->offset != run->frames[i].offset ||
            m->elfs[frame->module] != run->frames[i].module + 1)
            return false;
    }
    return true;
}

uint32_t na_policy_match_run(const na_policy_match_t *m, const na_judged_site_t *run) {
    uint32_t best = NA_NO_RULE, depth = 0;
    for (uint32_t r = 0; r < m->policy->rule_count; r++) {
        const na_policy_rule_t *rule = &m->policy->rules[r];
        if (rule->depth <= depth || !means(m, rule, run)) continue;
        best = r;
        depth = rule->depth;
    }
    return best;
}
