/* policy_follow.c - see policy_follow.h. */
#include "profiler/dump/policy/policy_follow.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "profiler/containers/array.h"
#include "profiler/dump/policy/policy_control.h"
#include "profiler/dump/profile/live_profile.h"
#include "profiler/policy/rules/rules.h"

#define INTERVAL_S 2.0

/* A rule as it is told from others and written again: "NAME BUILD-ID 0xOFFSET < ..." of its frames,
 * and what stands behind the colon; the line, as a profile has it. */
typedef struct rule {
    char *frames, *actions, *line;
    char *why; /* it was dropped; else NULL */
} rule_t;

typedef struct set {
    rule_t *items;
    size_t count, room;
    bool groups; /* the text has some, which sets have not */
} set_t;

typedef struct follow {
    const na_options_t *options;
    const char *path; /* of the profile */
    set_t written;    /* rules of the file as it is */
    set_t dropped;    /* that were in it, also before this process */
} follow_t;

/* A rule that was dropped, as the file has it: DROPPED why DROPPED_RULE frames " : " actions. */
#define DROPPED      "\n# dropped: "
#define DROPPED_RULE "\n#   "

static volatile sig_atomic_t follow_ended;

static void on_end_signal(int number) {
    (void)number;
    follow_ended = 1;
}

/* ---- sets of rules ---- */

static void free_rule(rule_t *rule) {
    free(rule->frames);
    free(rule->actions);
    free(rule->line);
    free(rule->why);
}

static void clear(set_t *set) {
    for (size_t i = 0; i < set->count; i++)
        free_rule(&set->items[i]);
    free(set->items);
    *set = (set_t){0};
}

static const rule_t *find_rule(const set_t *set, const char *frames) {
    for (size_t i = 0; i < set->count; i++)
        if (strcmp(set->items[i].frames, frames) == 0) return &set->items[i];
    return NULL;
}

static void put_rule_name(FILE *to, const na_policy_t *p, na_policy_name_t name) {
    fprintf(to, "\"%.*s\"", (int)name.length, p->text + name.at);
}

static void put_rule_frames(FILE *to, const na_policy_t *p, const na_policy_rule_t *rule) {
    for (unsigned k = 0; k < rule->depth; k++) {
        const na_policy_frame_t *frame = &rule->frames[k];
        if (k != 0) fputs(" < ", to);
        if (frame->module == NA_POLICY_NO_MODULE) {
            fprintf(to, "%.*s", (int)frame->name.length, p->text + frame->name.at);
            continue;
        }
        const na_policy_module_t *module = &p->modules[frame->module];
        put_rule_name(to, p, module->name);
        putc(' ', to);
        for (unsigned i = 0; i < module->build_id.length; i++)
            fprintf(to, "%02x", module->build_id.bytes[i]);
        fprintf(to, "%s 0x%" PRIx64, module->build_id.length == 0 ? "-" : "", frame->offset);
    }
}

/* What stands behind the colon of that line, without its comment. */
static void put_written_actions(FILE *to, const na_policy_t *p, uint32_t line) {
    na_policy_name_t part = na_policy_line(p->text, p->length, line);
    const char *at = p->text + part.at, *stop = at + part.length;
    const char *colon = memchr(at, ':', part.length);
    at = colon == NULL ? stop : colon + 1;
    while (at < stop && (*at == ' ' || *at == '\t'))
        at++;
    fwrite(at, 1, (size_t)(stop - at), to);
}

/* The rules of a policy's text, added; false: no memory. One that is no policy has none. */
static bool add_rules(set_t *set, const char *text, size_t length) {
    na_policy_t *p = calloc(1, sizeof *p);
    if (p == NULL) return false;
    bool good = true;
    if (na_policy_read(text, length, p, NULL, NULL)) {
        set->groups |= p->group_count != 0;
        for (uint32_t i = 0; good && i < p->rule_count; i++) {
            rule_t rule = {0};
            size_t sizes[2];
            FILE *frames = open_memstream(&rule.frames, &sizes[0]);
            FILE *actions = open_memstream(&rule.actions, &sizes[1]);
            good = frames != NULL && actions != NULL;
            if (good) {
                put_rule_frames(frames, p, &p->rules[i]);
                put_written_actions(actions, p, p->rules[i].line);
            }
            if (frames != NULL) good = fclose(frames) == 0 && good;
            if (actions != NULL) good = fclose(actions) == 0 && good;
            na_policy_name_t line = na_policy_line(p->text, p->length, p->rules[i].line);
            rule.line = strndup(p->text + line.at, line.length);
            good = good && rule.line != NULL &&
                   NA_ARRAY_RESERVE(set->items, set->room, set->count + 1u);
            if (good)
                set->items[set->count++] = rule;
            else
                free_rule(&rule);
        }
    }
    free(p);
    return good;
}

