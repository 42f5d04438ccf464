/* own_runtime.cpp - a library with a C++ runtime of its own makes objects that the program deletes,
 * and the other way round: all comes from one malloc, so it works without numalloc, and has to
 * under NUMALLOC_HARDEN. */
#include "own_runtime.h"

#include <cstdio>

int main() {
    int sum = 0;
    for (unsigned i = 0; i < 1000; i++) {
        int *one = own_runtime_make(), *some = own_runtime_make_array(100 + i);
        own_runtime_wide *wide = own_runtime_make_wide();
        sum += *one + some[i % 100] + wide->bytes[i % 128];
        delete one;
        delete[] some;
        delete wide;
        own_runtime_take(new int(1));
        own_runtime_take_array(new int[100 + i]);
        own_runtime_take_wide(new own_runtime_wide);
    }
    std::printf("%d\n", sum);
    return sum == 1000 ? 0 : 1;
}
