/* tune.c - numalloc-run --tune: the whole circle. The program runs once with a profile,
 * numalloc-dump writes the policy of that, and the program runs in turn under it and without
 * (rounds.c). Where the policy does not pay, rules are left out one by one until what is left does:
 * the most costly one first where the run takes longer, else the one that promised least. Of many
 * rules half go at a time. When the policy pays, each rule must: it is left out for a trial, and
 * stays out where the run is the better for it.
 *
 * A rule may do what it is for (accesses to other nodes, lines shared, memory kept in vain, bytes
 * copied) without any effect on these figures here. So one more run is profiled, under the policy,
 * and numalloc-dump policy --compare says which rules do: of these a policy may stay where it makes
 * nothing worse for sure.
 *
 * All files but the policy are in a directory of its own, which goes at the end. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "profiler/run/run.h"
#include "profiler/run/tune_rules.h"

enum {
    FEW = 8,           /* rules: more are halved, and not tried one by one in the end */
    MOST_PROFILES = 64 /* of the processes of one run */
};
#define BEFORE "before"
#define AFTER  "after"
#define LONGER 1.0 /* the run takes longer if the ratios' interval is above that */

typedef struct tune {
    const na_run_command_t *command;
    const na_run_tools_t *tools;
    const na_run_program_t *program;
    char directory[64], candidate[96], other[96];
    na_tune_rules_t rules;
    na_run_shown_t shown; /* of the next runs */
    na_run_compared_t last;
} tune_t;

/* ---- the directory ---- */

static bool make_work_directory(tune_t *t) {
    const char *folder = na_run_variable("TMPDIR");
    /* (A % would mean something in the name of a profile.) */
    if (folder == NULL || strlen(folder) > 40 || strchr(folder, '%') != NULL) folder = "/tmp";
    snprintf(t->directory, sizeof t->directory, "%s/numalloc-XXXXXX", folder);
    if (mkdtemp(t->directory) == NULL) {
        na_run_say("%s: %s", t->directory, strerror(errno));
        t->directory[0] = 0;
        return false;
    }
    snprintf(t->candidate, sizeof t->candidate, "%s/candidate.policy", t->directory);
    snprintf(t->other, sizeof t->other, "%s/other.policy", t->directory);
    return true;
}

static void remove_directory(const tune_t *t) {
    if (t->directory[0] == 0) return;
    DIR *dir = opendir(t->directory);
    const struct dirent *e;
    while (dir != NULL && (e = readdir(dir)) != NULL)
        if (e->d_name[0] != '.') unlinkat(dirfd(dir), e->d_name, 0);
    if (dir != NULL) closedir(dir);
    rmdir(t->directory);
}

/* ---- the profile, and its policy ---- */

static int wait_for_round(pid_t pid) {
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR) return NA_RUN_FAILED << 8;
    return status;
}

