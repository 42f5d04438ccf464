/* symbol_cache.c - the files that keep symbols: header, identity, entries, frames, strings. See
 * symbol_cache.h. */
#include "profiler/dump/symbols/symbol_cache.h"

#include <dirent.h>
#include <elfutils/libdwfl.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <search.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#include "numalloc/numalloc.h"
#include "profiler/containers/array.h"
#include "profiler/dump/symbols/names/demangle.h"

/* To be raised when the format changes, or what a name is made of: na_demangle, trampolines. */
#define FORMAT 4u

#define MOST_BYTES  (UINT64_C(64) << 20) /* of one file */
#define MOST_FRAMES 80u                  /* of one address; more than MAX_INLINED of symbols.c */
#define DAY_S       86400

static const char cache_ending[] = ".symbols";

/* A file is: header, identity (text, padded to 8 bytes), entries by address, frames, strings. */
typedef struct header {
    char magic[8];
    uint32_t format;
    uint32_t crc;           /* of all that follows this field, to the end of the file */
    uint32_t identity_size; /* a multiple of 8, ends with at least one NUL */
    uint32_t entry_count, frame_count, string_size;
} header_t;

static const char magic[8] = "nasymbol";

typedef struct record {
    uint64_t address;
    uint32_t first, count; /* of frames */
} record_t;

/* Strings are offsets into the strings, which begin and end with a NUL; 0: none. */
typedef struct frame {
    uint64_t start;
    uint32_t function, file, home_file, line, home_line, apart, inlined, zero;
} frame_t;

_Static_assert(sizeof(header_t) == 32 && sizeof(record_t) == 16 && sizeof(frame_t) == 40,
               "the same on every machine of one byte order");

/* A file in memory, checked. */
typedef struct image {
    void *bytes; /* NULL: none */
    const header_t *header;
    const char *identity;
    const record_t *entries;
    const frame_t *frames;
    const char *strings;
} image_t;

/* What was looked up in this run. */
typedef struct added {
    uint64_t address;
    na_cached_frame_t *frames; /* owned, with their strings */
    uint32_t count;
} added_t;

struct na_symbol_cache {
    char directory[PATH_MAX];
    char path[PATH_MAX];
    uint64_t limit;
    image_t kept;
    bool valid; /* kept counts */
    char *identity;
    bool unsure; /* an identity that says all could not be had: nothing is written */
    added_t *added;
    size_t added_count, added_room;
};

bool na_symbol_cache_directory(char *path, size_t size) {
    const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int length = -1;
    if (base != NULL && base[0] == '/')
        length = snprintf(path, size, "%s/numalloc", base);
    else if (home != NULL && home[0] == '/')
        length = snprintf(path, size, "%s/.cache/numalloc", home);
    return length > 0 && (size_t)length < size;
}

/* ---- what a look-up depends on ---- */

/* One line: the path and what is there now. Out of memory: no line, which is no identity of any
 * file's. */
__attribute__((format(printf, 2, 3))) static void put_state(FILE *to, const char *format, ...) {
    struct stat st;
    char *path;
    va_list args;
    va_start(args, format);
    int length = vasprintf(&path, format, args);
    va_end(args);
    if (length < 0) return;
    if (stat(path, &st) != 0)
        fprintf(to, "%s\t-\n", path);
    else
        fprintf(to, "%s\t%llu %llu %lld %lld.%09ld %lld.%09ld\n", path,
                (unsigned long long)st.st_dev, (unsigned long long)st.st_ino, (long long)st.st_size,
                (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec, (long long)st.st_ctim.tv_sec,
                st.st_ctim.tv_nsec);
    free(path);
}

/* The first line: who looked up, and what else it was told. */
static void put_maker(FILE *to) {
    const char *urls = getenv("DEBUGINFOD_URLS"), *cache = getenv("DEBUGINFOD_CACHE_PATH");
    /* As they are, where nothing can read them. */
    char *plain = na_demangle("_ZN1a1bEv", false), *rust = na_demangle("_RNvC1a1b", false);
    fprintf(to, "numalloc %d.%d.%d, whole paths\tlibdw %s\t%s %s\t%s\t%s\n", NUMALLOC_VERSION_MAJOR,
            NUMALLOC_VERSION_MINOR, NUMALLOC_VERSION_PATCH, dwfl_version(NULL),
            plain == NULL ? "" : plain, rust == NULL ? "" : rust, urls == NULL ? "" : urls,
            urls == NULL || cache == NULL ? "" : cache);
    free(plain);
    free(rust);
}

/* True if the identity is of this module's file, and says what is so now. */
static bool still_so(const char *identity, const char *module) {
    const char *own = strchr(identity, '\n');
    size_t length_of_own = strlen(module);
    if (own == NULL || strncmp(own + 1, module, length_of_own) != 0 ||
        own[1 + length_of_own] != '\t')
        return false;
    char *now = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&now, &size);
    if (to == NULL) return false;
    put_maker(to);
    const char *line = strchr(identity, '\n');
    while (line != NULL && *++line != 0) {
        char path[PATH_MAX];
        size_t length = strcspn(line, "\t\n");
        if (length >= sizeof path) break;
        memcpy(path, line, length);
        path[length] = 0;
        put_state(to, "%s", path);
        line = strchr(line, '\n');
    }
    bool same = fclose(to) == 0 && strcmp(now, identity) == 0;
    free(now);
    return same;
}

