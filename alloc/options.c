/* options.c - the one table of options, and the reader of the environment. See options.h. */
#include "alloc/options.h"

#include "alloc/os.h"
#include "alloc/print.h"

#define PREFIX          "NUMALLOC_"
#define PREFIX_LENGTH   (sizeof PREFIX - 1)
#define NAME_MAX_LENGTH 40 /* longer than any option; longer unknown names resemble none */
#define SHOWN           64 /* characters of a wrong value or name that a warning repeats */

typedef enum kind {
    KIND_BOOL,
    KIND_BYTES,
    KIND_POW2, /* bytes, a power of two */
    KIND_MS,
    KIND_NUMBER,
    KIND_CHOICE, /* the number of the word in `unit` */
    KIND_WORD,   /* text, one of the words in `unit` */
    KIND_MODE,   /* the same, and perhaps ",access" or ",access=" and a word of ACCESS */
    KIND_TEXT,
} kind_t;

#define KIB  ((uint64_t)1 << 10)
#define MIB  ((uint64_t)1 << 20)
#define GIB  ((uint64_t)1 << 30)
#define TIB  ((uint64_t)1 << 40)
#define DAY  ((uint64_t)24 * 60 * 60 * 1000)
#define YEAR (366 * DAY)

/* X(id, kind, unit, default as text, least, most, meaning). A number must lie between least and
 * most; zero is good as well where the default is 0. Bounds mean nothing for the other kinds.
 * The least region is the longest run that a region has to hold. */
