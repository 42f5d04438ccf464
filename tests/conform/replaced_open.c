/* replaced_open.c - a program in C, without a C++ runtime, opens a library that has operators of
 * its own; later one that is closed again. (replaced.cpp is in the library.) */
#include "support/check.h"

int main(void) {
    check_begin();
    void *library = dlopen(REPLACED_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) check_say("%s\n", dlerror());
    REQUIRE(library != NULL);
    int (*test)(void);
    *(void **)&test = dlsym(library, "replaced_test");
    REQUIRE(test != NULL);
    CHECK(test() == 0);
    /* Others may have its blocks, and call its operators, so it stays. */
    dlclose(library);
    CHECK(dlopen(REPLACED_LIBRARY, RTLD_NOW | RTLD_NOLOAD) != NULL);
    CHECK(test() == 0);
    return check_status();
}