/* Everywhere libdwfl looks for a debug file of a module in `directory`. */
static void put_places(FILE *to, const char *directory, const char *name, const char *suffix) {
    put_state(to, "%s/%s%s", directory, name, suffix);
    put_state(to, "%s/.debug/%s%s", directory, name, suffix);
    for (const char *rest = directory; rest != NULL; rest = strchr(rest + 1, '/'))
        put_state(to, "/usr/lib/debug%s/%s%s", rest, name, suffix);
    put_state(to, "/usr/lib/debug/%s%s", name, suffix);
}

void na_symbol_cache_identify(na_symbol_cache_t *cache, const char *module, const char *link) {
    size_t size = 0;
    free(cache->identity);
    cache->identity = NULL;
    FILE *to = open_memstream(&cache->identity, &size);
    if (to == NULL) {
        cache->unsure = true;
        return;
    }
    put_maker(to);
    put_state(to, "%s", module);
    const char *file = strrchr(cache->path, '/') + 1;
    put_state(to, "/usr/lib/debug/.build-id/%.2s/%.*s.debug", file, (int)strcspn(file + 2, "."),
              file + 2);
    char real[PATH_MAX];
    const char *paths[] = {module, realpath(module, real)};
    for (size_t i = 0; i < 2; i++) {
        if (paths[i] == NULL || (i == 1 && strcmp(module, real) == 0)) continue;
        char *directory = strdup(paths[i]);
        char *slash = directory == NULL ? NULL : strrchr(directory, '/');
        if (slash == NULL) {
            cache->unsure = true;
        } else {
            *slash = 0;
            put_places(to, directory, link == NULL ? slash + 1 : link,
                       link == NULL ? ".debug" : "");
        }
        free(directory);
    }
    if (fclose(to) != 0) cache->unsure = true;
    /* What divides fields and lines of the identity must not be in it otherwise. */
    const char *urls = getenv("DEBUGINFOD_URLS"), *served = getenv("DEBUGINFOD_CACHE_PATH");
    const char *const parts[] = {module, paths[1], link, urls, served};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (parts[i] != NULL && strpbrk(parts[i], "\t\n") != NULL) cache->unsure = true;
    if (cache->identity == NULL || cache->kept.bytes == NULL ||
        strcmp(cache->identity, cache->kept.identity) != 0)
        cache->valid = false;
}

void na_symbol_cache_refuse(na_symbol_cache_t *cache) {
    cache->unsure = true;
}

void na_symbol_cache_debug_file(na_symbol_cache_t *cache, bool found, const char *path) {
    /* A server may have it the next time. */
    if (!found && getenv("DEBUGINFOD_URLS") != NULL) cache->unsure = true;
    if (path == NULL || path[0] != '/' || cache->identity == NULL) return;
    /* In one of the usual places it is in the identity already, as it was before it was read. */
    char *line = NULL;
    if (asprintf(&line, "\n%s\t", path) < 0) return;
    if (strstr(cache->identity, line) == NULL) cache->unsure = true;
    free(line);
}

/* ---- reading ---- */

