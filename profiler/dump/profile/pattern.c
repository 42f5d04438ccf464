/* pattern.c - see pattern.h. */
#include "profiler/dump/profile/pattern.h"

#include <string.h>

bool na_suppression_matches(const char *pattern, const char *text) {
    bool begin = pattern[0] == '^';
    if (begin) pattern++;
    bool first = true;
    /* Each piece between asterisks is searched for after the one before it: the earliest place is
     * always as good as a later one, but for the last piece before '$'. */
    for (;;) {
        size_t length = strcspn(pattern, "*$");
        bool last = pattern[length] == 0 || pattern[length] == '$';
        bool end = pattern[length] == '$';
        size_t left = strlen(text);
        if (length > left) return false;
        const char *found = NULL;
        if (first && begin) {
            if (strncmp(text, pattern, length) == 0 && (!end || left == length)) found = text;
        } else if (end) {
            if (strncmp(text + left - length, pattern, length) == 0) found = text + left - length;
        } else {
            found = length == 0 ? text : memmem(text, left, pattern, length);
        }
        if (found == NULL) return false;
        if (last) return true;
        text = found + length;
        pattern += length + 1;
        first = false;
    }
}
