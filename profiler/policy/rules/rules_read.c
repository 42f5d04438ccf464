/* rules_read.c - the parser of policies. See rules.h; docs/policy.md has the grammar.
 *
 * A line at a time, from left to right, without going back: a word, or a sign that stands by
 * itself. What a line declares is added when all of it was read, so a wrong line leaves nothing. */
#include "profiler/policy/rules/rules.h"

#include "alloc/core/sys/base.h"

#define NAME_LONGEST 4096u
#define SHOWN        64u /* characters of a wrong word that a fault repeats */

const char na_policy_places[NA_POLICY_PLACES][12] = {
    [NA_POLICY_PLACE_NONE] = "",
    [NA_POLICY_LOCAL] = "local",
    [NA_POLICY_NODE] = "node",
    [NA_POLICY_NODES] = "nodes",
    [NA_POLICY_INTERLEAVE] = "interleave",
    [NA_POLICY_FIRST_TOUCH] = "first-touch",
    [NA_POLICY_NEAR] = "near",
    [NA_POLICY_FAR] = "far",
    [NA_POLICY_CONSUMER] = "consumer",
    [NA_POLICY_FOLLOW] = "follow",
};

#define PLACES                                                                                     \
    "place is local, node N, nodes A,B, interleave, first-touch, near, far, consumer [N] or "      \
    "follow"
#define ACTIONS "there are place=, lines=own, pages=huge, group=, life=, reserve= and control="

/* The line that is read: text[at, end). */
typedef struct line {
    na_policy_t *policy;
    const char *text;
    uint32_t at, end;
    uint32_t number;
    na_policy_report_t *report;
    void *arg;
} line_t;

/* --- characters and words --- */

static bool is_blank(char c) {
    return c == ' ' || c == '\t';
}

static bool is_rule_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/* Of aliases and groups, and of the words of this language. */
static bool is_name(char c) {
    return is_letter(c) || is_rule_digit(c) || c == '-';
}

/* Of a function, as the linker writes it; C++ and Rust names are the mangled ones. */
static bool is_function(char c) {
    return is_letter(c) || is_rule_digit(c) || c == '$' || c == '.' || c == '@';
}