static void free_image(image_t *image) {
    free(image->bytes);
    memset(image, 0, sizeof *image);
}

static bool check_image(image_t *image, size_t size) {
    const char *bytes = image->bytes;
    const header_t *h = image->header = image->bytes;
    size_t before_crc = offsetof(header_t, identity_size);
    if (size < sizeof *h || memcmp(h->magic, magic, sizeof magic) != 0 || h->format != FORMAT ||
        crc32_z(0, (const Bytef *)bytes + before_crc, size - before_crc) != h->crc)
        return false;
    uint64_t wanted = sizeof *h + (uint64_t)h->identity_size +
                      (uint64_t)h->entry_count * sizeof(record_t) +
                      (uint64_t)h->frame_count * sizeof(frame_t) + h->string_size;
    if (wanted != size || h->identity_size % 8 != 0 || h->identity_size == 0 || h->string_size == 0)
        return false;
    image->identity = bytes + sizeof *h;
    image->entries = (const record_t *)(const void *)(image->identity + h->identity_size);
    image->frames = (const frame_t *)(const void *)(image->entries + h->entry_count);
    image->strings = (const char *)(image->frames + h->frame_count);
    if (image->identity[h->identity_size - 1] != 0 || image->strings[0] != 0 ||
        image->strings[h->string_size - 1] != 0)
        return false;
    for (uint32_t i = 0; i < h->entry_count; i++) {
        const record_t *e = &image->entries[i];
        if (e->count == 0 || e->count > MOST_FRAMES || e->first > h->frame_count ||
            e->count > h->frame_count - e->first || (i > 0 && e->address <= e[-1].address))
            return false;
    }
    for (uint32_t i = 0; i < h->frame_count; i++) {
        const frame_t *f = &image->frames[i];
        if (f->function >= h->string_size || f->file >= h->string_size ||
            f->home_file >= h->string_size || f->inlined > 1)
            return false;
    }
    return true;
}

/* Into *image, with .bytes NULL if there is no good file. Read, not mapped: another process may
 * shorten it. */
static void read_image(const char *path, image_t *image) {
    memset(image, 0, sizeof *image);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
    struct stat st;
    if (fd < 0) return;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
        st.st_size >= (off_t)sizeof(header_t) && (uint64_t)st.st_size <= MOST_BYTES) {
        size_t size = (size_t)st.st_size, at = 0;
        image->bytes = malloc(size);
        while (image->bytes != NULL && at < size) {
            ssize_t got = read(fd, (char *)image->bytes + at, size - at);
            if (got < 0 && errno == EINTR) continue;
            if (got <= 0) break;
            at += (size_t)got;
        }
        if (image->bytes != NULL && (at < size || !check_image(image, size))) free_image(image);
        /* The oldest files are removed: that one is used keeps it young. */
        struct timespec now;
        if (image->bytes != NULL && clock_gettime(CLOCK_REALTIME, &now) == 0 &&
            now.tv_sec - st.st_mtim.tv_sec > DAY_S)
            (void)futimens(fd, NULL);
    }
    close(fd);
}

na_symbol_cache_t *na_symbol_cache_open(const char *module, const unsigned char *build_id,
                                        uint32_t build_id_size, uint64_t limit) {
    char name[2 * 64 + sizeof cache_ending];
    if (build_id_size < 2 || build_id_size > 64) return NULL;
    na_symbol_cache_t *cache = calloc(1, sizeof *cache);
    if (cache == NULL) return NULL;
    for (uint32_t i = 0; i < build_id_size; i++)
        snprintf(name + (size_t)2 * i, 3, "%02x", build_id[i]);
    strcpy(name + (size_t)2 * build_id_size, cache_ending);
    cache->limit = limit;
    if (!na_symbol_cache_directory(cache->directory, sizeof cache->directory) ||
        (size_t)snprintf(cache->path, sizeof cache->path, "%.*s/%s", PATH_MAX - 160,
                         cache->directory, name) != strlen(cache->directory) + 1 + strlen(name)) {
        free(cache);
        return NULL;
    }
    read_image(cache->path, &cache->kept);
    cache->valid = cache->kept.bytes != NULL && still_so(cache->kept.identity, module);
    return cache;
}

