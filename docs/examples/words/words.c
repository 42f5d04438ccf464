/* words.c - an index of the words in C sources: which words stand in most places, and where.
 *
 *   words FILE...        the paths to read, from standard input where there are none
 *
 * Written as one would at first: a block for each place, in a list. ./demo.sh profiles it; with
 * -DMENDED it is what the profile's first finding says, an array for each word. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN 3

#ifdef MENDED
typedef struct place {
    int file, line;
} place_t;
#else
typedef struct place {
    struct place *next;
    int file, line;
} place_t;
#endif

typedef struct word {
    struct word *next; /* in its chain of the table */
    char *text;
    place_t *places; /* in no order, or, mended, an array */
    size_t count;
} word_t;

static word_t *chains[1 << 14];

static void *checked(void *block) {
    if (block != NULL) return block;
    fputs("words: out of memory\n", stderr);
    exit(1);
}

static word_t **find_word(const char *text) {
    size_t hash = 5381;
    for (const char *c = text; *c != 0; c++)
        hash = hash * 33 ^ (unsigned char)*c;
    word_t **word = &chains[hash % (sizeof chains / sizeof chains[0])];
    while (*word != NULL && strcmp((*word)->text, text) != 0)
        word = &(*word)->next;
    return word;
}

#ifdef MENDED
static void add_place(word_t *word, int file, int line) {
    if ((word->count & (word->count - 1)) == 0) { /* 0, 1, 2, 4, ...: it is full */
        size_t room = word->count == 0 ? 1 : 2 * word->count;
        word->places = checked(realloc(word->places, room * sizeof *word->places));
    }
    word->places[word->count++] = (place_t){file, line};
}
#else
static void add_place(word_t *word, int file, int line) {
    place_t *place = checked(malloc(sizeof *place));
    *place = (place_t){word->places, file, line};
    word->places = place;
    word->count++;
}
#endif

static void add_word(const char *begin, size_t length, int file, int line) {
    char *text = checked(strndup(begin, length));
    word_t **at = find_word(text);
    if (*at == NULL) {
        *at = checked(calloc(1, sizeof **at));
        (*at)->text = text;
    } else {
        free(text);
    }
    add_place(*at, file, line);
}

static void read_words(const char *path, int number) {
    FILE *file = fopen(path, "r");
    char *line = NULL;
    size_t room = 0;
    if (file == NULL) {
        perror(path);
        return;
    }
    for (int at = 1; getline(&line, &room, file) >= 0; at++) {
        for (const char *c = line; *c != 0;) {
            const char *begin = c;
            while (isalnum((unsigned char)*c) || *c == '_')
                c++;
            if (c - begin > 1 && !isdigit((unsigned char)*begin))
                add_word(begin, (size_t)(c - begin), number, at);
            c += c == begin;
        }
    }
    free(line);
    fclose(file);
}

static int most_first(const void *a, const void *b) {
    const word_t *const *x = a, *const *y = b;
    if ((*x)->count != (*y)->count) return (*x)->count > (*y)->count ? -1 : 1;
    return strcmp((*x)->text, (*y)->text);
}

static void show_words(int files) {
    size_t words = 0, places = 0, room = 0;
    word_t **all = NULL;
    for (size_t i = 0; i < sizeof chains / sizeof chains[0]; i++) {
        for (word_t *word = chains[i]; word != NULL; word = word->next) {
            if (words == room) {
                room = room == 0 ? 1024 : 2 * room;
                all = checked(realloc(all, room * sizeof(word_t *)));
            }
            all[words++] = word;
            places += word->count;
        }
    }
    if (words != 0) qsort(all, words, sizeof(word_t *), most_first);
    printf("%d files, %zu words in %zu places; most often", files, words, places);
    for (size_t i = 0; i < words && i < SHOWN; i++)
        printf("%s %s (%zu)", i == 0 ? "" : ",", all[i]->text, all[i]->count);
    putchar('\n');
    free(all);
}

int main(int argc, char **argv) {
    int files = 0;
    char path[4096];
    for (int i = 1; i < argc; i++)
        read_words(argv[i], files++);
    while (argc < 2 && fgets(path, sizeof path, stdin) != NULL) {
        path[strcspn(path, "\n")] = 0;
        read_words(path, files++);
    }
    show_words(files);
    return 0;
}
