/* app.cpp - a static program: its new and the C++ library's memory come from numalloc. */
#include <cstdio>
#include <memory>
#include <numalloc/numalloc.h>
#include <string>
#include <vector>

int main() {
    std::vector<std::string> lines(1000, std::string(100, '-'));
    auto own = std::make_unique<int>(1);
    for (const void *block :
         {static_cast<const void *>(own.get()), static_cast<const void *>(lines.data()),
          static_cast<const void *>(lines.back().data())}) {
        if (numalloc_node_of(block) < 0) {
            std::puts("a block is not numalloc's");
            return 1;
        }
    }
    std::printf("numalloc %s in a static program\n", numalloc_version());
    return 0;
}
