// growth.cpp - a vector that grows to 16 million elements without reserve(): 128 MiB at last, as
// much copied on the way, and no call of realloc.
#include <cstdio>
#include <vector>

__attribute__((noinline)) static void fill(std::vector<double> &v) {
    for (int i = 0; i < (1 << 24); i++)
        v.push_back(i);
}

int main() {
    std::vector<double> v;
    fill(v);
    std::printf("%.0f\n", v.back());
    return 0;
}
