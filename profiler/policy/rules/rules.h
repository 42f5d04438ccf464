/* rules.h - a policy as it is written: which call sites get which memory (docs/policy.md).
 *
 *   text of the file --na_policy_read--> na_policy_t --(bound to what is loaded)--> tables
 *
 * The library, numalloc-dump and numalloc-run read it with this one parser. It allocates nothing,
 * calls nothing, locks nothing and looks at nothing but the text, so it may run at any time. The
 * text stays the caller's: names are offsets into it, and it must live as long as they are used.
 *
 * Whatever the text holds: a line that is wrong is reported and left out, the others hold. Numbers
 * in the result are within the limits below, and indices within their arrays. */
#ifndef NUMALLOC_PROFILER_POLICY_RULES_RULES_H
#define NUMALLOC_PROFILER_POLICY_RULES_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NA_POLICY_VERSION    1u
#define NA_POLICY_FRAMES     8u /* of one site */
#define NA_POLICY_SITES      1024u
#define NA_POLICY_MODULES    64u
#define NA_POLICY_GROUPS     64u
#define NA_POLICY_PROGRAMS   8u
#define NA_POLICY_TEXT       ((size_t)1 << 20)
#define NA_POLICY_NODES_MOST 1024u /* numbers of nodes, as the system has them */
#define NA_POLICY_RESERVE    ((uint64_t)1 << 40)
#define NA_POLICY_BUILD_ID   32u  /* bytes */
#define NA_POLICY_NAME       128u /* characters of a group or an alias; of other names 4096 */

#define NA_POLICY_NO_MODULE UINT32_MAX
#define NA_POLICY_NO_GROUP  UINT16_MAX
#define NA_POLICY_NO_NODE   UINT16_MAX
#define NA_POLICY_CONTROL   8u /* the default: one of so many spans */

/* A part of the text. length 0: none. */
typedef struct na_policy_name {
    uint32_t at, length;
} na_policy_name_t;

typedef struct na_policy_build_id {
    uint8_t bytes[NA_POLICY_BUILD_ID];
    uint8_t length; /* 0: the file has none ("-"); of a program also: any */
} na_policy_build_id_t;

/* The file is for a program if one of these is it. */
typedef struct na_policy_program {
    na_policy_name_t name; /* of its file, without the folder; none: any program */
    bool any_build;        /* else build_id must be equal, also where both have none */
    na_policy_build_id_t build_id;
    uint32_t line;
} na_policy_program_t;

typedef struct na_policy_module {
    na_policy_name_t alias;
    na_policy_name_t name; /* soname, or name of the file without the folder */
    na_policy_build_id_t build_id;
    uint32_t line;
} na_policy_module_t;

typedef enum na_policy_place {
    NA_POLICY_PLACE_NONE, /* nothing is said */
    NA_POLICY_LOCAL,
    NA_POLICY_NODE,  /* `node` */
    NA_POLICY_NODES, /* pages in turn on `nodes` */
    NA_POLICY_INTERLEAVE,
    NA_POLICY_FIRST_TOUCH,
    NA_POLICY_NEAR,
    NA_POLICY_FAR,
    NA_POLICY_CONSUMER, /* `node`; without: the node of the threads that free the blocks */
    NA_POLICY_FOLLOW,
    NA_POLICY_PLACES
} na_policy_place_t;
extern const char na_policy_places[NA_POLICY_PLACES][12]; /* as they are written */

typedef enum na_policy_life {
    NA_POLICY_LIFE_NONE,
    NA_POLICY_LIFE_SHORT,
    NA_POLICY_LIFE_LONG,
} na_policy_life_t;

typedef struct na_policy_action {
    uint8_t place; /* na_policy_place_t */
    uint8_t life;  /* na_policy_life_t */
    bool own_lines, huge_pages;
    uint16_t group;   /* index of a group, NA_POLICY_NO_GROUP: a site for itself */
    uint16_t node;    /* the system's number, NA_POLICY_NO_NODE: none */
    uint16_t control; /* one of so many spans keeps default placement; 0: none does */
    uint64_t reserve; /* bytes; 0: nothing is said */
    uint64_t nodes[NA_POLICY_NODES_MOST / 64]; /* a bit each; of NA_POLICY_NODES */
} na_policy_action_t;

typedef struct na_policy_frame {
    uint32_t module; /* index; NA_POLICY_NO_MODULE: `name` is a function's */
    na_policy_name_t name;
    uint64_t offset; /* of the return address from where the module is loaded (l_addr) */
} na_policy_frame_t;

typedef struct na_policy_rule {
    na_policy_frame_t frames[NA_POLICY_FRAMES]; /* innermost first: [0] is the call of malloc */
    uint8_t depth;                              /* 1 to NA_POLICY_FRAMES */
    na_policy_action_t action;                  /* complete: what its group says is in here, too */
    uint32_t line;
} na_policy_rule_t;

typedef struct na_policy_group {
    na_policy_name_t name;
    na_policy_action_t action; /* group and reserve: none */
    uint32_t line;             /* of `group`; of the first site if there is no such line */
    bool described;            /* there is such a line */
} na_policy_group_t;

/* 400 KiB, of which short files touch little. Zeroed memory will do. */
typedef struct na_policy {
    const char *text;
    uint32_t length;
    uint32_t program_count, module_count, group_count, rule_count;
    uint32_t faults; /* lines that were left out */
    na_policy_program_t programs[NA_POLICY_PROGRAMS];
    na_policy_module_t modules[NA_POLICY_MODULES];
    na_policy_group_t groups[NA_POLICY_GROUPS];
    na_policy_rule_t rules[NA_POLICY_SITES];
} na_policy_t;

/* One fault of the text: "LINE: WHAT 'WORD'; MEND". */
typedef struct na_policy_fault {
    uint32_t line;
    uint32_t other;   /* a line that it is about as well; 0: none */
    const char *what; /* "unknown action" */
    const char *word; /* of the text; NULL: none */
    size_t word_length;
    const char *mend; /* "there are place, lines, ..." */
} na_policy_fault_t;

typedef void na_policy_report_t(void *arg, const na_policy_fault_t *fault);

/* False: the text is no policy of this version, which was reported; there are no rules then.
 * `report` may be NULL. Nothing of *policy is read. */
bool na_policy_read(const char *text, size_t length, na_policy_t *policy,
                    na_policy_report_t *report, void *arg);

/* The fault as one line without a newline, "FILE:LINE: ...", printable and terminated. */
void na_policy_fault_text(const na_policy_fault_t *fault, const char *file, char *into,
                          size_t size);

/* Is the file for the program of this name (without the folder) and build-id? */
bool na_policy_is_for(const na_policy_t *policy, const char *name, const uint8_t *build_id,
                      size_t build_id_length);

/* That line of a text, from 1 on, without its comment and the blanks around. */
na_policy_name_t na_policy_line(const char *text, size_t length, uint32_t line);

/* Is the part of the text this string? */
bool na_policy_name_is(const na_policy_t *policy, na_policy_name_t name, const char *string);

#endif
