/* options_read.c - reads the environment by the table of options. See options_read.h.
 *
 * Only processes with a NUMALLOC_* in their environment need it: of the others nothing of this file
 * is resident but na_options_init (layout.ld). The table has its strings in itself, not pointers
 * to them, which the loader would have to relocate in every process. */
#include "alloc/options/options_read.h"

#include "alloc/core/sys/base.h"
#include "alloc/core/sys/os.h"
#include "alloc/core/sys/print.h"
#include "alloc/options/nearest.h"

#define PREFIX        "NUMALLOC_"
#define PREFIX_LENGTH (sizeof PREFIX - 1)
#define SHOWN         64 /* characters of a wrong value or name that a warning repeats */

typedef enum kind {
    KIND_BOOL,
    KIND_BYTES,
    KIND_POW2, /* bytes, a power of two */
    KIND_MS,
    KIND_NUMBER,
    KIND_CHOICE, /* the number of the word */
    KIND_MODE,   /* text, a word, and perhaps settings (na_option_settings) */
    KIND_TEXT,
} kind_t;

typedef struct row {
    char name[32];     /* "NUMALLOC_STATS" */
    uint32_t fallback; /* the default, as the core has it */
    char words[46];    /* "keep|always|never"; "": of its kind there are none */
    uint8_t kind;      /* kind_t */
    bool zero;         /* a number may be zero, */
    uint64_t least;    /* or must lie between these */
    uint64_t most;
} row_t;

/* The types of options.def. */
#define BOOL                    "", KIND_BOOL, false, 0, 1
#define CHOICE(words)           words, KIND_CHOICE, false, 0, 0
#define MODE(words)             words, KIND_MODE, false, 0, 0
#define BYTES(least, most)      "", KIND_BYTES, false, least, most
#define BYTES_OR_0(least, most) "", KIND_BYTES, true, least, most
#define POWER_OF_2(least, most) "", KIND_POW2, false, least, most
#define MS(least, most)         "", KIND_MS, false, least, most
#define MS_OR_0(least, most)    "", KIND_MS, true, least, most
#define NUMBER(least, most)     "", KIND_NUMBER, false, least, most
#define TEXT                    "", KIND_TEXT, false, 0, 0

#define NONE 0
static const row_t rows[NA_OPT_ALL] = {
#define NA_OPTION(id, type, fallback, meaning) [NA_OPT_##id] = {PREFIX #id, fallback, type},
#define NA_TEST_OPTION                         NA_OPTION
#include "alloc/core/sys/options.def"
#undef NA_OPTION
#undef NA_TEST_OPTION
};
_Static_assert(NA_OPT_ALL <= 64, "apply() has one bit an option");

#define TEXT_MAX 4096u /* PATH_MAX */

/* Copies, because programs that set their title overwrite the environment they started with. */
NA_SPARSE static char text_room[2 * TEXT_MAX];
static size_t text_used;
static bool were_read; /* values are no longer the defaults that the core begins with */

/* --- strings, without libc --- */

static size_t length_of(const char *s) {
    size_t n = 0;
    while (s[n] != 0)
        n++;
    return n;
}

static char lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Is s[0..n) the word, but for case? `word` is in lower case and ends at a zero or a bar. */
static bool is_word(const char *s, size_t n, const char *word) {
    for (size_t i = 0; i < n; i++)
        if (word[i] == 0 || word[i] == '|' || lower(s[i]) != word[i]) return false;
    return word[n] == 0 || word[n] == '|';
}

/* Number of the word `s` in "a|b|c", -1: not there. */
static int word_index(const char *s, const char *words) {
    size_t n = length_of(s);
    for (int index = 0; n > 0; index++) {
        if (is_word(s, n, words)) return index;
        while (*words != 0 && *words != '|')
            words++;
        if (*words++ == 0) break;
    }
    return -1;
}

/* --- values --- */

/* Digits at *s, moving past them; false: none, or more than 64 bits hold. */
static bool parse_digits(const char **s, uint64_t *value) {
    if (**s < '0' || **s > '9') return false;
    *value = 0;
    for (; **s >= '0' && **s <= '9'; (*s)++)
        if (__builtin_mul_overflow(*value, 10u, value) ||
            __builtin_add_overflow(*value, (uint64_t)(**s - '0'), value))
            return false;
    return true;
}