#define OPTIONS(X)                                                                                 \
    X(STATS, KIND_BOOL, "0|1", "0", 0, 1, "print statistics on stderr when the program ends")      \
    X(CHECK, KIND_BOOL, "0|1", "0", 0, 1, "verify every free: slower, finds misuse sooner")        \
    X(ABORT, KIND_BOOL, "0|1", "1", 0, 1,                                                          \
      "abort when misuse is found; 0: warn, ignore the call and go on")                            \
    X(LIMIT, KIND_BYTES, "bytes", "0", MIB, 1024 * TIB,                                            \
      "most memory the program may hold; beyond it malloc fails with ENOMEM; 0: no limit")         \
    X(PURGE_DELAY, KIND_MS, "ms", "500", 0, DAY,                                                   \
      "how long free pages are kept before the system gets them back; 0: at once")                 \
    X(HUGEPAGES, KIND_CHOICE, "keep|always|never", "keep", 0, 0,                                   \
      "transparent huge pages for the heap: leave the system's setting, ask for them, refuse "     \
      "them")                                                                                      \
    X(REGION_SIZE, KIND_POW2, "bytes", "1G", 128 * MIB, 64 * GIB,                                  \
      "address space of a region, which is reserved as it is used; a power of two")                \
    X(BACKGROUND, KIND_BOOL, "0|1", "0", 0, 1,                                                     \
      "a thread that gives memory back while the program sleeps")                                  \
    X(CGROUPS, KIND_CHOICE, "0|1|2", "2", 0, 0,                                                    \
      "look in /sys/fs/cgroup whether memory is short, on the way to new memory; 2: and malloc "   \
      "fails with ENOMEM before the process is killed; 0: no file is opened after the start")      \
    X(DEEPBIND, KIND_BOOL, "0|1", "0", 0, 1,                                                       \
      "leave libraries opened with RTLD_DEEPBIND to the C library's malloc; 0: dlopen ignores "    \
      "that flag, so that they use this one")                                                      \
    X(NUMA, KIND_CHOICE, "preferred|strict|unbound|off|balanced", "preferred", 0, 0,               \
      "memory comes from the caller's node if it can, from it only, from where the kernel "        \
      "places it, without regard to nodes, or from the caller's node until the kernel moves it")   \
    X(PROFILE, KIND_MODE, "sample|sites|trace", "", 0, 0,                                          \
      "record a profile: of sampled blocks, of every block, or every event by itself; empty: "     \
      "none. With ,access or ,access=SOURCE behind it: ACCESS as well")                            \
    X(PROFILE_FILE, KIND_TEXT, "text", "", 0, 0,                                                   \
      "file name pattern of the profile, or a directory; empty: the profiler's own")               \
    X(SAMPLE_INTERVAL, KIND_BYTES, "bytes", "512K", 0, TIB,                                        \
      "mean number of bytes between two samples; 0: every block")                                  \
    X(TRACE_STACKS, KIND_CHOICE, "allocations|all|none", "allocations", 0, 0,                      \
      "trace: whose call stacks are recorded; all: of frees as well")                              \
    X(TRACE_BUFFER, KIND_BYTES, "bytes", "1M", 64 * KIB, 16 * MIB,                                 \
      "trace: memory that a thread fills with events before it is compressed")                     \
    X(TRACE_LEVEL, KIND_CHOICE, "0|1|2|3|4|5|6|7|8|9", "1", 0, 0,                                  \
      "trace: how hard to compress; 0: not at all")                                                \
    X(TRACE_LOSSY, KIND_BOOL, "0|1", "0", 0, 1,                                                    \
      "trace: when compression falls behind, lose events (counted) instead of waiting")            \
    X(TRACE_THREAD, KIND_BOOL, "0|1", "1", 0, 1,                                                   \
      "threads of the recorder's own compress traces and see where memory lies; 0: none are "      \
      "started")                                                                                   \
    X(TRACE_MAX, KIND_BYTES, "bytes", "0", MIB, 1024 * TIB,                                        \
      "trace: compressed events that the file may hold, the oldest are dropped; 0: no limit")      \
    X(SAMPLE_SEED, KIND_NUMBER, "number", "0", 0, UINT32_MAX,                                      \
      "what the random draws of samples begin from, to draw the same again; 0: each run its own")  \
    X(PROFILE_MEMORY, KIND_BYTES, "bytes", "0", MIB, TIB,                                          \
      "most memory and disk for what the profile records; beyond it, new stacks are put together " \
      "with their callers; 0: no limit")                                                           \
    X(PROFILE_FREES, KIND_BOOL, "0|1", "0", 0, 1, "record from where blocks are freed, too")       \
    X(ACCESS, KIND_CHOICE, "off|auto|kmod|ibs|pebs|watch|numa|fault|kmod-fault|kmod-sim", "off",   \
      0, 0,                                                                                        \
      "profile: who touches which memory from where as well; where samples of that come from, "    \
      "auto: "                                                                                     \
      "the best there is")                                                                         \
    X(ACCESS_PERIOD, KIND_NUMBER, "number", "0", 0, UINT32_MAX,                                    \
      "access: events between two samples (watch: microseconds between two looks); 0: as suits "   \
      "the "                                                                                       \
      "source")                                                                                    \
    X(ACCESS_COST, KIND_NUMBER, "number", "3", 1, 100,                                             \
      "access by watch: at most so many per cent of the busiest thread's time")                    \
    X(ACCESS_STACK, KIND_BYTES, "bytes", "1K", 256, 8 * KIB,                                       \
      "access: watch: bytes of the stack that are copied at each hit for its call chain; 0: no "   \
      "call chains")                                                                               \
    X(ACCESS_FRAMES, KIND_NUMBER, "number", "0", 0, 127,                                           \
      "access: ibs, pebs, numa, fault: frames of each sample's call chain, at most, by frame "     \
      "pointers; 0: no call chains")                                                               \
    X(PROFILE_START, KIND_CHOICE, "now|later", "now", 0, 0,                                        \
      "when the profile begins: with the program, or when it is asked for")                        \
    X(PROFILE_AFTER, KIND_MS, "ms", "0", 0, YEAR,                                                  \
      "the profile begins so long after the program; 0: with it")                                  \
    X(PROFILE_FOR, KIND_MS, "ms", "0", 0, YEAR,                                                    \
      "a profile ends after so long; 0: when it is told to, or with the program")                  \
    X(PROFILE_DUMP_EVERY, KIND_MS, "ms", "0", 10, YEAR,                                            \
      "copy the running profile to a new file each time so long has passed; 0: never")             \
    X(PROFILE_DUMP_RSS, KIND_BYTES, "bytes", "0", 4096, 1024 * TIB,                                \
      "and each time the resident memory first passes a multiple of this; 0: never")               \
    X(PROFILE_DUMP_LIVE, KIND_BYTES, "bytes", "0", 4096, 1024 * TIB,                               \
      "and each time the profiled blocks' live bytes first pass a multiple of this; 0: never")     \
    X(PROFILE_SIGNAL, KIND_CHOICE, "none|hup|usr1|usr2|urg|winch|io|pwr", "none", 0, 0,            \
      "signal that begins a profile and, the next time, ends it")                                  \
    X(PROFILE_DUMP_SIGNAL, KIND_CHOICE, "none|hup|usr1|usr2|urg|winch|io|pwr", "none", 0, 0,       \
      "signal that copies the running profile to a new file")                                      \
    X(PROFILE_TRIGGER, KIND_TEXT, "text", "", 0, 0,                                                \
      "file that, when changed, is read for what to do: start, stop or dump (also when empty)")    \
    X(PROFILE_ONLY, KIND_TEXT, "text", "", 0, 0,                                                   \
      "profile only programs of these names, separated by commas, * for anything; empty: all")     \
    X(PROFILE_RANKS, KIND_TEXT, "text", "", 0, 0,                                                  \
      "profile only these ranks of a parallel job, such as 0,4-7; empty: all")

typedef struct row {
    na_option_info_t info;
    kind_t kind;
    uint64_t least;
    uint64_t most;
} row_t;

/* What few processes ever read lies away from the defaults, which all read (layout.ld). */
#define X(id, kind, unit, fallback, least, most, meaning)                                          \
    static const char meaning_##id[] __attribute__((section(".rodata.meanings"))) = meaning;
OPTIONS(X)
#undef X

