// replaced_operators.cpp - a program's own operators: two forms of new, two of delete, and no more.
//
// What they give lies in the middle of a block of malloc's, as it does where somebody keeps a count
// or a type in front: whoever releases it without asking them takes the process down. With ARRAYS
// the forms for arrays are theirs, and those for one object are not.
#include "replaced_operators.h"

#ifndef __clang__
#pragma GCC diagnostic ignored "-Wsized-deallocation" // which is what is tested
#endif

#include <cstdint>
#include <cstdlib>

int replaced_news, replaced_deletes;

namespace {

const uint64_t mark = 0x5eed5eed5eed5eedu;

void *give(size_t size, size_t alignment) {
    if (size > SIZE_MAX / 4) throw std::bad_alloc();
    size_t front = alignment < 16 ? 16 : alignment;
    auto *block =
        static_cast<char *>(std::aligned_alloc(front, (size + 2 * front - 1) / front * front));
    if (block == nullptr) throw std::bad_alloc();
    replaced_news++;
    char *object = block + front;
    reinterpret_cast<uint64_t *>(object)[-2] = front;
    reinterpret_cast<uint64_t *>(object)[-1] = mark;
    return object;
}

void take(void *object) {
    if (object == nullptr) return;
    auto *front = static_cast<uint64_t *>(object);
    if (front[-1] != mark) std::abort();
    replaced_deletes++;
    std::free(static_cast<char *>(object) - front[-2]);
}

} // namespace

#ifdef ARRAYS
void *operator new[](size_t n) {
    return give(n, 16);
}
void operator delete[](void *p) noexcept {
    take(p);
}
void *operator new[](size_t n, std::align_val_t a) {
    return give(n, static_cast<size_t>(a));
}
void operator delete[](void *p, std::align_val_t) noexcept {
    take(p);
}
#else
void *operator new(size_t n) {
    return give(n, 16);
}
void operator delete(void *p) noexcept {
    take(p);
}
void *operator new(size_t n, std::align_val_t a) {
    return give(n, static_cast<size_t>(a));
}
void operator delete(void *p, std::align_val_t) noexcept {
    take(p);
}
#endif