static void free_frames(na_cached_frame_t *frames, uint32_t count) {
    for (uint32_t i = 0; frames != NULL && i < count; i++) {
        free((char *)(uintptr_t)frames[i].function);
        free((char *)(uintptr_t)frames[i].file);
        free((char *)(uintptr_t)frames[i].home_file);
    }
    free(frames);
}

void na_symbol_cache_close(na_symbol_cache_t *cache) {
    if (cache == NULL) return;
    for (size_t i = 0; i < cache->added_count; i++)
        free_frames(cache->added[i].frames, cache->added[i].count);
    free(cache->added);
    free(cache->identity);
    free_image(&cache->kept);
    free(cache);
}

static const char *string_of(const image_t *image, uint32_t offset) {
    return offset == 0 ? NULL : image->strings + offset;
}

static void read_cached_frame(const image_t *image, const frame_t *from, na_cached_frame_t *to) {
    *to = (na_cached_frame_t){
        .function = string_of(image, from->function),
        .file = string_of(image, from->file),
        .home_file = string_of(image, from->home_file),
        .start = from->start,
        .line = from->line,
        .home_line = from->home_line,
        .apart = from->apart,
        .inlined = from->inlined != 0,
    };
}

uint32_t na_symbol_cache_find(const na_symbol_cache_t *cache, uint64_t address,
                              na_cached_frame_t *frames, uint32_t room) {
    if (!cache->valid) return 0;
    uint32_t low = 0, high = cache->kept.header->entry_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (cache->kept.entries[middle].address < address)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == cache->kept.header->entry_count) return 0;
    const record_t *entry = &cache->kept.entries[low];
    if (entry->address != address || entry->count > room) return 0;
    for (uint32_t i = 0; i < entry->count; i++)
        read_cached_frame(&cache->kept, &cache->kept.frames[entry->first + i], &frames[i]);
    return entry->count;
}

/* ---- writing ---- */

static bool copy_text(const char *from, const char **to) {
    if (from != NULL) *to = strdup(from);
    return from == NULL || *to != NULL;
}

void na_symbol_cache_add(na_symbol_cache_t *cache, uint64_t address,
                         const na_cached_frame_t *frames, uint32_t count) {
    if (cache->unsure || count == 0 || count > MOST_FRAMES) return;
    if (!NA_ARRAY_RESERVE(cache->added, cache->added_room, cache->added_count + 1u)) return;
    na_cached_frame_t *own = calloc(count, sizeof *own);
    bool good = own != NULL;
    for (uint32_t i = 0; good && i < count; i++) {
        own[i] = frames[i];
        own[i].function = own[i].file = own[i].home_file = NULL;
        good = copy_text(frames[i].function, &own[i].function) &&
               copy_text(frames[i].file, &own[i].file) &&
               copy_text(frames[i].home_file, &own[i].home_file);
    }
    if (good)
        cache->added[cache->added_count++] = (added_t){address, own, count};
    else
        free_frames(own, count);
}

/* The strings of a new file, each once. */
typedef struct strings {
    void *tree; /* string_t, by text: tsearch(3) */
    FILE *to;
    uint64_t size;
    bool good;
} strings_t;

typedef struct string {
    const char *text;
    uint32_t offset;
} string_t;

static int by_text(const void *a, const void *b) {
    return strcmp(((const string_t *)a)->text, ((const string_t *)b)->text);
}

/* Where a string is, or comes to be. `text` must live as long as `strings`. */
static uint32_t intern_string(strings_t *strings, const char *text) {
    if (text == NULL) return 0;
    string_t key = {text, 0};
    void *found = tfind(&key, &strings->tree, by_text);
    if (found != NULL) return (*(string_t **)found)->offset;
    string_t *string = malloc(sizeof *string);
    if (string == NULL || strings->size >= MOST_BYTES) {
        free(string);
        strings->good = false;
        return 0;
    }
    *string = (string_t){text, (uint32_t)strings->size};
    if (tsearch(string, &strings->tree, by_text) == NULL) {
        free(string);
        strings->good = false;
        return 0;
    }
    strings->size += strlen(text) + 1;
    if (fwrite(text, 1, strlen(text) + 1, strings->to) != strlen(text) + 1) strings->good = false;
    return string->offset;
}