/* ---- rules that do not pay ---- */

static bool is_dropped(const follow_t *f, const rule_t *rule) {
    for (size_t i = 0; i < f->dropped.count; i++)
        if (strcmp(f->dropped.items[i].frames, rule->frames) == 0 &&
            strcmp(f->dropped.items[i].actions, rule->actions) == 0)
            return true;
    return false;
}

typedef struct drop {
    follow_t *follow;
    unsigned dropped;
    bool failed; /* out of memory */
} drop_t;

/* Only what the file has is dropped, and rules of placement alone: accesses say nothing of others.
 */
static void drop_rule(void *arg, const na_nprof_rule_t *did, const na_change_t *change,
                      const double samples[2], na_change_says_t says) {
    drop_t *d = arg;
    set_t *dropped = &d->follow->dropped;
    if (says != NA_CHANGE_DROP) return;
    for (size_t i = 0; i < d->follow->written.count; i++) {
        const rule_t *rule = &d->follow->written.items[i];
        if (strncmp(rule->line, did->text, sizeof did->text - 1) != 0 ||
            strstr(rule->actions, "place=") == NULL || is_dropped(d->follow, rule))
            continue;
        rule_t copy = {.frames = strdup(rule->frames),
                       .actions = strdup(rule->actions),
                       .line = strdup(rule->line)};
        if (asprintf(&copy.why,
                     "%.1f %% of %.0f accesses went to other nodes, of %.0f to its control %.1f %%",
                     100 * change->after, samples[1], samples[0], 100 * change->before) < 0)
            copy.why = NULL;
        if (copy.frames == NULL || copy.actions == NULL || copy.line == NULL || copy.why == NULL ||
            !NA_ARRAY_RESERVE(dropped->items, dropped->room, dropped->count + 1u)) {
            free_rule(&copy);
            d->failed = true;
            return;
        }
        dropped->items[dropped->count++] = copy;
        d->dropped++;
    }
}

/* The text with a comment instead of each rule that was dropped. False: out of memory. */
static bool without_dropped(const follow_t *f, char **text, size_t *length) {
    set_t rules = {0};
    char *whole = NULL;
    size_t size;
    if (f->dropped.count == 0) return true;
    FILE *to = add_rules(&rules, *text, *length) ? open_memstream(&whole, &size) : NULL;
    if (to == NULL) {
        clear(&rules);
        return false;
    }
    const char *at = *text, *stop = *text + *length;
    while (at < stop) {
        const char *end = memchr(at, '\n', (size_t)(stop - at));
        size_t part = (size_t)((end != NULL ? end + 1 : stop) - at);
        bool drop = false;
        for (size_t i = 0; i < rules.count && !drop; i++) {
            size_t line = strlen(rules.items[i].line);
            drop = part >= line && memcmp(at, rules.items[i].line, line) == 0 &&
                   is_dropped(f, &rules.items[i]);
        }
        if (drop) fputs("# ", to);
        fwrite(at, 1, part, to);
        at += part;
    }
    clear(&rules);
    if (fclose(to) != 0) return false;
    free(*text);
    *text = whole;
    *length = size;
    return true;
}

/* ---- writing ---- */

/* A rule of before in a policy whose modules have other names, or not that one. */
static void put_kept(FILE *to, const rule_t *rule, unsigned *modules) {
    char *copy = strdup(rule->frames), *at = copy;
    if (copy == NULL) return;
    char line[16384] = "site ";
    for (bool first = true; at != NULL; first = false) {
        char *next = strstr(at, " < ");
        if (next != NULL) *next = 0;
        size_t used = strlen(line);
        char *offset = strrchr(at, ' ');
        if (at[0] == '"' && offset != NULL) {
            fprintf(to, "module k%u %.*s\n", *modules, (int)(offset - at), at);
            snprintf(line + used, sizeof line - used, "%sk%u+%s", first ? "" : " < ", *modules,
                     offset + 1);
            ++*modules;
        } else {
            snprintf(line + used, sizeof line - used, "%s%s", first ? "" : " < ", at);
        }
        at = next != NULL ? next + 3 : NULL;
    }
    fprintf(to, "%s : %s\n", line, rule->actions);
    free(copy);
}

