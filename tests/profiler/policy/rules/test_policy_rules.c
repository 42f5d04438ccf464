/* test_policy_rules.c - rules_read.c: the parser of policies: what each line says, and what is said
 * of wrong ones. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/policy/rules/rules.h"

#define HEAD "numalloc policy 1\nprogram any\n"

static na_policy_t policy;
static char faults[65536];

static void note(void *arg, const na_policy_fault_t *fault) {
    (void)arg;
    char line[512];
    na_policy_fault_text(fault, "f", line, sizeof line);
    size_t used = strlen(faults);
    snprintf(faults + used, sizeof faults - used, "%s\n", line);
}

static bool read_text(const char *text) {
    faults[0] = 0;
    memset(&policy, 0xa5, sizeof policy); /* nothing of it is read */
    return na_policy_read(text, strlen(text), &policy, note, NULL);
}

static void good(const char *text) {
    bool read = read_text(text);
    cr_assert(read && policy.faults == 0, "%s", faults);
}

/* One line behind a good head and two modules is wrong, and says this; a rule behind it holds. */
static void wrong(const char *line, const char *says) {
    static char text[262144];
    snprintf(text, sizeof text,
             HEAD "module m1 a.so 01\nmodule m2 b.so -\nsite first : lines=own\n%s\n"
                  "site last : lines=own\n",
             line);
    cr_assert(read_text(text));
    char want[512];
    snprintf(want, sizeof want, "f:6: %s\n", says);
    cr_assert_str_eq(faults, want);
    cr_assert_eq(policy.rule_count, 2, "of %s", line);
    cr_assert_eq(policy.faults, 1);
}

static void name_is(na_policy_name_t name, const char *string) {
    cr_assert(na_policy_name_is(&policy, name, string), "%.*s", (int)name.length,
              policy.text + name.at);
}

Test(policy_rules, all_of_the_grammar) {
    good("# a comment\n\n"
         "numalloc policy 1   # and one behind\n"
         "program jq 5e1f0c22ab\r\n"
         "\tprogram \"Web Content\" -\n"
         "module m1 libjq.so.1 9a11C0\n"
         "module m2 a#b -\n"
         "group cache : place=node 1, pages=huge\n"
         "site m1+0x1a2b3 < m1+0x9f10 : place=consumer 1\n"
         "site parse_record<load_file:lines=own , control=off\n"
         "site m2+0x44 : group=cache, reserve=64K\n"
         "site _ZN3fooC1Ev.part.0 : place=nodes 0,2-4,lines=own, life=short, control=1/16\n"
         "site a : place=consumer");
    cr_assert_eq(policy.program_count, 2);
    name_is(policy.programs[0].name, "jq");
    cr_assert(!policy.programs[0].any_build);
    cr_assert_eq(policy.programs[0].build_id.length, 5);
    cr_assert_eq(policy.programs[0].build_id.bytes[4], 0xab);
    name_is(policy.programs[1].name, "Web Content");
    cr_assert(!policy.programs[1].any_build);
    cr_assert_eq(policy.programs[1].build_id.length, 0);
    cr_assert_eq(policy.module_count, 2);
    name_is(policy.modules[0].alias, "m1");
    name_is(policy.modules[0].name, "libjq.so.1");
    cr_assert_eq(policy.modules[0].build_id.bytes[2], 0xc0);
    name_is(policy.modules[1].name, "a#b");
    cr_assert_eq(policy.group_count, 1);
    name_is(policy.groups[0].name, "cache");
    cr_assert(policy.groups[0].described);

    cr_assert_eq(policy.rule_count, 5);
    const na_policy_rule_t *r = policy.rules;
    cr_assert_eq(r[0].depth, 2);
    cr_assert_eq(r[0].frames[0].module, 0);
    cr_assert_eq(r[0].frames[0].offset, 0x1a2b3);
    cr_assert_eq(r[0].frames[1].offset, 0x9f10);
    cr_assert_eq(r[0].action.place, NA_POLICY_CONSUMER);
    cr_assert_eq(r[0].action.node, 1);
    cr_assert_eq(r[0].action.control, NA_POLICY_CONTROL);
    cr_assert_eq(r[0].line, 9);
    name_is(r[1].frames[0].name, "parse_record");
    name_is(r[1].frames[1].name, "load_file");
    cr_assert_eq(r[1].frames[1].module, NA_POLICY_NO_MODULE);
    cr_assert(r[1].action.own_lines);
    cr_assert_eq(r[1].action.control, 0);
    cr_assert_eq(r[2].action.group, 0);
    cr_assert_eq(r[2].action.reserve, 65536);
    cr_assert_eq(r[2].action.place, NA_POLICY_NODE, "its group's");
    cr_assert_eq(r[2].action.node, 1);
    cr_assert(r[2].action.huge_pages);
    cr_assert_eq(r[3].action.place, NA_POLICY_NODES);
    cr_assert_eq(r[3].action.nodes[0], 0x1d);
    cr_assert(r[3].action.own_lines);
    cr_assert_eq(r[3].action.life, NA_POLICY_LIFE_SHORT);
    cr_assert_eq(r[3].action.control, 16);
    cr_assert_eq(r[4].action.node, NA_POLICY_NO_NODE);
}

