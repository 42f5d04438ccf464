/* ruled.c - what the rules of a policy did, in the file. */
#include "profiler/record/state/state.h"

static struct {
    const na_profile_config_t *config;
    na_nprof_chunk_t *policy, *rules; /* NULL: not made */
} ruled;

void na_ruled_start(const na_profile_config_t *config) {
    ruled.config = config;
    ruled.policy = ruled.rules = NULL;
    na_ruled_write();
}

/* NULL: the disk is full, or the profile's memory. */
static na_nprof_chunk_t *make_ruled_chunk(uint16_t type, uint32_t entries, uint32_t size) {
    uint64_t length = na_nprof_chunk_length(entries, size);
    if (!na_rec_has_room(length)) return NULL;
    na_nprof_chunk_t *c = na_writer_chunk(type, length, size, 0, 0, 0);
    if (c == NULL) return NULL;
    c->capacity = entries;
    na_writer_publish(c);
    return c;
}

/* Entries are changed in place, and exist once they are whole. */
void na_ruled_write(void) {
    na_nprof_policy_t policy;
    if (ruled.config == NULL || ruled.config->policy == NULL || !ruled.config->policy(&policy))
        return;
    if (ruled.policy == NULL) ruled.policy = make_ruled_chunk(NA_NPROF_POLICY, 1, sizeof policy);
    if (ruled.policy == NULL) return;
    *(na_nprof_policy_t *)(ruled.policy + 1) = policy;
    __atomic_store_n(&ruled.policy->count, 1, __ATOMIC_RELEASE);
    if (policy.rules == 0) { /* none any more */
        if (ruled.rules != NULL) __atomic_store_n(&ruled.rules->count, 0, __ATOMIC_RELEASE);
        return;
    }
    if (ruled.rules == NULL || ruled.rules->capacity < policy.rules) {
        if (ruled.rules != NULL) __atomic_store_n(&ruled.rules->count, 0, __ATOMIC_RELEASE);
        ruled.rules =
            make_ruled_chunk(NA_NPROF_POLICY_RULES, policy.rules, sizeof(na_nprof_rule_t));
    }
    if (ruled.rules == NULL) return;
    ruled.config->policy_rules((na_nprof_rule_t *)(ruled.rules + 1), policy.rules);
    __atomic_store_n(&ruled.rules->count, policy.rules, __ATOMIC_RELEASE);
}