static int hex_value(char c) {
    if (is_rule_digit(c)) return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

static na_policy_name_t name_of(uint32_t at, uint32_t end) {
    return (na_policy_name_t){at, end - at};
}

na_policy_name_t na_policy_line(const char *text, size_t length, uint32_t line) {
    size_t at = 0, stop;
    for (; line > 1 && at < length; at++)
        line -= text[at] == '\n';
    for (stop = at; stop < length && text[stop] != '\n' && text[stop] != '#';)
        stop++;
    while (at < stop && is_blank(text[at]))
        at++;
    while (at < stop && (is_blank(text[stop - 1]) || text[stop - 1] == '\r'))
        stop--;
    return (na_policy_name_t){(uint32_t)at, (uint32_t)(stop - at)};
}

bool na_policy_name_is(const na_policy_t *policy, na_policy_name_t name, const char *string) {
    for (uint32_t i = 0; i < name.length; i++)
        if (string[i] != policy->text[name.at + i] || string[i] == 0) return false;
    return string[name.length] == 0;
}

static bool same_rule_name(const na_policy_t *policy, na_policy_name_t a, na_policy_name_t b) {
    if (a.length != b.length) return false;
    for (uint32_t i = 0; i < a.length; i++)
        if (policy->text[a.at + i] != policy->text[b.at + i]) return false;
    return true;
}

static void skip_line_blanks(line_t *line) {
    while (line->at < line->end && is_blank(line->text[line->at]))
        line->at++;
}

static bool is_at_end(line_t *line) {
    skip_line_blanks(line);
    return line->at == line->end;
}

/* The character here, 0 at the end. */
static char here(const line_t *line) {
    return line->at < line->end ? line->text[line->at] : 0;
}

/* A sign, with blanks around it. */
static bool take_sign(line_t *line, char sign) {
    skip_line_blanks(line);
    if (here(line) != sign) return false;
    line->at++;
    skip_line_blanks(line);
    return true;
}

static na_policy_name_t take_while(line_t *line, bool (*belongs)(char c)) {
    uint32_t begin = line->at;
    while (line->at < line->end && belongs(line->text[line->at]))
        line->at++;
    return name_of(begin, line->at);
}

static bool is_dark(char c) {
    return !is_blank(c);
}

/* A word up to the next blank, or in double quotes, which do not belong to it. */
static na_policy_name_t take_word(line_t *line) {
    skip_line_blanks(line);
    if (here(line) != '"') return take_while(line, is_dark);
    uint32_t begin = ++line->at;
    while (line->at < line->end && line->text[line->at] != '"')
        line->at++;
    if (line->at == line->end) { /* never closed: the quote stays, and nothing has that name */
        return name_of(begin - 1, line->end);
    }
    return name_of(begin, line->at++);
}

/* --- faults --- */

static bool fault_at(const line_t *line, const char *what, na_policy_name_t word, const char *mend,
                     uint32_t other) {
    line->policy->faults++;
    if (line->report != NULL)
        line->report(line->arg, &(na_policy_fault_t){
                                    .line = line->number,
                                    .other = other,
                                    .what = what,
                                    .word = word.length != 0 ? line->text + word.at : NULL,
                                    .word_length = word.length,
                                    .mend = mend,
                                });
    return false;
}

static bool fault(const line_t *line, const char *what, na_policy_name_t word, const char *mend) {
    return fault_at(line, what, word, mend, 0);
}

/* The rest of the line is what is wrong. */
static bool fault_rest(const line_t *line, const char *what, const char *mend) {
    return fault(line, what, name_of(line->at, line->end), mend);
}

void na_policy_fault_text(const na_policy_fault_t *fault, const char *file, char *into,
                          size_t size) {
    size_t n = 0;
#define PUT(c)                                                                                     \
    do {                                                                                           \
        if (n + 1 < size) into[n++] = (c);                                                         \
    } while (0)
#define PUTS(string)                                                                               \
    do {                                                                                           \
        for (const char *s_ = (string); *s_ != 0; s_++)                                            \
            PUT((unsigned char)*s_ < 32 || *s_ == 127 ? '?' : *s_);                                \
    } while (0)
    const uint32_t numbers[2] = {fault->line, fault->other};
    char digits[2][12];
    for (unsigned i = 0; i < 2; i++) {
        char *at = digits[i] + sizeof digits[i] - 1;
        *at = 0;
        uint32_t v = numbers[i];
        do
            *--at = (char)('0' + v % 10);
        while ((v /= 10) != 0);
        unsigned k = 0;
        while ((digits[i][k] = at[k]) != 0)
            k++;
    }
    if (size == 0) return;
    PUTS(file);
    PUT(':');
    PUTS(digits[0]);
    PUTS(": ");
    PUTS(fault->what);
    if (fault->other != 0) {
        PUTS(" line ");
        PUTS(digits[1]);
    }
    if (fault->word != NULL) {
        PUTS(" '");
        size_t shown = fault->word_length < SHOWN ? fault->word_length : SHOWN;
        for (size_t i = 0; i < shown; i++) {
            unsigned char c = (unsigned char)fault->word[i];
            PUT(c < 32 || c == 127 ? '?' : (char)c);
        }
        if (shown < fault->word_length) PUTS("...");
        PUT('\'');
    }
    if (fault->mend != NULL) {
        PUTS("; ");
        PUTS(fault->mend);
    }
    into[n] = 0;
#undef PUTS
#undef PUT
}

/* --- numbers --- */

/* A decimal number; false: none here, or above `most`. */
static bool take_number(line_t *line, uint64_t most, uint64_t *value) {
    if (!is_rule_digit(here(line))) return false;
    *value = 0;
    for (; is_rule_digit(here(line)); line->at++)
        if (__builtin_mul_overflow(*value, 10u, value) ||
            __builtin_add_overflow(*value, (uint64_t)(here(line) - '0'), value) || *value > most)
            return false;
    return true;
}

/* "0x1a2b": 1 to 16 digits. */
static bool take_offset(line_t *line, uint64_t *value) {
    if (here(line) != '0') return false;
    line->at++;
    if (here(line) != 'x') return false;
    line->at++;
    unsigned digits = 0;
    *value = 0;
    for (; hex_value(here(line)) >= 0; line->at++, digits++)
        *value = *value << 4 | (uint64_t)hex_value(here(line));
    return digits >= 1 && digits <= 16;
}

/* "64K", "64KiB", "65536" */
static bool take_bytes(line_t *line, uint64_t most, uint64_t *value) {
    if (!take_number(line, most, value)) return false;
    static const char units[4] = {'K', 'M', 'G', 'T'};
    for (unsigned i = 0; i < sizeof units; i++) {
        if (here(line) != units[i]) continue;
        line->at++;
        if (here(line) == 'i') line->at++;
        if (__builtin_mul_overflow(*value, (uint64_t)1 << 10 * (i + 1), value)) return false;
        break;
    }
    if (here(line) == 'B') line->at++;
    return *value > 0 && *value <= most;
}

/* A build-id in hexadecimal digits, or "-". */
static bool is_build_id(const line_t *line, na_policy_name_t word, na_policy_build_id_t *id) {
    const char *s = line->text + word.at;
    *id = (na_policy_build_id_t){.length = 0};
    if (word.length == 1 && *s == '-') return true;
    if (word.length == 0 || word.length % 2 != 0 || word.length > 2 * NA_POLICY_BUILD_ID)
        return false;
    for (uint32_t i = 0; i < word.length; i += 2) {
        int high = hex_value(s[i]), low = hex_value(s[i + 1]);
        if (high < 0 || low < 0) return false;
        id->bytes[i / 2] = (uint8_t)(high << 4 | low);
    }
    id->length = (uint8_t)(word.length / 2);
    return true;
}

/* --- program and module --- */

#define BUILD_ID_MEND "a build-id is 2 to 64 hexadecimal digits (readelf -n), or -: it has none"

static bool read_program(line_t *line) {
    na_policy_t *p = line->policy;
    na_policy_program_t program = {.any_build = true, .line = line->number};
    na_policy_name_t name = take_word(line);
    if (name.length == 0 || name.length > NAME_LONGEST)
        return fault_rest(line, "no program is named",
                          "write 'program NAME [BUILD-ID]', or "
                          "'program any'");
    if (!na_policy_name_is(p, name, "any")) {
        program.name = name;
        if (!is_at_end(line)) {
            na_policy_name_t word = take_word(line);
            program.any_build = false;
            if (!is_build_id(line, word, &program.build_id))
                return fault(line, "wrong build-id", word, BUILD_ID_MEND);
        }
    }
    if (!is_at_end(line))
        return fault_rest(line, "more behind the program",
                          "one program a line; a name with blanks "
                          "stands in double quotes");
    if (p->program_count == NA_POLICY_PROGRAMS)
        return fault_rest(line, "too many programs", "8 at most; 'program any' is for all");
    p->programs[p->program_count++] = program;
    return true;
}

static uint32_t find_rule_module(const na_policy_t *p, na_policy_name_t alias) {
    for (uint32_t i = 0; i < p->module_count; i++)
        if (same_rule_name(p, p->modules[i].alias, alias)) return i;
    return NA_POLICY_NO_MODULE;
}

static bool read_module(line_t *line) {
    na_policy_t *p = line->policy;
    na_policy_module_t module = {.line = line->number};
    skip_line_blanks(line);
    module.alias = take_while(line, is_name);
    if (module.alias.length == 0 || !is_letter(line->text[module.alias.at]) ||
        module.alias.length > NA_POLICY_NAME || (!is_blank(here(line)) && here(line) != 0))
        return fault_rest(line, "no alias",
                          "write 'module ALIAS NAME BUILD-ID', as in "
                          "'module m1 libjq.so.1 9a11c0'");
    module.name = take_word(line);
    if (module.name.length == 0 || module.name.length > NAME_LONGEST)
        return fault(line, "no name for module", module.alias,
                     "the soname, or the name of the file without its folder");
    na_policy_name_t id = take_word(line);
    if (id.length == 0) return fault(line, "no build-id for module", module.alias, BUILD_ID_MEND);
    if (!is_build_id(line, id, &module.build_id))
        return fault(line, "wrong build-id", id, BUILD_ID_MEND);
    if (!is_at_end(line))
        return fault_rest(line, "more behind the module",
                          "one module a line; a name with blanks "
                          "stands in double quotes");
    uint32_t other = find_rule_module(p, module.alias);
    if (other != NA_POLICY_NO_MODULE)
        return fault_at(line, "an alias that is taken in", module.alias,
                        "each alias stands for one module", p->modules[other].line);
    if (p->module_count == NA_POLICY_MODULES)
        return fault(line, "too many modules:", module.alias, "64 at most");
    p->modules[p->module_count++] = module;
    return true;
}

/* --- actions --- */

enum { /* which were given */
       PLACE = 1,
       LINES = 2,
       PAGES = 4,
       GROUP = 8,
       LIFE = 16,
       RESERVE = 32,
       CONTROL = 64
};
/* That a group has, so that its sites cannot. */
#define OF_GROUP (PLACE | LINES | PAGES | LIFE | CONTROL)

static void clear_action(na_policy_action_t *action) {
    *action = (na_policy_action_t){
        .group = NA_POLICY_NO_GROUP, .node = NA_POLICY_NO_NODE, .control = NA_POLICY_CONTROL};
}

/* The number of the group, made if need be. */
static bool group_of(line_t *line, na_policy_name_t name, uint16_t *group) {
    na_policy_t *p = line->policy;
    for (uint32_t i = 0; i < p->group_count; i++) {
        if (!same_rule_name(p, p->groups[i].name, name)) continue;
        *group = (uint16_t)i;
        return true;
    }
    if (p->group_count == NA_POLICY_GROUPS)
        return fault(line, "too many groups:", name, "64 at most");
    na_policy_group_t *made = &p->groups[p->group_count];
    made->name = name;
    made->line = line->number;
    made->described = false;
    clear_action(&made->action);
    *group = (uint16_t)p->group_count++;
    return true;
}

static bool take_group_name(line_t *line, na_policy_name_t *name) {
    skip_line_blanks(line);
    uint32_t begin = line->at;
    *name = take_while(line, is_name);
    if (name->length == 0 || !is_letter(line->text[name->at]) || name->length > NA_POLICY_NAME)
        return fault(line, "no name of a group", name_of(begin, line->end),
                     "it begins with a letter and has letters, digits, - and _");
    return true;
}

static bool take_node(line_t *line, uint16_t *node) {
    uint64_t value;
    uint32_t begin = line->at;
    if (!take_number(line, NA_POLICY_NODES_MOST - 1, &value))
        return fault(line, "no node", name_of(begin, line->end),
                     "nodes are numbers from 0 to 1023");
    *node = (uint16_t)value;
    return true;
}

/* "0,2" or "0-3,8": stops before a comma that an action follows. */
static bool take_nodes(line_t *line, na_policy_action_t *action) {
    for (;;) {
        uint16_t first, last;
        if (!take_node(line, &first)) return false;
        last = first;
        if (here(line) == '-') {
            line->at++;
            if (!take_node(line, &last)) return false;
        }
        if (last < first)
            return fault_rest(line, "a range of nodes that ends before it begins",
                              "the smaller number comes first");
        for (unsigned n = first; n <= last; n++)
            action->nodes[n / 64] |= (uint64_t)1 << n % 64;
        uint32_t comma = line->at;
        if (!take_sign(line, ',')) return true;
        if (is_rule_digit(here(line))) continue;
        line->at = comma;
        return true;
    }
}

static bool take_place(line_t *line, na_policy_action_t *action) {
    na_policy_name_t word = take_while(line, is_name);
    for (unsigned i = 1; i < NA_POLICY_PLACES; i++)
        if (na_policy_name_is(line->policy, word, na_policy_places[i])) action->place = (uint8_t)i;
    skip_line_blanks(line);
    switch ((na_policy_place_t)action->place) {
    case NA_POLICY_PLACE_NONE:
        return fault(line, "unknown place", word, PLACES);
    case NA_POLICY_NODE:
        return take_node(line, &action->node);
    case NA_POLICY_NODES:
        return take_nodes(line, action);
    case NA_POLICY_CONSUMER:
        return !is_rule_digit(here(line)) || take_node(line, &action->node);
    default:
        return true;
    }
}

static bool take_control(line_t *line, na_policy_action_t *action) {
    uint64_t n;
    uint32_t begin = line->at;
    na_policy_name_t word = take_while(line, is_name);
    action->control = 0;
    if (na_policy_name_is(line->policy, word, "off")) return true;
    if (!na_policy_name_is(line->policy, word, "1") || here(line) != '/' ||
        (line->at++, !take_number(line, 1024, &n)) || n < 2)
        return fault(line, "wrong control", name_of(begin, line->end),
                     "write control=off, or control=1/N with N from 2 to 1024");
    action->control = (uint16_t)n;
    return true;
}

/* The value of the action `key`. */
static bool take_value(line_t *line, na_policy_name_t key, unsigned which,
                       na_policy_action_t *action) {
    uint32_t begin = line->at;
    na_policy_name_t word;
    switch (which) {
    case PLACE:
        return take_place(line, action);
    case LINES:
        word = take_while(line, is_name);
        action->own_lines = true;
        if (na_policy_name_is(line->policy, word, "own")) return true;
        return fault(line, "unknown lines", word, "lines=own is what there is");
    case PAGES:
        word = take_while(line, is_name);
        action->huge_pages = true;
        if (na_policy_name_is(line->policy, word, "huge")) return true;
        return fault(line, "unknown pages", word, "pages=huge is what there is");
    case GROUP:
        return take_group_name(line, &word) && group_of(line, word, &action->group);
    case LIFE:
        word = take_while(line, is_name);
        action->life = na_policy_name_is(line->policy, word, "short")  ? NA_POLICY_LIFE_SHORT
                       : na_policy_name_is(line->policy, word, "long") ? NA_POLICY_LIFE_LONG
                                                                       : NA_POLICY_LIFE_NONE;
        if (action->life != NA_POLICY_LIFE_NONE) return true;
        return fault(line, "unknown life", word, "life is short or long");
    case RESERVE:
        if (take_bytes(line, NA_POLICY_RESERVE, &action->reserve)) return true;
        return fault(line, "wrong reserve", name_of(begin, line->end),
                     "bytes such as 4096, 64K or 2M, up to 1T");
    case CONTROL:
        return take_control(line, action);
    default:
        return fault(line, "unknown action", key, ACTIONS);
    }
}

static unsigned which_action(const line_t *line, na_policy_name_t key) {
    static const char names[7][8] = {"place", "lines",   "pages",  "group",
                                     "life",  "reserve", "control"};
    for (unsigned i = 0; i < 7; i++)
        if (na_policy_name_is(line->policy, key, names[i])) return 1u << i;
    return 0;
}

/* ": place=node 1, pages=huge", to the end of the line. A group that is named is made, even if the
 * line is wrong further on: a group without sites does nothing. */
static bool take_actions(line_t *line, na_policy_action_t *action, unsigned forbidden) {
    unsigned given = 0;
    clear_action(action);
    if (!take_sign(line, ':')) return fault_rest(line, "no action", "write ' : ' and an action");
    do {
        na_policy_name_t key = take_while(line, is_name);
        unsigned which = which_action(line, key);
        if (key.length == 0) return fault_rest(line, "no action", ACTIONS);
        if (which == 0) return fault(line, "unknown action", key, ACTIONS);
        if ((which & forbidden) != 0)
            return fault(line, "not of a group:", key, "it is the sites' own");
        if ((which & given) != 0)
            return fault(line, "twice on a line:", key, "each action stands once");
        given |= which;
        if (!take_sign(line, '='))
            return fault(line, "no value for", key, "write it as in place=local");
        if (!take_value(line, key, which, action)) return false;
    } while (take_sign(line, ','));
    if (!is_at_end(line))
        return fault_rest(line, "not understood:", "actions are separated by commas");
    if ((given & GROUP) != 0 && (given & OF_GROUP) != 0)
        return fault(line, "more than group= and reserve=", name_of(0, 0),
                     "what its sites share stands in the line of the group");
    return true;
}

static bool read_group_rule(line_t *line) {
    na_policy_name_t name;
    na_policy_action_t action;
    uint16_t group;
    if (!take_group_name(line, &name) || !take_actions(line, &action, GROUP | RESERVE) ||
        !group_of(line, name, &group))
        return false;
    na_policy_group_t *g = &line->policy->groups[group];
    if (g->described)
        return fault_at(line, "a group that was described in", name, "once is enough", g->line);
    g->action = action;
    g->line = line->number;
    g->described = true;
    return true;
}

/* --- sites --- */

static bool take_frame(line_t *line, na_policy_frame_t *frame) {
    skip_line_blanks(line);
    na_policy_name_t name = take_while(line, is_function);
    if (name.length > NAME_LONGEST) return fault(line, "too long a name", name, "4096 characters");
    if (name.length != 0 && here(line) == '+') {
        uint32_t module = find_rule_module(line->policy, name);
        if (module == NA_POLICY_NO_MODULE)
            return fault(line, "unknown module", name,
                         "its line, 'module ALIAS NAME BUILD-ID', comes before");
        line->at++;
        uint32_t begin = line->at;
        *frame = (na_policy_frame_t){.module = module};
        if (!take_offset(line, &frame->offset))
            return fault(line, "no offset", name_of(begin, line->end),
                         "write 0x and hexadecimal digits");
    } else {
        if (name.length == 0 || is_rule_digit(line->text[name.at]))
            return fault_rest(line, "no frame",
                              "write ALIAS+0xOFFSET, or a function's name as nm has it");
        *frame = (na_policy_frame_t){.module = NA_POLICY_NO_MODULE, .name = name};
    }
    char next = here(line);
    if (next != 0 && !is_blank(next) && next != '<' && next != ':')
        return fault_rest(
            line, "not of a frame:", "write ALIAS+0xOFFSET, or a function's name as nm has it");
    return true;
}

static bool same_frames(const na_policy_t *p, const na_policy_rule_t *a,
                        const na_policy_rule_t *b) {
    if (a->depth != b->depth) return false;
    for (unsigned i = 0; i < a->depth; i++) {
        const na_policy_frame_t *x = &a->frames[i], *y = &b->frames[i];
        if (x->module != y->module || x->offset != y->offset ||
            !same_rule_name(p, x->name, y->name))
            return false;
    }
    return true;
}

static bool read_site(line_t *line) {
    na_policy_t *p = line->policy;
    if (p->rule_count == NA_POLICY_SITES)
        return fault_rest(line, "too many sites:", "1,024 at most");
    na_policy_rule_t *rule = &p->rules[p->rule_count];
    rule->depth = 0;
    rule->line = line->number;
    do {
        if (rule->depth == NA_POLICY_FRAMES)
            return fault_rest(line, "too many frames:", "8 at most");
        if (!take_frame(line, &rule->frames[rule->depth])) return false;
        rule->depth++;
    } while (take_sign(line, '<'));
    if (!take_actions(line, &rule->action, 0)) return false;
    for (uint32_t i = 0; i < p->rule_count; i++)
        if (same_frames(p, &p->rules[i], rule))
            return fault_at(line, "the same frames as in", name_of(0, 0), "a site has one line",
                            p->rules[i].line);
    p->rule_count++;
    return true;
}

/* What a group says is said of each of its sites. */
static void complete_rule(na_policy_t *p) {
    for (uint32_t i = 0; i < p->rule_count; i++) {
        na_policy_action_t *a = &p->rules[i].action;
        if (a->group == NA_POLICY_NO_GROUP) continue;
        uint16_t group = a->group;
        uint64_t reserve = a->reserve;
        *a = p->groups[group].action;
        a->group = group;
        a->reserve = reserve;
    }
}

/* --- lines --- */

/* Where the line's text ends: before a comment, which # begins at the line's beginning or behind a
 * blank, and before blanks. */
static uint32_t end_of(const char *text, uint32_t at, uint32_t end) {
    bool quoted = false;
    for (uint32_t i = at; i < end; i++) {
        if (text[i] == '"') quoted = !quoted;
        if (text[i] == '#' && !quoted && (i == at || is_blank(text[i - 1]))) end = i;
    }
    if (end > at && text[end - 1] == '\r') end--;
    while (end > at && is_blank(text[end - 1]))
        end--;
    return end;
}

/* "numalloc policy 1" */
static bool read_head(line_t *line) {
    uint64_t version = 0;
    skip_line_blanks(line);
    uint32_t begin = line->at;
    na_policy_name_t first = take_while(line, is_name);
    skip_line_blanks(line);
    na_policy_name_t second = take_while(line, is_name);
    skip_line_blanks(line);
    uint32_t number = line->at;
    if (!na_policy_name_is(line->policy, first, "numalloc") ||
        !na_policy_name_is(line->policy, second, "policy") ||
        !take_number(line, UINT32_MAX, &version) || !is_at_end(line))
        return fault(line, "no policy:", name_of(begin, line->end),
                     "the first line is 'numalloc policy 1'");
    if (version == NA_POLICY_VERSION) return true;
    return fault(line, "of another version:", name_of(number, line->end),
                 "this numalloc reads version 1");
}

static bool read_rule_line(line_t *line) {
    skip_line_blanks(line);
    na_policy_name_t word = take_while(line, is_name);
    bool alone = here(line) == 0 || is_blank(here(line));
    if (alone && na_policy_name_is(line->policy, word, "site")) return read_site(line);
    if (alone && na_policy_name_is(line->policy, word, "group")) return read_group_rule(line);
    if (alone && na_policy_name_is(line->policy, word, "module")) return read_module(line);
    if (alone && na_policy_name_is(line->policy, word, "program")) return read_program(line);
    line->at = word.at;
    return fault_rest(line,
                      "not understood:", "a line begins with program, module, group, site or #");
}

bool na_policy_read(const char *text, size_t length, na_policy_t *policy,
                    na_policy_report_t *report, void *arg) {
    policy->text = text;
    policy->length = 0;
    policy->program_count = policy->module_count = policy->group_count = policy->rule_count = 0;
    policy->faults = 0;
    line_t line = {.policy = policy, .text = text, .number = 1, .report = report, .arg = arg};
    if (length > NA_POLICY_TEXT)
        return fault(&line, "too long a file", name_of(0, 0), "1 MiB at most");
    policy->length = (uint32_t)length;
    bool has_head = false;
    for (uint32_t at = 0; at < policy->length; line.number++) {
        uint32_t end = at;
        while (end < policy->length && text[end] != '\n')
            end++;
        line.at = at;
        line.end = end_of(text, at, end);
        at = end + 1;
        if (is_at_end(&line)) continue;
        if (has_head) {
            read_rule_line(&line);
        } else {
            has_head = read_head(&line);
            if (!has_head) return false;
        }
    }
    if (!has_head)
        return fault(&line, "an empty file", name_of(0, 0),
                     "the first line is 'numalloc policy 1'");
    if (policy->program_count == 0)
        fault(&line, "no program is named", name_of(0, 0),
              "write 'program NAME [BUILD-ID]', or 'program any'");
    complete_rule(policy);
    return true;
}

bool na_policy_is_for(const na_policy_t *policy, const char *name, const uint8_t *build_id,
                      size_t build_id_length) {
    for (uint32_t i = 0; i < policy->program_count; i++) {
        const na_policy_program_t *p = &policy->programs[i];
        if (p->name.length == 0) return true;
        if (!na_policy_name_is(policy, p->name, name)) continue;
        if (p->any_build) return true;
        if (p->build_id.length != build_id_length) continue;
        size_t same = 0;
        while (same < build_id_length && p->build_id.bytes[same] == build_id[same])
            same++;
        if (same == build_id_length) return true;
    }
    return false;
}