static bool parse_bool(const char *s, uint64_t *value) {
    int index = word_index(s, "0|1|off|on|no|yes|false|true");
    *value = index & 1;
    return index >= 0;
}

/* 64, 64k, 64K, 64KB, 64KiB: always powers of 1024. */
static bool parse_bytes(const char *s, uint64_t *value) {
    if (!parse_digits(&s, value)) return false;
    unsigned shift = 0;
    switch (lower(*s)) {
    case 'k':
        shift = 10;
        break;
    case 'm':
        shift = 20;
        break;
    case 'g':
        shift = 30;
        break;
    case 't':
        shift = 40;
        break;
    default:
        break;
    }
    if (shift != 0) {
        s++;
        if (lower(s[0]) == 'i' && lower(s[1]) == 'b') s++;
    }
    if (lower(*s) == 'b') s++;
    return *s == 0 && !__builtin_mul_overflow(*value, (uint64_t)1 << shift, value);
}

static bool parse_ms(const char *s, uint64_t *value) {
    if (!parse_digits(&s, value)) return false;
    size_t rest = length_of(s);
    if (rest == 0 || is_word(s, rest, "ms")) return true;
    return is_word(s, rest, "s") && !__builtin_mul_overflow(*value, 1000u, value);
}

/* A copy of `s` for good, NULL when it is too long. */
static const char *copy_text(const char *s, bool to_lower) {
    size_t n = length_of(s);
    char *store = text_room + text_used;
    if (n >= TEXT_MAX || n >= sizeof text_room - text_used) return NULL;
    text_used += n + 1;
    for (size_t i = 0; i <= n; i++)
        store[i] = to_lower ? lower(s[i]) : s[i];
    return store;
}

/* The value of an option that is no text; false when `s` is not good for it. */
static bool parse(const row_t *row, const char *s, uint64_t *number) {
    uint64_t value = 0;
    switch ((kind_t)row->kind) {
    case KIND_BOOL:
        if (!parse_bool(s, &value)) return false;
        break;
    case KIND_BYTES:
    case KIND_POW2:
        if (!parse_bytes(s, &value)) return false;
        break;
    case KIND_MS:
        if (!parse_ms(s, &value)) return false;
        break;
    case KIND_NUMBER:
        if (!parse_digits(&s, &value) || *s != 0) return false;
        break;
    case KIND_CHOICE: {
        int index = word_index(s, row->words);
        if (index >= 0) *number = (uint64_t)index;
        return index >= 0;
    }
    default:
        return false;
    }
    bool zero = value == 0 && row->zero;
    if (!zero && (value < row->least || value > row->most)) return false;
    if (row->kind == KIND_POW2 && !na_is_pow2(value)) return false;
    *number = value;
    return true;
}

/* What a profile reads when it begins. */
static const uint8_t of_a_profile[] = {
    NA_OPT_ACCESS,        NA_OPT_ACCESS_PERIOD,   NA_OPT_ACCESS_COST,   NA_OPT_ACCESS_STACK,
    NA_OPT_ACCESS_FRAMES, NA_OPT_PYTHON,          NA_OPT_PROFILE_FREES, NA_OPT_PROFILE_MEMORY,
    NA_OPT_TRACE_STACKS,  NA_OPT_SAMPLE_INTERVAL, NA_OPT_TRACE_BUFFER,  NA_OPT_TRACE_LEVEL,
    NA_OPT_TRACE_LOSSY,   NA_OPT_TRACE_MAX,       NA_OPT_TRACE_THREAD,
};

