/* small_pages.c - a small program has no huge page from the library where the system gives them
 * unasked (THP "always", as Debian has it): each of 2 MiB would be cleared at start-up for a few
 * words. So every private mapping without a file that a huge page would fit into, and that may be
 * read, is advised against them. The process has no thread but this one, whose stack has a name. */
#include "support/check.h"
#include "support/vm_flags.h"

enum { HUGE = 2 << 20 };

static bool has_room(unsigned long from, unsigned long to) {
    unsigned long first = (from + HUGE - 1) / HUGE * HUGE;
    return first < to && to - first >= HUGE;
}

int main(void) {
    check_begin();
    if (!vm_has_huge_pages()) check_skip("this kernel has no transparent huge pages");
    free(malloc(100));
    FILE *smaps = fopen("/proc/self/smaps", "r");
    REQUIRE(smaps != NULL);
    char line[512], mapping[512] = "";
    bool may_be_huge = false;
    unsigned seen = 0;
    while (fgets(line, sizeof line, smaps) != NULL) {
        unsigned long from, to, inode;
        char rights[8], name[8];
        int words = sscanf(line, "%lx-%lx %7s %*s %*s %lu %7s", &from, &to, rights, &inode, name);
        if (words >= 4) {
            may_be_huge = words == 4 && inode == 0 && rights[0] == 'r' && rights[3] == 'p' &&
                          has_room(from, to);
            strcpy(mapping, line);
        } else if (may_be_huge && strncmp(line, "VmFlags:", 8) == 0) {
            CHECK_MSG(strstr(line, " nh ") != NULL, "room for huge pages in %s", mapping);
            seen++;
        }
    }
    fclose(smaps);
    if (getenv("NA_TEST_LIB") != NULL) CHECK(seen > 0); /* the library's tables are */
    return check_status();
}
