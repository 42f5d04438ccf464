# NumallocFlags.cmake - compiler settings that hold for every target of the project.

set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON) # gnu17: __atomic builtins, TLS models, inline assembly
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# The libraries and the tools side by side in build/<preset>/, where LD_PRELOAD lines point. Tests
# set their own directory (cmake/NumallocTests.cmake).
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})

if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE RelWithDebInfo) # -O2 -g
endif()

# Both the shared and the static library are made from the same objects.
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

include_directories(${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
add_compile_definitions(_GNU_SOURCE)
# Some build systems always define it (Meson). off_t is of 64 bits in any case, and the C library then
# gives setrlimit, which is one of our entry points, another name.
add_compile_options(-U_FILE_OFFSET_BITS)
add_compile_options(-Wall -Wextra -Wconversion)
if(CMAKE_C_COMPILER_ID STREQUAL "Clang")
    add_compile_options(-Wno-enum-float-conversion) # enumerations without a name are constants here
endif()
if(NUMALLOC_WERROR)
    add_compile_options(-Werror)
endif()

# The compiler knows malloc: it may drop a malloc/free pair, or turn malloc + memset into calloc,
# which inside calloc is an endless recursion. Neither may happen in an allocator, in its benchmarks
# or in its tests.
foreach(function IN ITEMS malloc calloc realloc free memalign aligned_alloc posix_memalign valloc
        pvalloc reallocarray malloc_usable_size)
    add_compile_options(-fno-builtin-${function})
endforeach()

if(NUMALLOC_PREFIX)
    add_compile_definitions(NA_PREFIXED=1)
endif()
if(NOT NUMALLOC_NUMA)
    add_compile_definitions(NA_ONE_NODE=1) # alloc/core/machine/topology.h
endif()

if(NUMALLOC_SANITIZE)
    if(NOT NUMALLOC_PREFIX)
        message(FATAL_ERROR "NUMALLOC_SANITIZE=${NUMALLOC_SANITIZE} needs NUMALLOC_PREFIX=ON: "
            "the sanitizers replace malloc themselves")
    endif()
    add_compile_options(-fsanitize=${NUMALLOC_SANITIZE} -fno-omit-frame-pointer)
    add_link_options(-fsanitize=${NUMALLOC_SANITIZE})
    if(NUMALLOC_SANITIZE MATCHES "undefined")
        add_compile_options(-fno-sanitize-recover=undefined)
    endif()
endif()
