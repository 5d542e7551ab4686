# Libraries that Debian 12 packages, each as the imported target PkgConfig::<name>.

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)

function(kvr_dependency name module)
    pkg_check_modules(${name} REQUIRED IMPORTED_TARGET GLOBAL ${module})
endfunction()

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