/* One setting, n characters, by the name that it has without NUMALLOC_, in any case. */
static bool read_setting(const char *s, size_t n, uint64_t numbers[NA_OPT_ALL]) {
    char value[32] = "auto"; /* "access" alone */
    size_t name = 0;
    while (name < n && s[name] != '=')
        name++;
    for (size_t i = name + 1; i <= n; i++) {
        if (i - name > sizeof value) return false;
        value[i - name - 1] = i < n ? s[i] : 0;
    }
    for (size_t i = 0; i < sizeof of_a_profile; i++) {
        const row_t *row = &rows[of_a_profile[i]];
        const char *known = row->name + PREFIX_LENGTH;
        size_t k = 0;
        while (k < name && known[k] != 0 && lower(s[k]) == lower(known[k]))
            k++;
        if (k == name && known[k] == 0)
            return (name < n || of_a_profile[i] == NA_OPT_ACCESS) &&
                   parse(row, value, &numbers[of_a_profile[i]]);
    }
    return false;
}

bool na_option_settings(const char *list, uint64_t numbers[NA_OPT_ALL]) {
    for (;; list++) {
        size_t n = 0;
        while (list[n] != 0 && list[n] != ',')
            n++;
        if (!read_setting(list, n, numbers)) return false;
        list += n;
        if (*list == 0) return true;
    }
}

/* "sites,access=watch": the mode goes to the option, the settings to theirs. */
static bool set_mode(na_option_id_t id, const char *s) {
    char word[16];
    size_t n = 0;
    for (; s[n] != 0 && s[n] != ','; n++) {
        if (n + 1 == sizeof word) return false;
        word[n] = s[n];
    }
    word[n] = 0;
    na_option_values_t values = na_option_values;
    if (s[n] != 0 && !na_option_settings(s + n + 1, values.numbers)) return false;
    int mode = n != 0 ? word_index(word, rows[id].words) : -1;
    if (n != 0 && mode < 0) return false;
    if (mode == 0) { /* off */
        na_option_values.texts[id] = NULL;
        return true;
    }
    values.texts[id] = copy_text(word, true);
    if (values.texts[id] == NULL) return false;
    na_option_values = values;
    return true;
}

/* Sets the option from text; false when the text is not good for it. */
static bool set(na_option_id_t id, const char *s) {
    const row_t *row = &rows[id];
    if (row->kind == KIND_MODE) return set_mode(id, s);
    if (row->kind != KIND_TEXT) return parse(row, s, &na_option_values.numbers[id]);
    na_option_values.texts[id] = copy_text(s, false);
    return na_option_values.texts[id] != NULL;
}

/* What the option accepts, for a warning. */
static void expect(const row_t *row, na_text_t *t) {
    switch ((kind_t)row->kind) {
    case KIND_BOOL:
        na_text_str(t, "0 or 1");
        break;
    case KIND_BYTES:
    case KIND_POW2:
        na_text_str(t, row->kind == KIND_POW2 ? "a power of two of bytes" : "bytes");
        na_text_str(t, " such as 512M, ");
        na_text_str(t, row->zero ? "0 or " : "");
        na_text_bytes(t, row->least);
        na_text_str(t, " to ");
        na_text_bytes(t, row->most);
        break;
    case KIND_MS:
        na_text_str(t, "milliseconds such as 500 or 2s, ");
        na_text_u64(t, row->least);
        na_text_str(t, " to ");
        na_text_u64(t, row->most);
        break;
    case KIND_NUMBER:
        na_text_str(t, "a number from ");
        na_text_u64(t, row->least);
        na_text_str(t, " to ");
        na_text_u64(t, row->most);
        break;
    case KIND_CHOICE:
        na_text_str(t, row->words);
        break;
    case KIND_MODE:
        na_text_str(t, row->words);
        na_text_str(t, "[,OPTION=VALUE]...[,access[=");
        na_text_str(t, rows[NA_OPT_ACCESS].words);
        na_text_str(t, "]]");
        break;
    case KIND_TEXT:
        na_text_str(t, "fewer than ");
        na_text_u64(t, TEXT_MAX);
        na_text_str(t, " characters");
        break;
    }
}

/* Word number n of "a|b|c". */
static void add_word(na_text_t *t, const char *words, uint64_t n) {
    for (; n > 0; words++)
        n -= *words == '|';
    for (; *words != 0 && *words != '|'; words++)
        na_text_str(t, (char[2]){*words, 0});
}

