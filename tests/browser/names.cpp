// names.cpp - names that are hard to show: templates, overloads, lambdas, functions of one name,
// markup, and a stack of more than 4,000 frames.
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

static void *kept[16];

// Templates whose whole name has no room in a cell.
template <class Key, class Value, class Compare = std::less<Key>> struct a_table_of_everything {
    __attribute__((noinline)) void insert_row(int i) {
        kept[i] = malloc(100000);
    }
};

// Functions of one name: by class, by parameters.
struct first_class {
    static void setup() {
        kept[2] = malloc(20000);
    }
};
void setup(int);
void setup(long);
void setup(int) {
    kept[3] = malloc(30000);
}
void setup(long) {
    kept[4] = malloc(40000);
}

static void twice(int i) {
    kept[i] = malloc(60000);
}
static void one_caller() {
    twice(5);
}
static void other_caller() {
    twice(6);
}

extern "C" void markup() __asm__("\"a<script>document.title='taken'</script>&amp;\"");
void markup() {
    kept[7] = malloc(70000);
}

// The recorder follows so many frames as allocate on the way.
static int deep(int depth) {
    static void *step[256];
    if (depth % 20 == 0) step[depth / 20] = malloc(800);
    return depth == 0 || step[0] != nullptr ? 0 : deep(depth - 1) + 1;
}

int main() {
    a_table_of_everything<std::string, std::vector<std::map<std::string, int>>> table;
    table.insert_row(1);
    first_class::setup();
    setup(1);
    setup(1L);
    one_caller();
    other_caller();
    markup();
    [](int i) { kept[i] = malloc(80000); }(9);
    return deep(5000) == 0;
}
