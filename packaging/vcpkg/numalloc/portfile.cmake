# An overlay port: vcpkg install numalloc --overlay-ports=packaging/vcpkg. The sources are those of
# this checkout, or the folder that NUMALLOC_SOURCES names. The library alone: the tools need elfutils,
# which vcpkg has no port of.
if(DEFINED ENV{NUMALLOC_SOURCES})
    set(SOURCE_PATH "$ENV{NUMALLOC_SOURCES}")
else()
    get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
endif()

vcpkg_cmake_configure(
    SOURCE_PATH "${SOURCE_PATH}"
    OPTIONS -DNUMALLOC_TESTS=OFF -DNUMALLOC_DUMP=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(PACKAGE_NAME numalloc CONFIG_PATH lib/cmake/numalloc)
vcpkg_fixup_pkgconfig()
vcpkg_copy_tools(TOOL_NAMES numalloc-run numalloc-bench AUTO_CLEAN)
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
