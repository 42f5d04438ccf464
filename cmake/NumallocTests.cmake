# NumallocTests.cmake - how tests are declared; included by tests/CMakeLists.txt.
#
# Every test has a label, which says what it is and where it runs:
#   unit      Criterion, one executable a file            (release and asan)
#   conform   C and C++ programs that hold malloc to its promises (release, asan and tsan)
#   fuzz      hostile files, calls, options and stacks    (asan)
#   programs  real programs with the library preloaded    (release)
#   access    access profiles, recorded here and read back (release)
#   lab       the library in virtual NUMA machines        (release)
#   package   the built library and the install tree      (release)
#   lint      the form of the sources, by clang-format    (release)
# and a timeout, so that a deadlock is a failure and not a hang: ten times what an idle machine takes, and no less than
# five minutes, since others may be busy. Beside it there may be the label
#   quick     also in ./test.sh --quick                   (release)
# Tests of the label nightly are those of scripts/nightly.sh: ctest knows them with `-C nightly` only.

# Test executables stay out of build/<preset>/, which holds what users get.
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)

# numalloc_unit_tests(FOLDER LIBRARY...): the unit tests of this folder of the sources, tests/FOLDER/**/test_*.c,
# but for those named in not_here: each an executable with Criterion and the libraries. Of an archive
# it has what it calls, and not what it defines itself. unit_arguments_NAME: more arguments of a test.
function(numalloc_unit_tests folder)
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/${folder}/test_*.c)
    foreach(source IN LISTS sources)
        cmake_path(GET source STEM name)
        if(name IN_LIST not_here)
            continue()
        endif()
        add_executable(${name} ${source})
        target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
        target_link_libraries(${name} PRIVATE ${ARGN} PkgConfig::CRITERION Threads::Threads)
        # The checks themselves take longer to compile than to run. (What they check is in the libraries,
        # which are compiled as ever; only inline functions of headers are not optimised here.)
        target_compile_options(${name} PRIVATE -O0)
        # One test at a time: ctest does the parallel part, and its timeouts must mean something.
        add_test(NAME unit.${name} COMMAND ${name} --jobs 1 ${unit_arguments_${name}})
        set_tests_properties(unit.${name} PROPERTIES LABELS unit TIMEOUT 600)
        # Some tests expect a SIGSEGV: that it arrives as a signal, and not as a report. What is leaked is
        # looked for in the nightly script: that is a third of the time of each test's process.
        if(NUMALLOC_SANITIZE MATCHES "address")
            set(usual handle_segv=0:allocator_may_return_null=1:detect_stack_use_after_return=0)
            set_tests_properties(unit.${name} PROPERTIES ENVIRONMENT "ASAN_OPTIONS=${usual}:detect_leaks=0")
            numalloc_nightly_test(lsan.${name} 300 ${name} --jobs 1)
            set_tests_properties(nightly.lsan.${name} PROPERTIES ENVIRONMENT "ASAN_OPTIONS=${usual}")
        endif()
    endforeach()
endfunction()

# numalloc_missing_test(LABEL.NAME REASON): a test that is not built here, and so is skipped.
function(numalloc_missing_test name reason)
    add_test(NAME ${name} COMMAND sh -c "echo 'skipped: ${reason}'; exit 77")
    string(REGEX MATCH "^[a-z]+" label ${name})
    set_tests_properties(${name} PROPERTIES LABELS ${label} SKIP_RETURN_CODE 77)
endfunction()

# numalloc_nightly_test(NAME SECONDS COMMAND [ARGUMENT...]): the test nightly.NAME. It proves what a test
# of ./test.sh proves, at its full size; the scripts of tests/programs see TEST_SCALE=full.
function(numalloc_nightly_test name seconds)
    add_test(NAME nightly.${name} CONFIGURATIONS nightly COMMAND ${ARGN})
    set_tests_properties(nightly.${name} PROPERTIES LABELS nightly TIMEOUT ${seconds}
        SKIP_RETURN_CODE 77 ENVIRONMENT TEST_SCALE=full)
endfunction()