static const row_t rows[NA_OPT_COUNT] = {
#define X(id, kind, unit, fallback, least, most, meaning)                                          \
    [NA_OPT_##id] = {{PREFIX #id, unit, fallback, meaning_##id}, kind, least, most},
    OPTIONS(X)
#undef X
};

#define TEXT_MAX 4096u /* PATH_MAX */

static uint64_t numbers[NA_OPT_COUNT];
/* Copies, because programs that set their title overwrite the environment they started with. */
static const char *texts[NA_OPT_COUNT];
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
static const char *copy(const char *s, bool to_lower) {
    size_t n = length_of(s);
    char *store = text_room + text_used;
    if (n >= TEXT_MAX || n >= sizeof text_room - text_used) return NULL;
    text_used += n + 1;
    for (size_t i = 0; i <= n; i++)
        store[i] = to_lower ? lower(s[i]) : s[i];
    return store;
}

int na_option_access(const char *mode, size_t *length) {
    const char *words = rows[NA_OPT_ACCESS].info.unit;
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
    if (n != 0 && word_index(word, rows[id].info.unit) < 0) return false;
    texts[id] = copy(word, true);
    if (s[n] != 0) numbers[NA_OPT_ACCESS] = (uint64_t)access;
    return texts[id] != NULL;
}

/* Sets the option from text; false when the text is not good for it. */
static bool set(na_option_id_t id, const char *s) {
    const row_t *row = &rows[id];
    uint64_t value = 0;
    switch (row->kind) {
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
        value = (uint64_t)word_index(s, row->info.unit);
        if ((int64_t)value < 0) return false;
        numbers[id] = value;
        return true;
    case KIND_WORD:
        if (*s != 0 && word_index(s, row->info.unit) < 0) return false;
        texts[id] = copy(s, true);
        return texts[id] != NULL;
    case KIND_MODE:
        return set_mode(id, s);
    case KIND_TEXT:
        texts[id] = copy(s, false);
        return texts[id] != NULL;
    }
    bool zero = value == 0 && row->info.fallback[0] == '0';
    if (!zero && (value < row->least || value > row->most)) return false;
    if (row->kind == KIND_POW2 && !na_is_pow2(value)) return false;
    numbers[id] = value;
    return true;
}

/* What the option accepts, for a warning. */
static void expect(const row_t *row, na_text_t *t) {
    bool zero = row->info.fallback[0] == '0' && row->least > 0;
    switch (row->kind) {
    case KIND_BOOL:
        na_text_str(t, "0 or 1");
        break;
    case KIND_BYTES:
    case KIND_POW2:
        na_text_str(t, row->kind == KIND_POW2 ? "a power of two of bytes" : "bytes");
        na_text_str(t, " such as 512M, ");
        na_text_str(t, zero ? "0 or " : "");
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
    case KIND_WORD:
        na_text_str(t, row->info.unit);
        break;
    case KIND_MODE:
        na_text_str(t, row->info.unit);
        na_text_str(t, "[,access[=");
        na_text_str(t, rows[NA_OPT_ACCESS].info.unit);
        na_text_str(t, "]]");
        break;
    case KIND_TEXT:
        na_text_str(t, "fewer than ");
        na_text_u64(t, TEXT_MAX);
        na_text_str(t, " characters");
        break;
    }
}

/* The first `n` characters of s as a string that is short enough for a line. */
static const char *clip(char store[SHOWN + 4], const char *s, size_t n) {
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
    accepted.data[accepted.length] = 0;
    na_warn("%s=%s ignored: %s is accepted; the default is %s", row->info.name,
            clip(shown, value, SIZE_MAX), accepted.data,
            row->info.fallback[0] != 0 ? row->info.fallback : "none");
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
        const char *known = rows[id].info.name;
        unsigned d = distance(name, n, known);
        /* and less than half of what follows the prefix, or NUMALLOC_X would resemble anything */
        if (d < best && 2 * d < length_of(known) - PREFIX_LENGTH) {
            best = d;
            nearest = known;
        }
    }
    if (nearest != NULL)
        na_warn("unknown option %s ignored, did you mean %s?", clip(shown, name, n), nearest);
    else
        na_warn("unknown option %s ignored; see docs/options.md for those there are",
                clip(shown, name, n));
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
    for (unsigned id = 0; id < NA_OPT_COUNT; id++) {
        const char *name = rows[id].info.name;
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

void na_options_init(void) {
    text_used = 0;
    for (unsigned id = 0; id < NA_OPT_COUNT; id++) {
        numbers[id] = 0;
        texts[id] = NULL;
        if (rows[id].info.fallback[0] != 0) (void)set((na_option_id_t)id, rows[id].info.fallback);
    }
    if (!na_os_env_has(PREFIX)) return;
    if (na_os_secure) return; /* the environment is that of a less trusted user */
    uint64_t seen = 0;
    const char *entry;
    for (size_t i = 0; (entry = na_os_env_at(i)) != NULL; i++)
        if (begins(entry, PREFIX, 0)) apply(entry, &seen);
}

uint64_t na_option(na_option_id_t id) {
    return numbers[id];
}

const char *na_option_text(na_option_id_t id) {
    return texts[id];
}

const na_option_info_t *na_option_info(na_option_id_t id) {
    return &rows[id].info;
}