/* Under a policy, or without (NULL); files begin with `name`. */
static bool profile(tune_t *t, const char *policy, const char *name) {
    char files[sizeof t->directory + 16];
    snprintf(files, sizeof files, "%s/%s.%%p", t->directory, name);
    const char *access = t->command->access != NULL ? t->command->access : "auto";
    pid_t pid = fork();
    if (pid < 0) na_run_say("fork: %s", strerror(errno));
    if (pid < 0) return false;
    if (pid == 0) {
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (null >= 0) dup2(null, STDIN_FILENO);
        if (null >= 0 && policy != NULL) { /* it was seen, and will be */
            dup2(null, STDOUT_FILENO);
            dup2(null, STDERR_FILENO);
        }
        bool good = (policy == NULL ? unsetenv("NUMALLOC_POLICY")
                                    : setenv("NUMALLOC_POLICY", policy, 1)) == 0 &&
                    setenv("NUMALLOC_PROFILE", "sites", 1) == 0 &&
                    setenv("NUMALLOC_ACCESS", access, 1) == 0 &&
                    setenv("NUMALLOC_PROFILE_FILE", files, 1) == 0;
        _exit(good ? na_run_become(t->program, t->command->program) : NA_RUN_FAILED);
    }
    na_run_child = pid;
    int status = wait_for_round(pid);
    na_run_child = 0;
    t->shown = NA_RUN_ERRORS;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
    na_run_say("%s with a profile: %s %d", t->command->program[0],
               WIFEXITED(status) ? "status" : "killed by signal",
               WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    return false;
}

/* numalloc-dump, its output to a descriptor. (Signals are the handler's here, not na_run_tool's.)
 */
static bool run_dump(char **words, int to) {
    pid_t pid = fork();
    if (pid == 0) {
        dup2(to, STDOUT_FILENO);
        unsetenv("LD_PRELOAD"); /* not the user's program */
        execv(words[0], words);
        na_run_say("%s: %s", words[0], strerror(errno));
        _exit(NA_RUN_NOT_FOUND);
    }
    if (pid < 0) return false;
    int status = wait_for_round(pid);
    return WIFEXITED(status) && WEXITSTATUS(status) <= 1;
}

/* The files of a profile (free their names): how many. */
static size_t list_profiles(const tune_t *t, const char *prefix, char *names[MOST_PROFILES]) {
    size_t count = 0;
    DIR *dir = opendir(t->directory);
    const struct dirent *e;
    while (dir != NULL && count < MOST_PROFILES && (e = readdir(dir)) != NULL)
        if (strncmp(e->d_name, prefix, strlen(prefix)) == 0 &&
            asprintf(&names[count], "%s/%s", t->directory, e->d_name) >= 0)
            count++;
    if (dir != NULL) closedir(dir);
    return count;
}

/* numalloc-dump policy FILE... -o CANDIDATE. */
static bool write_policy(const tune_t *t) {
    char *words[MOST_PROFILES + 8];
    static char view[] = "policy", option[] = "-o";
    size_t count = 0, first;
    words[count++] = (char *)(size_t)t->tools->dump; /* exec does not write to its words */
    words[count++] = view;
    first = count;
    count += list_profiles(t, BEFORE, words + first);
    size_t end = count;
    if (end == first) na_run_say("no profile was written");
    words[count++] = option;
    words[count++] = (char *)(size_t)t->candidate;
    words[count] = NULL;
    bool good = end != first && run_dump(words, STDERR_FILENO);
    for (size_t i = first; i < end; i++)
        free(words[i]);
    return good;
}

/* ---- which rules do what they are for ---- */

/* The line of a rule, for people. */
static void show_rule(const tune_t *t, size_t i, const char *what) {
    const na_tune_rule_t *rule = &t->rules.items[i];
    fprintf(stderr, "%s line %u: %.*s\n", what, rule->number, (int)rule->length,
            t->rules.text + rule->at);
}

/* The rules that are kept, by a table of numalloc-dump: "verdict,line,..." */
static void read_compared(tune_t *t, const char *path) {
    char line[4096];
    unsigned number;
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        for (size_t i = 0; sscanf(line, "keep,%u", &number) == 1 && i < t->rules.count; i++)
            if (t->rules.items[i].number == number) t->rules.items[i].proven = true;
    if (file != NULL) fclose(file);
}

/* Of one process alone, whose profiles are of the same. */
static void compare_profiles(tune_t *t, char **before, char **after) {
    static char view[] = "policy", compare[] = "--compare", table[] = "--csv";
    char out[sizeof t->directory + 16];
    snprintf(out, sizeof out, "%s/compared", t->directory);
    char *words[] = {(char *)(size_t)t->tools->dump,
                     view,
                     compare,
                     t->candidate,
                     before[0],
                     after[0],
                     table,
                     NULL};
    int to = open(out, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (to >= 0 && run_dump(words, to)) read_compared(t, out);
    if (to >= 0) close(to);
}

/* Runs the program once more; false: it failed. */
static bool prove_rules(tune_t *t) {
    char *before[MOST_PROFILES], *after[MOST_PROFILES];
    size_t befores = list_profiles(t, BEFORE, before), afters = 0;
    bool good = befores != 1 || profile(t, t->candidate, AFTER);
    if (good) afters = list_profiles(t, AFTER, after);
    if (befores == 1 && afters == 1) compare_profiles(t, before, after);
    while (befores > 0)
        free(before[--befores]);
    while (afters > 0)
        free(after[--afters]);
    for (size_t i = 0; i < t->rules.count; i++)
        if (t->rules.items[i].proven) show_rule(t, i, "does what it is for:");
    return good;
}

/* ---- which rules pay ---- */

static bool write_to(const tune_t *t, const char *path, const char *head, size_t but) {
    if (na_tune_write(&t->rules, path, head, but)) return true;
    na_run_say("%s: %s", path, strerror(errno));
    return false;
}

/* Under what is left of the policy, and without. */
static bool try_it(tune_t *t) {
    if (!write_to(t, t->candidate, "", SIZE_MAX)) return false;
    fprintf(stderr, "%zu rule%s, %u rounds:\n", t->rules.left, t->rules.left == 1 ? "" : "s",
            t->command->tune);
    bool good = na_run_compare(t->command, t->program, t->command->tune, NULL, t->candidate,
                               t->shown, &t->last);
    t->shown = NA_RUN_HIDDEN;
    if (good) na_run_show_compared(&t->last);
    return good;
}

static void leave_out_rule(tune_t *t, size_t i, const char *how) {
    static const char *const names[NA_RUN_FIGURES] = {"time", "peak", "mean"};
    na_tune_rule_t *rule = &t->rules.items[i];
    size_t used = (size_t)snprintf(rule->why, sizeof rule->why, "%s", how);
    for (int k = 0; k < NA_RUN_FIGURES && used < sizeof rule->why; k++)
        used += (size_t)snprintf(rule->why + used, sizeof rule->why - used, "%s%s %.3f times",
                                 k == 0 ? " " : ", ", names[k], t->last.ratio[k].median);
    rule->left_out = true;
    t->rules.left--;
    show_rule(t, i, "left out:");
}

/* Until it pays, or nothing is left. False: a run failed. */
static bool drop_until_it_pays(tune_t *t) {
    while (t->rules.left != 0) {
        if (!try_it(t)) return false;
        if (t->last.says == NA_RUN_PAYS ||
            (t->last.says != NA_RUN_LOSES && na_tune_all_proven(&t->rules)))
            return true;
        bool longer = t->last.ratio[NA_RUN_TIME].low > LONGER;
        size_t out = t->rules.left > FEW ? t->rules.left / 2 : 1;
        for (; out != 0; out--)
            leave_out_rule(t, na_tune_next(&t->rules, longer), "with it, and those left then:");
    }
    return true;
}

/* Each rule of a policy that pays: is the run the better without it? */
static bool try_each(tune_t *t) {
    for (size_t i = t->rules.count; i-- > 0 && t->rules.left > 1 && t->rules.left <= FEW;) {
        na_run_compared_t without;
        if (t->rules.items[i].left_out) continue;
        snprintf(t->rules.items[i].why, sizeof t->rules.items[i].why, "on trial");
        if (!write_to(t, t->candidate, "", SIZE_MAX) || !write_to(t, t->other, "", i)) return false;
        show_rule(t, i, "and without");
        if (!na_run_compare(t->command, t->program, t->command->tune, t->candidate, t->other,
                            NA_RUN_HIDDEN, &without))
            return false;
        bool proven = t->rules.items[i].proven;
        if (without.says != NA_RUN_PAYS || (proven && without.ratio[NA_RUN_TIME].high >= 1))
            continue;
        na_run_show_compared(&without);
        t->last = without;
        leave_out_rule(t, i, "the policy without it against all:");
    }
    return true;
}

/* ---- the end ---- */

/* Where the policy goes: -o, or the program's name. */
static bool name_output(const tune_t *t, char out[PATH_MAX]) {
    const char *slash = strrchr(t->command->program[0], '/');
    const char *name = slash != NULL ? slash + 1 : t->command->program[0];
    int n = t->command->output != NULL ? snprintf(out, PATH_MAX, "%s", t->command->output)
                                       : snprintf(out, PATH_MAX, "%s.policy", name);
    return n > 0 && n < PATH_MAX;
}

static int finish_tune(tune_t *t) {
    char name[PATH_MAX], head[512];
    if (t->rules.left == 0) {
        fprintf(stderr, t->rules.count == 0 ? "numalloc-run: nothing to be gained by rules\n"
                                            : "numalloc-run: no rule pays\n");
        return 1;
    }
    const na_run_ratio_t *r = t->last.ratio;
    snprintf(head, sizeof head,
             "# tuned, %u rounds with and without: time %.3f times (%.3f to %.3f),\n"
             "#   peak %.3f (%.3f to %.3f), mean %.3f (%.3f to %.3f)\n",
             t->command->tune, r[0].median, r[0].low, r[0].high, r[1].median, r[1].low, r[1].high,
             r[2].median, r[2].low, r[2].high);
    if (!name_output(t, name) || !write_to(t, name, head, SIZE_MAX)) return NA_RUN_FAILED;
    fprintf(stderr, "numalloc-run: %zu of %zu rule%s pay%s: %s\n", t->rules.left, t->rules.count,
            t->rules.count == 1 ? "" : "s", t->rules.left == 1 ? "s" : "", name);
    return 0;
}

static int tune(tune_t *t) {
    const char *path = t->candidate;
    if (t->command->policy != NULL) {
        path = t->command->policy;
    } else {
        if (t->tools->dump[0] == 0) {
            na_run_say("--tune needs numalloc-dump, which is not here");
            return NA_RUN_FAILED;
        }
        if (!profile(t, NULL, BEFORE) || !write_policy(t)) return NA_RUN_FAILED;
    }
    if (!na_tune_read(&t->rules, path)) {
        na_run_say("%s: %s", path, strerror(errno));
        return NA_RUN_FAILED;
    }
    size_t all = t->rules.left;
    if (all != 0 && t->command->policy == NULL && !prove_rules(t)) return NA_RUN_FAILED;
    if (!drop_until_it_pays(t)) return NA_RUN_FAILED;
    size_t paying = t->rules.left;
    if (!try_each(t)) return NA_RUN_FAILED;
    /* What is written was measured as a whole. */
    if (t->rules.left != paying && t->rules.left != 0 && all != 0 && !drop_until_it_pays(t))
        return NA_RUN_FAILED;
    return finish_tune(t);
}

int na_run_tune(const na_run_command_t *c, const na_run_tools_t *tools,
                const na_run_program_t *program) {
    static tune_t t;
    t = (tune_t){.command = c, .tools = tools, .program = program};
    na_run_stop_by_signals();    /* and take its files along */
    unsetenv("NUMALLOC_ACCESS"); /* of the first run only */
    int status = make_work_directory(&t) ? tune(&t) : NA_RUN_FAILED;
    na_tune_free(&t.rules);
    remove_directory(&t);
    return status;
}