static int entries_by_address(const void *a, const void *b) {
    const added_t *x = a, *y = b;
    return (x->address > y->address) - (x->address < y->address);
}

typedef struct content {
    FILE *entries, *frames; /* parts of the new file, in memory */
    strings_t strings;
    uint32_t entry_count, frame_count;
    uint64_t last; /* address of the latest entry */
} content_t;

static void put_cached_entry(content_t *c, uint64_t address, const na_cached_frame_t *frames,
                             uint32_t count) {
    if (c->entry_count != 0 && address <= c->last) return; /* has come already */
    record_t entry = {address, c->frame_count, count};
    if (fwrite(&entry, sizeof entry, 1, c->entries) != 1) c->strings.good = false;
    for (uint32_t i = 0; i < count; i++) {
        frame_t frame = {
            .start = frames[i].start,
            .function = intern_string(&c->strings, frames[i].function),
            .file = intern_string(&c->strings, frames[i].file),
            .home_file = intern_string(&c->strings, frames[i].home_file),
            .line = frames[i].line,
            .home_line = frames[i].home_line,
            .apart = frames[i].apart,
            .inlined = frames[i].inlined,
        };
        if (fwrite(&frame, sizeof frame, 1, c->frames) != 1) c->strings.good = false;
    }
    c->entry_count++;
    c->frame_count += count;
    c->last = address;
}

/* What was added and what is in the file by now, together in the order of addresses. */
static void put_merged_entries(content_t *c, const na_symbol_cache_t *cache, const image_t *there) {
    uint32_t at = 0, all = there->bytes == NULL ? 0 : there->header->entry_count;
    for (size_t i = 0; i <= cache->added_count; i++) {
        const added_t *added = i < cache->added_count ? &cache->added[i] : NULL;
        for (; at < all && (added == NULL || there->entries[at].address <= added->address); at++) {
            na_cached_frame_t frames[MOST_FRAMES];
            const record_t *entry = &there->entries[at];
            for (uint32_t k = 0; k < entry->count; k++)
                read_cached_frame(there, &there->frames[entry->first + k], &frames[k]);
            put_cached_entry(c, entry->address, frames, entry->count);
        }
        if (added != NULL) put_cached_entry(c, added->address, added->frames, added->count);
    }
}

/* The whole file in memory; NULL: too much for one, or out of memory. */
static char *build(const na_symbol_cache_t *cache, const image_t *there, size_t *size) {
    char *entries = NULL, *frames = NULL, *strings = NULL, *bytes = NULL;
    size_t entry_size = 0, frame_size = 0, string_size = 0;
    content_t c = {.entries = open_memstream(&entries, &entry_size),
                   .frames = open_memstream(&frames, &frame_size),
                   .strings = {.to = open_memstream(&strings, &string_size), .size = 1}};
    c.strings.good = c.entries != NULL && c.frames != NULL && c.strings.to != NULL;
    if (c.strings.good) {
        putc(0, c.strings.to);
        put_merged_entries(&c, cache, there);
    }
    FILE *const parts[] = {c.entries, c.frames, c.strings.to};
    for (size_t i = 0; i < 3; i++)
        if (parts[i] != NULL && fclose(parts[i]) != 0) c.strings.good = false;
    tdestroy(c.strings.tree, free);
    size_t identity_size = (strlen(cache->identity) + 8) & ~(size_t)7;
    *size = sizeof(header_t) + identity_size + entry_size + frame_size + string_size;
    if (c.strings.good && *size <= MOST_BYTES) bytes = calloc(1, *size);
    if (bytes != NULL) {
        header_t header = {
            .format = FORMAT,
            .identity_size = (uint32_t)identity_size,
            .entry_count = c.entry_count,
            .frame_count = c.frame_count,
            .string_size = (uint32_t)string_size,
        };
        memcpy(header.magic, magic, sizeof magic);
        char *at = bytes + sizeof header;
        memcpy(at, cache->identity, strlen(cache->identity));
        memcpy(at += identity_size, entries, entry_size);
        memcpy(at += entry_size, frames, frame_size);
        memcpy(at + frame_size, strings, string_size);
        size_t before_crc = offsetof(header_t, identity_size);
        memcpy(bytes, &header, sizeof header);
        header.crc = (uint32_t)crc32_z(0, (const Bytef *)bytes + before_crc, *size - before_crc);
        memcpy(bytes, &header, sizeof header);
    }
    free(entries);
    free(frames);
    free(strings);
    return bytes;
}