/* The default as a user would write it. */
static void default_of(na_option_id_t id, na_text_t *t) {
    const row_t *row = &rows[id];
    uint64_t value = row->fallback;
    unsigned unit = 0;
    switch ((kind_t)row->kind) {
    case KIND_BOOL:
    case KIND_MS:
    case KIND_NUMBER:
        na_text_u64(t, value);
        break;
    case KIND_BYTES:
    case KIND_POW2:
        while (unit < 4 && value != 0 && value % 1024 == 0) {
            value /= 1024;
            unit++;
        }
        na_text_u64(t, value);
        add_word(t, "|K|M|G|T", unit);
        break;
    case KIND_CHOICE:
        add_word(t, row->words, value);
        break;
    case KIND_MODE:
    case KIND_TEXT:
        na_text_str(t, "none");
        break;
    }
}

/* The first `n` characters of s as a string that is short enough for a line. */
static const char *clip_text(char store[SHOWN + 4], const char *s, size_t n) {
    size_t i = 0;
    for (; i < n && i < SHOWN && s[i] != 0; i++)
        store[i] = s[i];
    if (i < n && s[i] != 0)
        for (unsigned dots = 0; dots < 3; dots++)
            store[i++] = '.';
    store[i] = 0;
    return store;
}

static void warn_value(na_option_id_t id, const char *value) {
    const row_t *row = &rows[id];
    char shown[SHOWN + 4];
    na_text_t accepted;
    accepted.length = 0;
    expect(row, &accepted);
    na_text_str(&accepted, " is accepted; the default is ");
    default_of(id, &accepted);
    accepted.data[accepted.length] = 0;
    na_warn("%s=%s ignored: %s", row->name, clip_text(shown, value, SIZE_MAX), accepted.data);
}

/* --- names --- */

/* `name` is n characters of the environment, prefix included. */
static void warn_name(const char *name, size_t n) {
    char shown[SHOWN + 4];
    na_nearest_t nearest = {.typed = name, .length = n};
    for (unsigned id = 0; id < NA_OPT_COUNT; id++)
        na_nearest_among(&nearest, rows[id].name, length_of(rows[id].name), PREFIX_LENGTH);
    if (nearest.word != NULL)
        na_warn("unknown option %s ignored, did you mean %s?", clip_text(shown, name, n),
                nearest.word);
    else
        na_warn("unknown option %s ignored; see docs/options.md for those there are",
                clip_text(shown, name, n));
}

/* Does the string of the environment begin with `name` and, right after it, `end`? */
static bool begins(const char *entry, const char *name, char end) {
    while (*name != 0)
        if (*entry++ != *name++) return false;
    return end == 0 || *entry == end;
}

/* One NUMALLOC_*=value of the environment. `seen`: one bit an option, because the first of two
 * equal names counts, as with getenv. */
static void apply(const char *entry, uint64_t *seen) {
    for (unsigned id = 0; id < NA_OPT_ALL; id++) {
        const char *name = rows[id].name;
        if (!begins(entry, name, '=')) continue;
        const char *value = entry + length_of(name) + 1;
        if ((*seen & 1ull << id) == 0 && *value != 0 && !set((na_option_id_t)id, value))
            warn_value((na_option_id_t)id, value);
        *seen |= 1ull << id;
        return;
    }
    size_t n = 0;
    while (entry[n] != 0 && entry[n] != '=')
        n++;
    warn_name(entry, n);
}

static NA_COLD void read_environment(void) {
    were_read = true;
    text_used = 0;
    uint64_t seen = 0;
    const char *entry;
    for (size_t i = 0; (entry = na_os_env_at(i)) != NULL; i++)
        if (begins(entry, PREFIX, 0)) apply(entry, &seen);
}

static NA_COLD void forget_values(void) {
    for (unsigned id = 0; id < NA_OPT_ALL; id++) {
        na_option_values.numbers[id] = rows[id].fallback;
        na_option_values.texts[id] = NULL;
    }
}

/* --- the interface --- */

void na_options_init(void) {
    if (were_read) forget_values();
    /* (Set-id programs have the environment of a less trusted user.) */
    if (na_os_env_has(PREFIX) && !na_os_secure) read_environment();
}

const char *na_option_name(na_option_id_t id) {
    return rows[id].name;
}
