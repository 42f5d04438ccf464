/* own_runtime_lib.cpp - a library into which a C++ runtime is linked, and whose calls are bound to
 * it
 * (-Bsymbolic): new calls malloc, delete calls free. */
#include "own_runtime.h"

int *own_runtime_make() {
    return new int(1);
}
int *own_runtime_make_array(unsigned count) {
    return new int[count]();
}
own_runtime_wide *own_runtime_make_wide() {
    return new own_runtime_wide();
}
void own_runtime_take(int *one) {
    delete one;
}
void own_runtime_take_array(int *some) {
    delete[] some;
}
void own_runtime_take_wide(own_runtime_wide *wide) {
    delete wide;
}
