# NumallocTests.cmake - how tests are declared; included by tests/CMakeLists.txt.
#
# Every test has a label, which says what it is and where it runs:
#   unit      Criterion, one executable a module          (release and asan)
#   conform   C and C++ programs that hold malloc to its promises (release, asan and tsan)
#   fuzz      hostile files, calls, options and stacks    (asan)
#   programs  real programs with the library preloaded    (release)
#   access    access profiles, recorded here and read back (release)
#   lab       the library in virtual NUMA machines        (release)
#   package   the built library and the install tree      (release)
#   lint      the form of the sources, by clang-format    (release)
# and a timeout, so that a deadlock is a failure and not a hang. Beside it there may be the label
#   quick     also in ./test.sh --quick                   (release)
# Tests of the label nightly are those of scripts/nightly.sh: ctest knows them with `-C nightly` only.

# Test executables stay out of build/<preset>/, which holds what users get.
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)

# numalloc_unit_test(NAME [LIBRARIES...]): builds NAME.c with Criterion and the libraries named.
# numalloc_static makes numalloc the malloc of the test process itself (except where
# NUMALLOC_PREFIX=ON), and gives access to hidden functions. unit_arguments_NAME: more arguments of the
# test.
function(numalloc_unit_test name)
    add_executable(${name} ${name}.c)
    target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
    target_link_libraries(${name} PRIVATE ${ARGN} PkgConfig::CRITERION Threads::Threads)
    # The checks themselves take longer to compile than to run. (What they check is in the libraries,
    # which are compiled as ever; only inline functions of headers are not optimised here.)
    target_compile_options(${name} PRIVATE -O0)
    # tests/CMakeLists.txt says why.
    if(NUMALLOC_SANITIZE MATCHES "thread")
        return()
    endif()
    # One test at a time: ctest does the parallel part, and its timeouts must mean something.
    add_test(NAME unit.${name} COMMAND ${name} --jobs 1 ${unit_arguments_${name}})
    set_tests_properties(unit.${name} PROPERTIES LABELS unit TIMEOUT 120)
    # Some tests expect a SIGSEGV: that it arrives as a signal, and not as a report. What is leaked is
    # looked for in the nightly script: that is a third of the time of each test's process.
    if(NUMALLOC_SANITIZE MATCHES "address")
        set(usual handle_segv=0:allocator_may_return_null=1)
        set_tests_properties(unit.${name} PROPERTIES ENVIRONMENT "ASAN_OPTIONS=${usual}:detect_leaks=0")
        numalloc_nightly_test(lsan.${name} 300 ${name} --jobs 1)
        set_tests_properties(nightly.lsan.${name} PROPERTIES ENVIRONMENT "ASAN_OPTIONS=${usual}")
    endif()
endfunction()

# numalloc_nightly_test(NAME SECONDS COMMAND [ARGUMENT...]): the test nightly.NAME. It proves what a test
# of ./test.sh proves, at its full size; the scripts of tests/programs see TEST_SCALE=full.
function(numalloc_nightly_test name seconds)
    add_test(NAME nightly.${name} CONFIGURATIONS nightly COMMAND ${ARGN})
    set_tests_properties(nightly.${name} PROPERTIES LABELS nightly TIMEOUT ${seconds}
        SKIP_RETURN_CODE 77 ENVIRONMENT TEST_SCALE=full)
endfunction()