Test(policy_rules, every_place) {
    static const char *const values[NA_POLICY_PLACES] = {
        [NA_POLICY_LOCAL] = "local",
        [NA_POLICY_NODE] = "node 1023",
        [NA_POLICY_NODES] = "nodes 63-64",
        [NA_POLICY_INTERLEAVE] = "interleave",
        [NA_POLICY_FIRST_TOUCH] = "first-touch",
        [NA_POLICY_NEAR] = "near",
        [NA_POLICY_FAR] = "far",
        [NA_POLICY_CONSUMER] = "consumer",
        [NA_POLICY_FOLLOW] = "follow",
    };
    for (unsigned i = 1; i < NA_POLICY_PLACES; i++) {
        char text[128];
        snprintf(text, sizeof text, HEAD "site f : place=%s\n", values[i]);
        good(text);
        cr_assert_eq(policy.rules[0].action.place, i);
    }
    good(HEAD "site f : place=nodes 63-64\n");
    cr_assert_eq(policy.rules[0].action.nodes[0], UINT64_C(1) << 63);
    cr_assert_eq(policy.rules[0].action.nodes[1], 1);
}

Test(policy_rules, a_group_may_follow_its_sites) {
    good(HEAD "site f : group=g\nsite h : group=alone\ngroup g : life=long, control=1/2\n");
    cr_assert_eq(policy.rules[0].action.life, NA_POLICY_LIFE_LONG);
    cr_assert_eq(policy.rules[0].action.control, 2);
    cr_assert_eq(policy.groups[0].line, 5);
    cr_assert(!policy.groups[1].described);
    cr_assert_eq(policy.groups[1].line, 4);
    cr_assert_eq(policy.rules[1].action.control, NA_POLICY_CONTROL);
}

