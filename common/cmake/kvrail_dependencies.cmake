# Libraries that Debian 12 packages, each as the imported target PkgConfig::<name>.

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)

# KVRAIL_OLDEST_<module> of each row.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/oldest.txt)
file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/oldest.txt rows REGEX "^[a-z]")
foreach(row IN LISTS rows)
    string(REGEX MATCH "^([a-z0-9-]+) +([0-9.]+)" row "${row}")
    set(KVRAIL_OLDEST_${CMAKE_MATCH_1} ${CMAKE_MATCH_2})
endforeach()

function(kvr_dependency name module)
    pkg_check_modules(${name} REQUIRED IMPORTED_TARGET GLOBAL "${module}>=${KVRAIL_OLDEST_${module}}")
endfunction()

kvr_dependency(libuv libuv)
kvr_dependency(protobuf-c libprotobuf-c)
kvr_dependency(jansson jansson)
kvr_dependency(xxhash libxxhash)
kvr_dependency(inih inih)
kvr_dependency(sqlite3 sqlite3)
kvr_dependency(libmicrohttpd libmicrohttpd)
kvr_dependency(zlib zlib)
kvr_dependency(gnutls gnutls)
kvr_dependency(nettle nettle)
kvr_dependency(libmnl libmnl)
kvr_dependency(hwloc hwloc)
kvr_dependency(libcurl libcurl)
if(BUILD_TESTING)
    kvr_dependency(cmocka cmocka)
endif()
find_program(KVRAIL_PROTOC_C NAMES protoc-c REQUIRED)
