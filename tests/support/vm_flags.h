/* vm_flags.h - what the kernel says of the mapping at an address (VmFlags in /proc/self/smaps). */
#ifndef NUMALLOC_TESTS_SUPPORT_VM_FLAGS_H
#define NUMALLOC_TESTS_SUPPORT_VM_FLAGS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The flag is one of smaps' two letters, with a space on either side. */
static inline bool vm_has_flag(const void *address, const char *flag) {
    FILE *smaps = fopen("/proc/self/smaps", "r");
    char line[512];
    bool here = false, has = false;
    while (smaps != NULL && fgets(line, sizeof line, smaps) != NULL) {
        unsigned long from, to;
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
            here = (uintptr_t)address >= from && (uintptr_t)address < to;
        else if (here && strncmp(line, "VmFlags:", 8) == 0)
            has = strstr(line, flag) != NULL;
    }
    if (smaps != NULL) fclose(smaps);
    return has;
}

/* The kernel knows transparent huge pages. */
static inline bool vm_has_huge_pages(void) {
    return access("/sys/kernel/mm/transparent_hugepage/enabled", R_OK) == 0;
}

#endif
