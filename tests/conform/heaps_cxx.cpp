// heaps_cxx.cpp - heap.hpp: containers of both kinds take all their memory from their heap, and
// what the standard asks of an allocator and a memory resource holds.
#include "support/check.h"

#include <list>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <unordered_map>
#include <vector>

#include "numalloc/heap.hpp"

template <typename T> using vector = std::vector<T, numalloc::allocator<T>>;
using map = std::map<int, int, std::less<int>, numalloc::allocator<std::pair<const int, int>>>;

struct alignas(256) wide {
    char bytes[300];
};

static bool is_of(const void *block, const numalloc::heap &heap) {
    return numalloc_heap_of(block) == heap.get();
}

static void containers() {
    numalloc::heap heap{"containers"}, other;
    vector<int> numbers(10000, 1, heap);
    CHECK(is_of(numbers.data(), heap));
    CHECK(std::accumulate(numbers.begin(), numbers.end(), 0) == 10000);
    vector<wide> aligned(3, wide{}, heap);
    CHECK(is_of(aligned.data(), heap) && (uintptr_t)aligned.data() % 256 == 0);
    map tree{heap};
    for (int i = 0; i < 1000; i++)
        tree[i * 7 % 1000] = i;
    for (const auto &entry : tree)
        if (!is_of(&entry, heap)) CHECK(is_of(&entry, heap));
    // Copied, moved and swapped with their allocators; between heaps by element.
    map copy{tree}, elsewhere{tree, numalloc::allocator<map::value_type>{other}};
    CHECK(copy == tree && is_of(&*copy.begin(), heap));
    CHECK(elsewhere == tree && is_of(&*elsewhere.begin(), other));
    elsewhere.swap(copy);
    CHECK(is_of(&*copy.begin(), other));
    copy = std::move(elsewhere);
    CHECK(is_of(&*copy.begin(), heap) && copy.size() == 1000);
    CHECK(numalloc::allocator<int>{heap} == numalloc::allocator<char>{heap});
    CHECK(numalloc::allocator<int>{heap} != numalloc::allocator<int>{other});
    CHECK(heap.stats().live > 0 && std::string{heap.stats().name} == "containers");
    auto shared = std::allocate_shared<wide>(numalloc::allocator<wide>{heap});
    CHECK(is_of(shared.get(), heap));
}

static void resources() {
    numalloc::heap heap, other;
    numalloc::memory_resource resource{heap}, same{heap}, different{other};
    CHECK(resource.is_equal(same) && !resource.is_equal(different));
    CHECK(!resource.is_equal(*std::pmr::new_delete_resource()));
    std::pmr::unordered_map<int, std::pmr::string> names{&resource};
    for (int i = 0; i < 1000; i++)
        names.emplace(i, std::string(static_cast<size_t>(i % 100), 'x'));
    for (const auto &entry : names) {
        if (!is_of(&entry, heap)) CHECK(is_of(&entry, heap));
        if (entry.second.size() > 20 && !is_of(entry.second.data(), heap))
            CHECK(is_of(entry.second.data(), heap));
    }
    std::pmr::list<wide> wides{&resource};
    wides.emplace_back();
    CHECK((uintptr_t)&wides.front() % 256 == 0);
}

static void errors() {
    numalloc::heap heap;
    bool thrown = false;
    try {
        (void)heap.allocate((size_t)1 << 60);
    } catch (const std::bad_alloc &) {
        thrown = true;
    }
    CHECK(thrown);
    thrown = false;
    try {
        vector<long> much{heap};
        (void)much.get_allocator().allocate(SIZE_MAX / 4);
    } catch (const std::bad_array_new_length &) {
        thrown = true;
    }
    CHECK(thrown);
    thrown = false;
    try {
        numalloc_heap_options_t options{};
        options.place = NUMALLOC_HEAP_NODE;
        options.node = 4711;
        numalloc::heap bad{options};
    } catch (const std::system_error &error) {
        thrown = error.code().value() == EINVAL;
    }
    CHECK(thrown);
    numalloc::heap moved{std::move(heap)};
    CHECK(heap.get() == nullptr && moved.get() != nullptr);
    heap = std::move(moved);
    numalloc::heap::deallocate(heap.allocate(100));
}

int main() {
    check_begin();
    containers();
    resources();
    errors();
    return check_status();
}