Test(policy_rules, wrong_lines) {
    wrong("sites f : lines=own",
          "not understood: 'sites f : lines=own'; a line begins with program, module, group, site "
          "or #");
    wrong("site : lines=own", "no frame ': lines=own'; write ALIAS+0xOFFSET, or a function's name "
                              "as nm has it");
    wrong("site f", "no action; write ' : ' and an action");
    wrong("site f :", "no action; there are place=, lines=own, pages=huge, group=, life=, reserve= "
                      "and control=");
    wrong("site f : lines=owned", "unknown lines 'owned'; lines=own is what there is");
    wrong("site f : pages=4K", "unknown pages '4K'; pages=huge is what there is");
    wrong("site f : lines", "no value for 'lines'; write it as in place=local");
    wrong("site f : lines=own lines=own",
          "not understood: 'lines=own'; actions are separated by commas");
    wrong("site f : lines=own, lines=own", "twice on a line: 'lines'; each action stands once");
    wrong("site f : line=own", "unknown action 'line'; there are place=, lines=own, pages=huge, "
                               "group=, life=, reserve= and control=");
    wrong("site f : place=node", "no node; nodes are numbers from 0 to 1023");
    wrong("site f : place=node 1024", "no node '1024'; nodes are numbers from 0 to 1023");
    wrong("site f : place=nodes 2-1", "a range of nodes that ends before it begins; the smaller "
                                      "number comes first");
    wrong("site f : place=here", "unknown place 'here'; place is local, node N, nodes A,B, "
                                 "interleave, first-touch, near, far, consumer [N] or follow");
    wrong("site f : life=1", "unknown life '1'; life is short or long");
    wrong("site f : reserve=0", "wrong reserve '0'; bytes such as 4096, 64K or 2M, up to 1T");
    wrong("site f : reserve=2T", "wrong reserve '2T'; bytes such as 4096, 64K or 2M, up to 1T");
    wrong("site f : reserve=99999999999999999999",
          "wrong reserve '99999999999999999999'; bytes such as 4096, 64K or 2M, up to 1T");
    wrong("site f : control=1/1",
          "wrong control '1/1'; write control=off, or control=1/N with N from 2 to 1024");
    wrong("site f : control=2/8",
          "wrong control '2/8'; write control=off, or control=1/N with N from 2 to 1024");
    wrong("site f : group=g, lines=own", "more than group= and reserve=; what its sites share "
                                         "stands in the line of the group");
    wrong("site f : group=1g",
          "no name of a group '1g'; it begins with a letter and has letters, digits, - and _");
    wrong("group g : reserve=1K", "not of a group: 'reserve'; it is the sites' own");
    wrong("site m3+0x1 : lines=own",
          "unknown module 'm3'; its line, 'module ALIAS NAME BUILD-ID', comes before");
    wrong("site m1+12 : lines=own", "no offset '12 : lines=own'; write 0x and hexadecimal digits");
    wrong("site m1+0x11112222333344445 : lines=own",
          "no offset '0x11112222333344445 : lines=own'; write 0x and hexadecimal digits");
    wrong("site std::map<int>::f : lines=own",
          "no action ':map<int>::f : lines=own'; there are place=, lines=own, pages=huge, group=, "
          "life=, reserve= and control=");
    wrong("site a<b<c<d<e<f<g<h<i : lines=own", "too many frames: 'i : lines=own'; 8 at most");
    wrong("site first : pages=huge", "the same frames as in line 5; a site has one line");
    wrong("module m1 c.so -", "an alias that is taken in line 3 'm1'; each alias stands for one "
                              "module");
    wrong("module m4 c.so", "no build-id for module 'm4'; a build-id is 2 to 64 hexadecimal digits "
                            "(readelf -n), or -: it has none");
    wrong("module m4 c.so 123", "wrong build-id '123'; a build-id is 2 to 64 hexadecimal digits "
                                "(readelf -n), or -: it has none");
    wrong("module m4 my file.so 12",
          "wrong build-id 'file.so'; a build-id is 2 to 64 hexadecimal digits (readelf -n), or -: "
          "it has none");
    wrong("program", "no program is named; write 'program NAME [BUILD-ID]', or 'program any'");
    wrong("program any 12 x",
          "more behind the program '12 x'; one program a line; a name with blanks stands in double "
          "quotes");
    wrong("\x01\x02site", "not understood: '??site'; a line begins with program, module, group, "
                          "site or #");
}

