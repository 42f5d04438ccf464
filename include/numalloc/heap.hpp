// heap.hpp - heaps of the program's own for C++ (numalloc.h says what they are).
//
//     numalloc::heap graph{"graph"};
//     std::vector<node, numalloc::allocator<node>> nodes{graph};          // one type of container
//     numalloc::memory_resource resource{graph};
//     std::pmr::unordered_map<int, node> index{&resource};                // any, at run time
//
// A heap outlives what is allocated from it; whoever destroys it first frees all of that at once.
// Memory that is out is std::bad_alloc; with -fno-exceptions, abort(). C++17.
#ifndef NUMALLOC_HEAP_HPP
#define NUMALLOC_HEAP_HPP

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <memory_resource>
#include <new>
#include <stdexcept>
#include <system_error>
#include <type_traits>
#include <utility>

#include "numalloc/numalloc.h"

namespace numalloc {

// Owns a heap. Not copied; a heap that was moved from has none, and may only be destroyed or
// assigned to.
class heap {
  public:
    heap() : heap(numalloc_heap_options_t{}) {}
    explicit heap(const char *name) : heap(named(name)) {}
    // std::bad_alloc, or std::system_error (EINVAL) for options that make no sense.
    explicit heap(const numalloc_heap_options_t &options) : heap_(numalloc_heap_create(&options)) {
        if (heap_ == nullptr) fail(errno);
    }
    ~heap() {
        numalloc_heap_destroy(heap_);
    }
    heap(heap &&other) noexcept : heap_(std::exchange(other.heap_, nullptr)) {}
    heap &operator=(heap &&other) noexcept {
        std::swap(heap_, other.heap_);
        return *this;
    }
    heap(const heap &) = delete;
    heap &operator=(const heap &) = delete;

    numalloc_heap_t *get() const noexcept {
        return heap_;
    }
    std::size_t trim() {
        return numalloc_heap_trim(heap_);
    }
    numalloc_heap_stats_t stats() const {
        numalloc_heap_stats_t stats;
        numalloc_heap_read_stats(heap_, &stats, sizeof stats);
        return stats;
    }

    [[nodiscard]] void *allocate(std::size_t bytes,
                                 std::size_t alignment = alignof(std::max_align_t)) {
        return allocate_from(heap_, bytes, alignment);
    }
    static void deallocate(void *block) noexcept {
        std::free(block);
    }

    // The same for a heap that somebody else owns.
    [[nodiscard]] static void *allocate_from(numalloc_heap_t *heap, std::size_t bytes,
                                             std::size_t alignment) {
        void *block = alignment <= alignof(std::max_align_t)
                          ? numalloc_heap_malloc(heap, bytes)
                          : numalloc_heap_aligned(heap, alignment, bytes);
        if (block == nullptr) fail(ENOMEM);
        return block;
    }

    // ENOMEM, EINVAL; EOVERFLOW: so many objects have no size.
    [[noreturn]] static void fail(int error) {
#ifdef __cpp_exceptions
        if (error == EINVAL)
            throw std::system_error(EINVAL, std::generic_category(), "numalloc::heap");
        if (error == EOVERFLOW) throw std::bad_array_new_length();
        throw std::bad_alloc();
#else
        (void)error;
        std::abort();
#endif
    }

  private:
    static numalloc_heap_options_t named(const char *name) {
        numalloc_heap_options_t options{};
        options.name = name;
        return options;
    }

    numalloc_heap_t *heap_;
};

// For std::pmr containers. Equal to others of the same heap; with -fno-rtti to itself alone, and
// containers then copy where they could move.
class memory_resource final : public std::pmr::memory_resource {
  public:
    explicit memory_resource(const heap &from) noexcept : heap_(from.get()) {}
    explicit memory_resource(numalloc_heap_t *from) noexcept : heap_(from) {}
    numalloc_heap_t *get() const noexcept {
        return heap_;
    }

  private:
    void *do_allocate(std::size_t bytes, std::size_t alignment) override {
        return heap::allocate_from(heap_, bytes, alignment);
    }
    void do_deallocate(void *block, std::size_t, std::size_t) override {
        heap::deallocate(block);
    }
    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override {
#ifdef __cpp_rtti
        auto same = dynamic_cast<const memory_resource *>(&other);
        return same != nullptr && same->heap_ == heap_;
#else
        return this == &other;
#endif
    }

    numalloc_heap_t *heap_;
};

// For containers with an allocator type. Goes with a container that is moved, copied or swapped.
template <typename T> class allocator {
  public:
    using value_type = T;
    using propagate_on_container_move_assignment = std::true_type;
    using propagate_on_container_copy_assignment = std::true_type;
    using propagate_on_container_swap = std::true_type;

    allocator(const heap &from) noexcept : heap_(from.get()) {}
    allocator(numalloc_heap_t *from) noexcept : heap_(from) {}
    template <typename U> allocator(const allocator<U> &other) noexcept : heap_(other.get()) {}
    numalloc_heap_t *get() const noexcept {
        return heap_;
    }

    [[nodiscard]] T *allocate(std::size_t count) {
        if (count > std::numeric_limits<std::size_t>::max() / sizeof(T)) heap::fail(EOVERFLOW);
        return static_cast<T *>(heap::allocate_from(heap_, count * sizeof(T), alignof(T)));
    }
    void deallocate(T *block, std::size_t) noexcept {
        heap::deallocate(block);
    }

    template <typename U> bool operator==(const allocator<U> &other) const noexcept {
        return heap_ == other.get();
    }
    template <typename U> bool operator!=(const allocator<U> &other) const noexcept {
        return heap_ != other.get();
    }

  private:
    numalloc_heap_t *heap_;
};

} // namespace numalloc

#endif