/* The directory with those above it, for the user alone. */
static void make_private_directory(const char *path) {
    char part[PATH_MAX];
    for (const char *end = strchr(path + 1, '/');; end = strchr(end + 1, '/')) {
        size_t length = end == NULL ? strlen(path) : (size_t)(end - path);
        if (length >= sizeof part) return;
        memcpy(part, path, length);
        part[length] = 0;
        (void)mkdir(part, 0700);
        if (end == NULL) return;
    }
}

typedef struct old {
    char *name;
    struct timespec time;
    uint64_t bytes;
} old_t;

static int files_by_time(const void *a, const void *b) {
    const old_t *x = a, *y = b;
    if (x->time.tv_sec != y->time.tv_sec) return x->time.tv_sec < y->time.tv_sec ? -1 : 1;
    if (x->time.tv_nsec != y->time.tv_nsec) return x->time.tv_nsec < y->time.tv_nsec ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Removes the oldest files while there is more than the limit; and what a writer that was killed
 * left, which nobody reads. Files of other names are not touched. */
static void prune(const na_symbol_cache_t *cache) {
    DIR *directory = opendir(cache->directory);
    if (directory == NULL) return;
    old_t *files = NULL;
    size_t count = 0, room = 0;
    uint64_t sum = 0;
    struct timespec now = {0, 0};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    for (const struct dirent *d; (d = readdir(directory)) != NULL;) {
        size_t id = strspn(d->d_name, "0123456789abcdef");
        struct stat st;
        if (id < 4 || strncmp(d->d_name + id, cache_ending, sizeof cache_ending - 1) != 0 ||
            fstatat(dirfd(directory), d->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISREG(st.st_mode))
            continue;
        bool whole = d->d_name[id + sizeof cache_ending - 1] == 0;
        if (!whole && now.tv_sec - st.st_mtim.tv_sec > DAY_S) {
            (void)unlinkat(dirfd(directory), d->d_name, 0);
            continue;
        }
        if (!NA_ARRAY_RESERVE(files, room, count + 1u)) break;
        files[count] = (old_t){strdup(d->d_name), st.st_mtim, (uint64_t)st.st_size};
        if (files[count].name == NULL) break;
        sum += files[count++].bytes;
    }
    if (count != 0) qsort(files, count, sizeof *files, files_by_time);
    for (size_t i = 0; i < count; i++) {
        if (sum > cache->limit && unlinkat(dirfd(directory), files[i].name, 0) == 0)
            sum -= files[i].bytes;
        free(files[i].name);
    }
    free(files);
    closedir(directory);
}

void na_symbol_cache_save(na_symbol_cache_t *cache) {
    if (cache->added_count == 0 || cache->unsure || cache->identity == NULL) return;
    qsort(cache->added, cache->added_count, sizeof *cache->added, entries_by_address);
    /* Another process may have written meanwhile, or another module of this one's. */
    image_t there;
    read_image(cache->path, &there);
    if (there.bytes != NULL && strcmp(there.identity, cache->identity) != 0) free_image(&there);
    size_t size, at = 0;
    char *bytes = build(cache, &there, &size);
    free_image(&there);
    if (bytes == NULL || size > cache->limit) {
        free(bytes);
        return;
    }
    char temporary[PATH_MAX + 8];
    snprintf(temporary, sizeof temporary, "%s.XXXXXX", cache->path);
    make_private_directory(cache->directory);
    int fd = mkostemp(temporary, O_CLOEXEC);
    if (fd >= 0) {
        while (at < size) {
            ssize_t put = write(fd, bytes + at, size - at);
            if (put < 0 && errno == EINTR) continue;
            if (put <= 0) break;
            at += (size_t)put;
        }
        /* A file that lost its end in a crash of the machine fails its checksum: no need to wait
         * for the disk. */
        if (close(fd) != 0 || at < size || rename(temporary, cache->path) != 0)
            (void)unlink(temporary);
        else
            prune(cache);
    }
    free(bytes);
}
