/* options_read.c - reads the environment by the table of options, options.def. See options.h.
 *
 * By itself, because only processes with a NUMALLOC_* in their environment need it: of the others
 * nothing of this file is resident (layout.ld). The table has its strings in itself, not pointers
 * to them, which the loader would have to relocate in every process. */
#include "alloc/sys/options_read.h"

#include "alloc/sys/os.h"
#include "alloc/sys/print.h"

#define PREFIX_LENGTH   (sizeof NA_OPTION_PREFIX - 1)
#define NAME_MAX_LENGTH 40 /* longer than any option; longer unknown names resemble none */
#define SHOWN           64 /* characters of a wrong value or name that a warning repeats */

typedef enum kind {
    KIND_BOOL,
    KIND_BYTES,
    KIND_POW2, /* bytes, a power of two */
    KIND_MS,
    KIND_NUMBER,
    KIND_CHOICE, /* the number of the word */
    KIND_MODE,   /* text, a word, and perhaps ",access" or ",access=" and a word of ACCESS */
    KIND_TEXT,
} kind_t;

typedef struct row {
    char name[32];  /* "NUMALLOC_STATS" */
    char words[46]; /* "keep|always|never"; "": of its kind there are none */
    uint8_t kind;   /* kind_t */
    bool zero;      /* a number may be zero, */
    uint64_t least; /* or must lie between these */
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

static const row_t rows[NA_OPT_ALL] = {
#define NA_OPTION(id, type, fallback, meaning) [NA_OPT_##id] = {NA_OPTION_PREFIX #id, type},
#define NA_TEST_OPTION                         NA_OPTION
#include "alloc/sys/options.def"
#undef NA_OPTION
#undef NA_TEST_OPTION
};
_Static_assert(NA_OPT_ALL <= 64, "apply() has one bit an option");

#define TEXT_MAX 4096u /* PATH_MAX */

static na_option_values_t *read_values; /* options.c's */
/* Copies, because programs that set their title overwrite the environment they started with. */
NA_SPARSE static char text_room[2 * TEXT_MAX];
static size_t text_used;

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

int na_option_access(const char *mode, size_t *length) {
    const char *words = rows[NA_OPT_ACCESS].words;
    size_t n = 0;
    while (mode[n] != 0 && mode[n] != ',')
        n++;
    *length = n;
    if (mode[n] == 0) return 0;
    const char *rest = mode + n + 1;
    for (const char *a = "access"; *a != 0; a++, rest++)
        if (lower(*rest) != *a) return -1;
    if (*rest == 0) return word_index("auto", words);
    return *rest == '=' ? word_index(rest + 1, words) : -1;
}

/* "sites,access=watch": the mode goes to the option, the source to ACCESS. */
static bool set_mode(na_option_id_t id, const char *s) {
    size_t n;
    int access = na_option_access(s, &n);
    char word[16];
    if (access < 0 || n >= sizeof word) return false;
    for (size_t i = 0; i < n; i++)
        word[i] = s[i];
    word[n] = 0;
    int mode = n != 0 ? word_index(word, rows[id].words) : -1;
    if (n != 0 && mode < 0) return false;
    if (mode == 0) { /* off */
        read_values->texts[id] = NULL;
        return true;
    }
    read_values->texts[id] = copy_text(word, true);
    if (s[n] != 0) read_values->numbers[NA_OPT_ACCESS] = (uint64_t)access;
    return read_values->texts[id] != NULL;
}

/* Sets the option from text; false when the text is not good for it. */
static bool set(na_option_id_t id, const char *s) {
    const row_t *row = &rows[id];
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
    case KIND_CHOICE:
        value = (uint64_t)word_index(s, row->words);
        if ((int64_t)value < 0) return false;
        read_values->numbers[id] = value;
        return true;
    case KIND_MODE:
        return set_mode(id, s);
    case KIND_TEXT:
        read_values->texts[id] = copy_text(s, false);
        return read_values->texts[id] != NULL;
    }
    bool zero = value == 0 && row->zero;
    if (!zero && (value < row->least || value > row->most)) return false;
    if (row->kind == KIND_POW2 && !na_is_pow2(value)) return false;
    read_values->numbers[id] = value;
    return true;
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
        na_text_str(t, "[,access[=");
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
    uint64_t value = na_option_default(id);
    unsigned unit = 0;
    switch ((kind_t)row->kind) {
    case KIND_BOOL:
    case KIND_MS:
    case KIND_NUMBER:
        na_text_u64(t, value);
        break;
    case KIND_BYTES:
    case KIND_POW2:
        while (unit < 4 && value != 0 && value % KIB == 0) {
            value /= KIB;
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

/* Smallest number of characters to insert, drop, change or swap with their neighbour between
 * a[0..n) and the string b; both at most NAME_MAX_LENGTH long. */
static unsigned distance(const char *a, size_t n, const char *b) {
    unsigned before[NAME_MAX_LENGTH + 1];
    unsigned last[NAME_MAX_LENGTH + 1];
    unsigned row[NAME_MAX_LENGTH + 1];
    size_t m = length_of(b);
    for (size_t j = 0; j <= m; j++)
        before[j] = last[j] = row[j] = (unsigned)j;
    for (size_t i = 1; i <= n; i++) {
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= m; j++) {
            unsigned best = last[j - 1] + (a[i - 1] != b[j - 1]);
            if (last[j] + 1 < best) best = last[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            row[j] = best;
        }
        for (size_t j = 0; j <= m; j++) {
            before[j] = last[j];
            last[j] = row[j];
        }
    }
    return row[m];
}

/* `name` is n characters of the environment, prefix included. */
static void warn_name(const char *name, size_t n) {
    char shown[SHOWN + 4];
    const char *nearest = NULL;
    unsigned best = 3; /* mistakes at most 2, */
    for (unsigned id = 0; n <= NAME_MAX_LENGTH && id < NA_OPT_COUNT; id++) {
        const char *known = rows[id].name;
        unsigned d = distance(name, n, known);
        /* and less than half of what follows the prefix, or NUMALLOC_X would resemble anything */
        if (d < best && 2 * d < length_of(known) - PREFIX_LENGTH) {
            best = d;
            nearest = known;
        }
    }
    if (nearest != NULL)
        na_warn("unknown option %s ignored, did you mean %s?", clip_text(shown, name, n), nearest);
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

/* --- the interface --- */

void na_options_read(na_option_values_t *into) {
    read_values = into;
    text_used = 0;
    uint64_t seen = 0;
    const char *entry;
    for (size_t i = 0; (entry = na_os_env_at(i)) != NULL; i++)
        if (begins(entry, NA_OPTION_PREFIX, 0)) apply(entry, &seen);
}

const char *na_option_name(na_option_id_t id) {
    return rows[id].name;
}
