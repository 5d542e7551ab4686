# libfabric is loaded at run time (common/fabric/ofi/fabric_ofi_library.h): the build has its headers, and the
# versions of its symbols that the headers belong to.
#
# KVRAIL_LIBFABRIC_ROOT, of CMake or of the environment, is the prefix of another libfabric than the
# system's. Headers and library then come from that prefix alone: pkg-config and CMake's search would go
# on to the system's where something is missing.
#
# Sets KVRAIL_LIBFABRIC_FILE, the shared library, KVRAIL_LIBFABRIC_VERSION, that of the headers, KVRAIL_LIBFABRIC_FROM,
# the prefix, and KVRAIL_LIBFABRIC_SYMBOLS; the target is kvr_libfabric.

set(libfabric_oldest ${KVRAIL_OLDEST_libfabric})
set(KVRAIL_LIBFABRIC_FULL 1.20) # an older one lacks what provider efa and dmabufs of GPUs need

# Kept in the cache: a later run of cmake, without that environment, takes the same.
if("${KVRAIL_LIBFABRIC_ROOT}" STREQUAL "" AND NOT "$ENV{KVRAIL_LIBFABRIC_ROOT}" STREQUAL "")
    set(KVRAIL_LIBFABRIC_ROOT "$ENV{KVRAIL_LIBFABRIC_ROOT}" CACHE PATH "" FORCE)
endif()

function(kvr_libfabric_refuse reason)
    message(FATAL_ERROR "KVRAIL_LIBFABRIC_ROOT is '${KVRAIL_LIBFABRIC_ROOT}', but ${reason}. "
        "Set it to the prefix where libfabric ${libfabric_oldest} or later is installed with its headers, "
        "or to nothing for the system's.")
endfunction()

# Sets include, file and KVRAIL_LIBFABRIC_VERSION of the libfabric in that prefix.
function(kvr_libfabric_of prefix)
    if(NOT IS_ABSOLUTE "${prefix}" OR NOT IS_DIRECTORY "${prefix}")
        kvr_libfabric_refuse("there is no such folder")
    endif()
    set(header ${prefix}/include/rdma/fabric.h)
    if(NOT EXISTS ${header})
        kvr_libfabric_refuse("it has no include/rdma/fabric.h")
    endif()
    set(numbers)
    foreach(part IN ITEMS MAJOR MINOR REVISION)
        file(STRINGS ${header} line REGEX "^#define[ \t]+FI_${part}_VERSION[ \t]+[0-9]+")
        string(REGEX REPLACE "^.*VERSION[ \t]+([0-9]+).*$" "\\1" number "${line}")
        list(APPEND numbers ${number})
    endforeach()
    list(JOIN numbers . number)
    if(NOT number MATCHES "^[0-9]+\\.[0-9]+\\.[0-9]+$")
        kvr_libfabric_refuse("its include/rdma/fabric.h names no version")
    elseif(number VERSION_LESS libfabric_oldest)
        kvr_libfabric_refuse("its headers are of libfabric ${number}")
    endif()
    foreach(folder IN ITEMS lib lib64 lib/${CMAKE_LIBRARY_ARCHITECTURE})
        if(EXISTS ${prefix}/${folder}/libfabric.so.1)
            set(include ${prefix}/include PARENT_SCOPE)
            set(file ${prefix}/${folder}/libfabric.so.1 PARENT_SCOPE)
            set(KVRAIL_LIBFABRIC_VERSION ${number} PARENT_SCOPE)
            return()
        endif()
    endforeach()
    kvr_libfabric_refuse("it has no libfabric.so.1 in lib or lib64")
endfunction()

if(KVRAIL_LIBFABRIC_ROOT)
    kvr_libfabric_of("${KVRAIL_LIBFABRIC_ROOT}")
    set(KVRAIL_LIBFABRIC_FROM ${KVRAIL_LIBFABRIC_ROOT})
    set(KVRAIL_LIBFABRIC_FILE ${file})
    get_filename_component(folder ${file} DIRECTORY)
    list(APPEND CMAKE_BUILD_RPATH ${folder})
    list(APPEND CMAKE_INSTALL_RPATH ${folder})
else()
    kvr_dependency(libfabric libfabric)
    set(include $<TARGET_PROPERTY:PkgConfig::libfabric,INTERFACE_INCLUDE_DIRECTORIES>)
    set(KVRAIL_LIBFABRIC_VERSION ${libfabric_VERSION})
    set(KVRAIL_LIBFABRIC_FROM ${libfabric_PREFIX})
    set(KVRAIL_LIBFABRIC_FILE ${pkgcfg_lib_libfabric_fabric})
endif()

set(KVRAIL_LIBFABRIC_FILE ${KVRAIL_LIBFABRIC_FILE} CACHE INTERNAL "") # tests/gpu/pack.py reads it there
execute_process(COMMAND ${CMAKE_NM} -D ${KVRAIL_LIBFABRIC_FILE} OUTPUT_VARIABLE symbols ERROR_QUIET)
set(KVRAIL_LIBFABRIC_SYMBOLS)
foreach(name IN ITEMS fi_dupinfo fi_fabric fi_freeinfo fi_getinfo fi_strerror fi_tostr fi_version)
    if(NOT symbols MATCHES " ${name}@@(FABRIC_[0-9.]+)")
        set(reason "${CMAKE_NM} -D ${KVRAIL_LIBFABRIC_FILE} shows no version of ${name}")
        if(KVRAIL_LIBFABRIC_ROOT)
            kvr_libfabric_refuse("${reason}")
        endif()
        message(FATAL_ERROR "${reason}")
    endif()
    list(APPEND KVRAIL_LIBFABRIC_SYMBOLS "KVR_VERSION_${name}=\"${CMAKE_MATCH_1}\"")
endforeach()

add_library(kvr_libfabric INTERFACE)
target_include_directories(kvr_libfabric SYSTEM INTERFACE ${include})
target_link_libraries(kvr_libfabric INTERFACE ${CMAKE_DL_LIBS})

message(STATUS "libfabric ${KVRAIL_LIBFABRIC_VERSION} from ${KVRAIL_LIBFABRIC_FROM}")
if(KVRAIL_LIBFABRIC_VERSION VERSION_LESS KVRAIL_LIBFABRIC_FULL)
    message(STATUS "libfabric below ${KVRAIL_LIBFABRIC_FULL}: no provider efa, and no dmabuf of a GPU for cards; "
        "KVRAIL_LIBFABRIC_ROOT takes a later one")
endif()
