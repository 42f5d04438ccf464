# NumallocInstall.cmake - `cmake --install`: libraries, header, tools, pkg-config and CMake package.

include(CMakePackageConfigHelpers)
set(numalloc_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/numalloc)

install(TARGETS numalloc numalloc_static numalloc_instrument EXPORT numallocTargets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(NUMALLOC_DUMP)
    install(TARGETS numalloc_profile numalloc_profile_static
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
    install(TARGETS numalloc-dump RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(TARGETS numalloc-run numalloc-bench RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES
    ${PROJECT_SOURCE_DIR}/include/numalloc/numalloc.h
    ${PROJECT_SOURCE_DIR}/include/numalloc/modes.h
    ${PROJECT_SOURCE_DIR}/include/numalloc/deprecated.h
    ${PROJECT_SOURCE_DIR}/include/numalloc/heap.hpp
    ${PROJECT_SOURCE_DIR}/include/numalloc/instrument.h
    ${PROJECT_SOURCE_DIR}/include/numalloc/profile.h
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/numalloc)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/README.md
    ${PROJECT_SOURCE_DIR}/profiler/ship/grafana.json
    DESTINATION ${CMAKE_INSTALL_DOCDIR})

# Where gdb looks when it meets the library.
install(FILES ${PROJECT_SOURCE_DIR}/scripts/numalloc-gdb.py
    DESTINATION ${CMAKE_INSTALL_DATADIR}/gdb/auto-load${CMAKE_INSTALL_FULL_LIBDIR}
    RENAME libnumalloc.so.${PROJECT_VERSION}-gdb.py)

install(EXPORT numallocTargets NAMESPACE numalloc:: DESTINATION ${numalloc_cmake_dir})
configure_package_config_file(
    ${PROJECT_SOURCE_DIR}/cmake/numallocConfig.cmake.in ${PROJECT_BINARY_DIR}/numallocConfig.cmake
    INSTALL_DESTINATION ${numalloc_cmake_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/numallocConfigVersion.cmake
    COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/numallocConfig.cmake
    ${PROJECT_BINARY_DIR}/numallocConfigVersion.cmake DESTINATION ${numalloc_cmake_dir})

# The .pc file finds its prefix from its own place, so that an install tree may be moved.
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
    set(numalloc_pc_prefix ${CMAKE_INSTALL_PREFIX})
else()
    cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX
        BASE_DIRECTORY ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig OUTPUT_VARIABLE up)
    set(numalloc_pc_prefix "\${pcfiledir}/${up}")
endif()
foreach(name IN ITEMS libdir includedir)
    string(TOUPPER ${name} upper)
    cmake_path(ABSOLUTE_PATH CMAKE_INSTALL_${upper} BASE_DIRECTORY "\${prefix}" OUTPUT_VARIABLE numalloc_pc_${name})
endforeach()
foreach(name IN ITEMS numalloc numalloc-static)
    configure_file(${PROJECT_SOURCE_DIR}/cmake/${name}.pc.in ${PROJECT_BINARY_DIR}/${name}.pc @ONLY)
endforeach()
set(numalloc_pc_demangler "")
if(numalloc_demangler)
    set(numalloc_pc_demangler " -l${numalloc_demangler}")
endif()
configure_file(${PROJECT_SOURCE_DIR}/cmake/numalloc-profile.pc.in
    ${PROJECT_BINARY_DIR}/numalloc-profile.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/numalloc.pc ${PROJECT_BINARY_DIR}/numalloc-static.pc
    ${PROJECT_BINARY_DIR}/numalloc-profile.pc
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# What sends dumps to a profiling server (docs/fleet.md).
if(NUMALLOC_DUMP)
    install(PROGRAMS ${PROJECT_SOURCE_DIR}/profiler/ship/numalloc-ship
        DESTINATION ${CMAKE_INSTALL_BINDIR})
    # The unit has the whole path of its program, which `--prefix` decides.
    install(CODE "set(bindir \"${CMAKE_INSTALL_BINDIR}\")
        set(service_in \"${PROJECT_SOURCE_DIR}/profiler/ship/numalloc-ship.service.in\")")
    install(CODE [[
        cmake_path(SET prefix "${CMAKE_INSTALL_PREFIX}")
        cmake_path(ABSOLUTE_PATH prefix)
        cmake_path(ABSOLUTE_PATH bindir BASE_DIRECTORY "${prefix}")
        set(service "${CMAKE_INSTALL_PREFIX}/lib/systemd/system/numalloc-ship.service")
        message(STATUS "Installing: $ENV{DESTDIR}${service}")
        configure_file("${service_in}" "$ENV{DESTDIR}${service}" @ONLY)
        list(APPEND CMAKE_INSTALL_MANIFEST_FILES "${service}")]])
    install(FILES ${PROJECT_SOURCE_DIR}/profiler/ship/numalloc-ship.timer DESTINATION lib/systemd/system)
    install(FILES ${PROJECT_SOURCE_DIR}/docs/man/numalloc-ship.1
        DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()

# The manual, and the completion where the shells look for it (zsh: in /usr/local; Debian has another
# place for packages, debian/numalloc-tools.install).
install(FILES ${PROJECT_SOURCE_DIR}/docs/man/numalloc-dump.1 ${PROJECT_SOURCE_DIR}/docs/man/numalloc-bench.1
    ${PROJECT_SOURCE_DIR}/docs/man/numalloc-run.1
    DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${PROJECT_SOURCE_DIR}/docs/man/libnumalloc.3 DESTINATION ${CMAKE_INSTALL_MANDIR}/man3)
file(GLOB completions CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/scripts/completion/numalloc-*)
install(FILES ${completions} DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/scripts/completion/zsh/
    DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/scripts/completion/fish/
    DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)

# The loader finds a new library in its own folders only after ldconfig.
install(CODE "set(libdir \"${CMAKE_INSTALL_LIBDIR}\")")
install(CODE [[
    cmake_path(ABSOLUTE_PATH libdir BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}" NORMALIZE)
    find_program(ldconfig ldconfig PATHS /sbin /usr/sbin)
    if("$ENV{DESTDIR}" STREQUAL "" AND ldconfig)
        execute_process(COMMAND ${ldconfig} -NXv OUTPUT_VARIABLE folders ERROR_QUIET)
        string(FIND "\n${folders}" "\n${libdir}:" found)
        if(found GREATER -1)
            execute_process(COMMAND ${ldconfig} RESULT_VARIABLE failed)
            if(failed)
                message(WARNING "run ldconfig as root, or the loader does not find ${libdir}/libnumalloc.so.0")
            endif()
        endif()
    endif()]])
