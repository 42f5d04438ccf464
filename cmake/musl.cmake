# musl.cmake - NUMALLOC_LIBC=musl: the libraries for programs of musl, by Debian's musl-gcc.
#
#   cmake -G Ninja -S . -B build/musl -DNUMALLOC_LIBC=musl
#
# Included before project(), which needs the compiler.
set(CMAKE_C_COMPILER musl-gcc CACHE STRING "the compiler for musl")
foreach(option IN ITEMS DUMP TESTS)
    set(NUMALLOC_${option} OFF CACHE STRING "not for musl" FORCE)
endforeach()

execute_process(COMMAND gcc -print-multiarch OUTPUT_VARIABLE multiarch
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
# The libraries have the names of those for glibc, so they have a directory of their own.
string(REPLACE gnu musl musl_triplet "${multiarch}")
set(CMAKE_INSTALL_LIBDIR lib/${musl_triplet} CACHE PATH "where libraries are installed")

# Of the system's headers, which are another C library's, those of the kernel and zlib's alone.
set(numalloc_musl_include ${CMAKE_BINARY_DIR}/musl-include)
file(MAKE_DIRECTORY ${numalloc_musl_include})
foreach(name IN ITEMS linux asm asm-generic zlib.h zconf.h)
    foreach(place IN ITEMS /usr/include/${multiarch} /usr/include)
        if(EXISTS ${place}/${name})
            file(CREATE_LINK ${place}/${name} ${numalloc_musl_include}/${name} SYMBOLIC)
            break()
        endif()
    endforeach()
endforeach()
add_compile_options("SHELL:-idirafter ${numalloc_musl_include}")
# musl-gcc's specifications leave it out, and then no stack can be walked.
add_link_options(-Wl,--eh-frame-hdr)
