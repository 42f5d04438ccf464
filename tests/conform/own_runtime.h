/* own_runtime.h - what own_runtime_lib.cpp makes and takes. */
#ifndef NUMALLOC_TESTS_CONFORM_OWN_RUNTIME_H
#define NUMALLOC_TESTS_CONFORM_OWN_RUNTIME_H

struct own_runtime_wide {
    alignas(64) char bytes[128];
};

int *own_runtime_make();
int *own_runtime_make_array(unsigned count);
own_runtime_wide *own_runtime_make_wide();
void own_runtime_take(int *one);
void own_runtime_take_array(int *some);
void own_runtime_take_wide(own_runtime_wide *wide);

#endif
