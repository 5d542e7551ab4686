# Libraries that Debian 12 packages, each as the imported target PkgConfig::<name>.
#
# KVRAIL_LIBFABRIC_ROOT puts another libfabric before the system's; what it can do is asked at build
# time by feature checks and at run time from fi_version().

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)

function(kvr_dependency name module)
    pkg_check_modules(${name} REQUIRED IMPORTED_TARGET GLOBAL ${module})
endfunction()

# What was found is kept in the cache: another root is looked at anew.
if(NOT "${KVRAIL_LIBFABRIC_ROOT}" STREQUAL "${KVRAIL_LIBFABRIC_ROOT_LAST}")
    unset(__pkg_config_checked_libfabric CACHE)
    unset(pkgcfg_lib_libfabric_fabric CACHE)
endif()
set(KVRAIL_LIBFABRIC_ROOT_LAST "${KVRAIL_LIBFABRIC_ROOT}" CACHE INTERNAL "")
if(KVRAIL_LIBFABRIC_ROOT)
    file(GLOB found
        ${KVRAIL_LIBFABRIC_ROOT}/lib/pkgconfig/libfabric.pc
        ${KVRAIL_LIBFABRIC_ROOT}/lib64/pkgconfig/libfabric.pc
        ${KVRAIL_LIBFABRIC_ROOT}/lib/*/pkgconfig/libfabric.pc)
    if(NOT found)
        message(FATAL_ERROR "KVRAIL_LIBFABRIC_ROOT is '${KVRAIL_LIBFABRIC_ROOT}', but no libfabric is "
            "installed there: it has no lib/pkgconfig/libfabric.pc, nor one in lib64")
    endif()
    list(GET found 0 found)
    cmake_path(GET found PARENT_PATH found)
    set(saved_path "$ENV{PKG_CONFIG_PATH}")
    set(ENV{PKG_CONFIG_PATH} "${found}:${saved_path}")
    kvr_dependency(libfabric "libfabric>=1.17")
    set(ENV{PKG_CONFIG_PATH} "${saved_path}")
    list(APPEND CMAKE_BUILD_RPATH ${libfabric_LIBRARY_DIRS} ${libfabric_LIBDIR})
    list(APPEND CMAKE_INSTALL_RPATH ${libfabric_LIBRARY_DIRS} ${libfabric_LIBDIR})
else()
    kvr_dependency(libfabric "libfabric>=1.17")
endif()

# It is loaded at run time (common/fabric/ofi/fabric_ofi_library.h): the build has its headers and the
# versions of its symbols that the headers belong to.
add_library(kvr_libfabric INTERFACE)
target_include_directories(kvr_libfabric SYSTEM INTERFACE
    $<TARGET_PROPERTY:PkgConfig::libfabric,INTERFACE_INCLUDE_DIRECTORIES>)
target_link_libraries(kvr_libfabric INTERFACE ${CMAKE_DL_LIBS})
execute_process(COMMAND ${CMAKE_NM} -D ${pkgcfg_lib_libfabric_fabric} OUTPUT_VARIABLE symbols)
set(KVRAIL_LIBFABRIC_SYMBOLS)
foreach(name IN ITEMS fi_dupinfo fi_fabric fi_freeinfo fi_getinfo fi_strerror fi_tostr fi_version)
    if(NOT symbols MATCHES " ${name}@@(FABRIC_[0-9.]+)")
        message(FATAL_ERROR "${CMAKE_NM} -D ${pkgcfg_lib_libfabric_fabric} shows no version of ${name}")
    endif()
    list(APPEND KVRAIL_LIBFABRIC_SYMBOLS "KVR_VERSION_${name}=\"${CMAKE_MATCH_1}\"")
endforeach()

kvr_dependency(libuv "libuv>=1.44")
kvr_dependency(protobuf-c "libprotobuf-c>=1.4")
kvr_dependency(jansson "jansson>=2.13")
kvr_dependency(xxhash "libxxhash>=0.8")
kvr_dependency(inih inih)
kvr_dependency(sqlite3 "sqlite3>=3.37")
kvr_dependency(libmicrohttpd "libmicrohttpd>=0.9.75")
kvr_dependency(hwloc "hwloc>=2.0")
kvr_dependency(libcurl libcurl)
if(BUILD_TESTING)
    kvr_dependency(cmocka "cmocka>=1.1.5")
endif()
find_program(KVRAIL_PROTOC_C NAMES protoc-c REQUIRED)

message(STATUS "libfabric ${libfabric_VERSION} from ${libfabric_PREFIX}")
if(libfabric_VERSION VERSION_LESS 1.20)
    message(STATUS "libfabric below 1.20: no provider efa, and no dmabuf of a GPU for cards; "
        "KVRAIL_LIBFABRIC_ROOT takes a later one")
endif()
