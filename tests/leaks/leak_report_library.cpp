/* leak_report_library.cpp - a library that loses a block of 77 bytes. */
namespace library {
struct Part {
    char bytes[77];
};

__attribute__((noinline)) Part *inner() {
    return new Part;
}
} // namespace library

extern "C" void lose_in_library() {
    __asm__ volatile("" : : "r"(library::inner()) : "memory");
}