/* The text of the policy with what is kept of before; *new, *changed: rules. False: no memory. */
static bool keep_earlier(const follow_t *f, char **text, size_t *length, set_t *now,
                         unsigned *fresh, unsigned *changed) {
    if (!without_dropped(f, text, length) || !add_rules(now, *text, *length)) return false;
    for (size_t i = 0; i < now->count; i++) {
        const rule_t *before = find_rule(&f->written, now->items[i].frames);
        *fresh += before == NULL;
        *changed += before != NULL && strcmp(before->actions, now->items[i].actions) != 0;
    }
    char *whole = NULL;
    size_t size;
    FILE *to = open_memstream(&whole, &size);
    if (to == NULL) return false;
    fwrite(*text, 1, *length, to);
    unsigned modules = 1, kept = 0;
    for (size_t i = 0; i < f->written.count; i++) {
        const rule_t *before = &f->written.items[i];
        if (find_rule(now, before->frames) != NULL || is_dropped(f, before)) continue;
        if (kept++ == 0) fputs("\n# kept: the profile says nothing else of these now\n", to);
        put_kept(to, before, &modules);
    }
    for (size_t i = 0; i < f->dropped.count; i++)
        fprintf(to, DROPPED "%s" DROPPED_RULE "%s : %s\n", f->dropped.items[i].why,
                f->dropped.items[i].frames, f->dropped.items[i].actions);
    if (fclose(to) != 0) return false;
    free(*text);
    *text = whole;
    *length = size;
    clear(now);
    return add_rules(now, whole, size);
}

static na_status_t write_file(const char *path, const char *text, size_t length) {
    if (path == NULL) {
        fwrite(text, 1, length, stdout);
        return fflush(stdout) == 0 ? NA_STATUS_WHOLE : na_fail("cannot write the output");
    }
    char temporary[4096];
    struct stat st;
    mode_t mask = umask(0);
    umask(mask);
    mode_t mode = stat(path, &st) == 0 ? st.st_mode & 07777 : 0666 & ~mask;
    if ((size_t)snprintf(temporary, sizeof temporary, "%s.XXXXXX", path) >= sizeof temporary)
        return na_fail("cannot write %s: the name is too long", path);
    int fd = mkostemp(temporary, O_CLOEXEC);
    FILE *to = fd >= 0 ? fdopen(fd, "w") : NULL;
    bool good = to != NULL && fchmod(fd, mode) == 0 && fwrite(text, 1, length, to) == length;
    if (to != NULL) good = fclose(to) == 0 && good;
    if (good && rename(temporary, path) == 0) return NA_STATUS_WHOLE;
    int error = errno;
    if (fd >= 0) unlink(temporary);
    return na_fail("cannot write %s: %s", path, strerror(error));
}

/* ---- looking ---- */

/* What na_policy_write writes, as a text; NULL with *status WHOLE: the profile is not to be read
 * just now. *over: it will not change any more. *dropped: rules that turn out not to pay. */
static char *policy_of(follow_t *f, size_t *length, bool *over, unsigned *dropped,
                       na_status_t *status) {
    na_policy_work_t work;
    char *text = NULL;
    FILE *to = NULL, *own = stdout;
    *status = na_policy_find(&work, &f->path, 1, f->options);
    if (*status == NA_STATUS_WHOLE) {
        *over = na_reader_header(work.profiles[0].in.reader)->state == NA_NPROF_CLOSED;
        drop_t drop = {.follow = f};
        if (!na_policy_controls(&work, drop_rule, &drop) || drop.failed) *status = NA_STATUS_MEMORY;
        *dropped = drop.dropped;
    }
    if (*status == NA_STATUS_WHOLE) {
        to = open_memstream(&text, length);
        if (to == NULL) *status = NA_STATUS_MEMORY;
    }
    if (to != NULL) {
        stdout = to; /* views write there */
        *status = na_policy_write(&work);
        stdout = own;
        if (fclose(to) != 0) *status = NA_STATUS_MEMORY;
    }
    *status = na_policy_work_free(&work, *status);
    if (*status == NA_STATUS_PARTIAL) *status = NA_STATUS_WHOLE; /* it grows while it is read */
    return text;
}