Test(policy_rules, no_policy_at_all) {
    cr_assert(!read_text(""));
    cr_assert_str_eq(faults, "f:1: an empty file; the first line is 'numalloc policy 1'\n");
    cr_assert(!read_text("# nothing\n\n"));
    cr_assert(!read_text("numalloc policy 2\nsite f : lines=own\n"));
    cr_assert_str_eq(faults, "f:1: of another version: '2'; this numalloc reads version 1\n");
    cr_assert_eq(policy.rule_count, 0);
    cr_assert(!read_text("site f : lines=own\nnumalloc policy 1\n"));
    cr_assert_str_eq(faults, "f:1: no policy: 'site f : lines=own'; the first line is 'numalloc "
                             "policy 1'\n");
    char *long_text = calloc(1, NA_POLICY_TEXT + 1);
    cr_assert(!na_policy_read(long_text, NA_POLICY_TEXT + 1, &policy, NULL, NULL));
    free(long_text);
}

/* Without a program, a child of the program that it was written for would obey it. */
Test(policy_rules, whose) {
    static const uint8_t id[2] = {0x12, 0x34}, other[2] = {0x12, 0x35};
    cr_assert(read_text("numalloc policy 1\nsite f : lines=own\n"));
    cr_assert_str_eq(faults, "f:3: no program is named; write 'program NAME [BUILD-ID]', or "
                             "'program any'\n");
    cr_assert(!na_policy_is_for(&policy, "jq", id, 2));
    good("numalloc policy 1\nprogram jq 1234\nprogram yq\nprogram zq -\n");
    cr_assert(na_policy_is_for(&policy, "jq", id, 2));
    cr_assert(!na_policy_is_for(&policy, "jq", other, 2));
    cr_assert(!na_policy_is_for(&policy, "jq", id, 1));
    cr_assert(!na_policy_is_for(&policy, "jqq", id, 2));
    cr_assert(!na_policy_is_for(&policy, "j", id, 2));
    cr_assert(na_policy_is_for(&policy, "yq", other, 2));
    cr_assert(na_policy_is_for(&policy, "yq", NULL, 0));
    cr_assert(na_policy_is_for(&policy, "zq", NULL, 0));
    cr_assert(!na_policy_is_for(&policy, "zq", id, 2));
    good("numalloc policy 1\nprogram any\n");
    cr_assert(na_policy_is_for(&policy, "", NULL, 0));
}

/* One more than there may be of each is a fault of its line, and the others hold. */
Test(policy_rules, limits) {
    static char text[131072];
    static const struct {
        const char *format;
        unsigned most;
    } lines[] = {{"site f%u : lines=own\n", NA_POLICY_SITES},
                 {"module m%u x -\n", NA_POLICY_MODULES},
                 {"group g%u : lines=own\n", NA_POLICY_GROUPS},
                 {"program p%u\n", NA_POLICY_PROGRAMS}};
    for (unsigned l = 0; l < 4; l++) {
        size_t used = (size_t)snprintf(text, sizeof text, "numalloc policy 1\n");
        if (l != 3) used += (size_t)snprintf(text + used, sizeof text - used, "program any\n");
        for (unsigned i = 0; i <= lines[l].most; i++)
            used += (size_t)snprintf(text + used, sizeof text - used, lines[l].format, i);
        cr_assert(read_text(text));
        cr_assert_eq(policy.faults, 1);
        cr_assert(strstr(faults, "too many") != NULL, "%s", faults);
        unsigned counts[4] = {policy.rule_count, policy.module_count, policy.group_count,
                              policy.program_count};
        cr_assert_eq(counts[l], lines[l].most);
    }
}

Test(policy_rules, short_room_for_a_fault) {
    na_policy_fault_t fault = {.line = 4294967295u, .what = "w", .mend = "m"};
    char into[64];
    for (size_t size = 1; size < sizeof into; size++) {
        memset(into, 'x', sizeof into);
        na_policy_fault_text(&fault, "file", into, size);
        cr_assert_lt(strlen(into), size);
    }
    cr_assert_str_eq(into, "file:4294967295: w; m");
}