static na_status_t follow_once(follow_t *f, bool *over) {
    na_status_t status;
    size_t length = 0;
    unsigned fresh = 0, changed = 0, dropped = 0;
    set_t now = {0};
    char *text = policy_of(f, &length, over, &dropped, &status);
    if (text == NULL || status != NA_STATUS_WHOLE) {
        free(text);
        return status;
    }
    if (!keep_earlier(f, &text, &length, &now, &fresh, &changed)) status = NA_STATUS_MEMORY;
    if (status == NA_STATUS_WHOLE && fresh + changed + dropped != 0) {
        status = write_file(f->options->output, text, length);
        fprintf(f->options->output != NULL ? stdout : stderr,
                "%zu rule%s: %u new, %u changed, %zu as before%s", now.count,
                now.count == 1 ? "" : "s", fresh, changed, now.count - fresh - changed,
                dropped == 0 ? "\n" : "");
        if (dropped != 0)
            fprintf(f->options->output != NULL ? stdout : stderr, ", %u dropped\n", dropped);
        fflush(stdout);
        clear(&f->written);
        f->written = now;
        now = (set_t){0};
    }
    clear(&now);
    free(text);
    return status;
}

/* Rules that an earlier follower dropped. */
static bool read_dropped(set_t *dropped, const char *text) {
    for (const char *at = text; (at = strstr(at, DROPPED)) != NULL;) {
        at += sizeof DROPPED - 1;
        const char *end = strchr(at, '\n');
        if (end == NULL || strncmp(end, DROPPED_RULE, sizeof DROPPED_RULE - 1) != 0) continue;
        const char *frames = end + sizeof DROPPED_RULE - 1;
        size_t length = strcspn(frames, "\n");
        const char *colon = memmem(frames, length, " : ", 3);
        if (colon == NULL) continue;
        rule_t rule = {.frames = strndup(frames, (size_t)(colon - frames)),
                       .actions = strndup(colon + 3, (size_t)(frames + length - colon - 3)),
                       .line = strdup(""),
                       .why = strndup(at, (size_t)(end - at))};
        if (rule.frames == NULL || rule.actions == NULL || rule.line == NULL || rule.why == NULL ||
            !NA_ARRAY_RESERVE(dropped->items, dropped->room, dropped->count + 1u)) {
            free_rule(&rule);
            return false;
        }
        dropped->items[dropped->count++] = rule;
    }
    return true;
}

/* What is in the file already: by hand, or of a run before. */
static bool read_written(follow_t *f) {
    FILE *from = f->options->output != NULL ? fopen(f->options->output, "re") : NULL;
    if (from == NULL) return true;
    char *text = malloc(NA_POLICY_TEXT + 2);
    size_t length = text != NULL ? fread(text, 1, NA_POLICY_TEXT + 1, from) : 0;
    fclose(from);
    if (text != NULL) text[length] = 0;
    bool good =
        text != NULL && add_rules(&f->written, text, length) && read_dropped(&f->dropped, text);
    free(text);
    return good;
}

na_status_t na_policy_follow(const char *const *files, size_t count, const na_options_t *options) {
    if (count != 1) return na_fail("--follow takes one process, or one profile");
    char path[PATH_MAX];
    pid_t pid = 0; /* a file is followed */
    bool process = na_live_is_pid(files[0]);
    na_status_t status = NA_STATUS_WHOLE;
    if (process) status = na_live_profile_find(files[0], path, &pid);
    if (status != NA_STATUS_WHOLE) return status;
    follow_t f = {.options = options, .path = process ? path : files[0]};
    if (!read_written(&f)) status = NA_STATUS_MEMORY;
    if (f.written.groups) {
        clear(&f.written);
        clear(&f.dropped);
        return na_fail("%s has groups, which --follow does not write: name another file",
                       options->output);
    }
    struct sigaction action = {.sa_handler = on_end_signal};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    uint64_t times = options->live.iterations != 0 ? options->live.iterations : UINT64_MAX;
    uint64_t interval =
        (uint64_t)((options->live.interval_s > 0 ? options->live.interval_s : INTERVAL_S) * 1000);
    bool over = false;
    for (uint64_t i = 0; i < times && status == NA_STATUS_WHOLE && !over && follow_ended == 0;
         i++) {
        uint64_t began = na_live_now_ms();
        bool gone = process && kill(pid, 0) != 0 && errno == ESRCH;
        status = follow_once(&f, &over);
        over |= gone;
        /* Half of the time at most goes into looking. */
        uint64_t took = na_live_now_ms() - began;
        if (i + 1 < times && !over && follow_ended == 0)
            na_live_wait_ms(took > interval / 2 ? took : interval - took, &follow_ended);
    }
    clear(&f.written);
    clear(&f.dropped);
    return status;
}
