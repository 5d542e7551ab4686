# The helpers that every folder's CMakeLists.txt is made of. DEPENDS takes targets by their full name
# (kvr_base, PkgConfig::libuv). SOURCES of modules and programs are relative to their folder; those
# of tests and fuzzers are relative to tests/, so that a module's list names its own tests.

function(kvr_common_properties target)
    target_link_libraries(${target} PRIVATE kvr_warnings)
    target_include_directories(${target} PUBLIC
        ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/common ${KVRAIL_GENERATED_DIR})
    if(KVRAIL_HAVE_CUDA)
        target_compile_definitions(${target} PRIVATE KVRAIL_HAVE_CUDA=1)
    endif()
    add_dependencies(${target} kvr_version)
endfunction()

# kvr_module(<name> SOURCES file.c… [DEPENDS target…])
# The static library kvr_<name>.
function(kvr_module name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPENDS")
    add_library(kvr_${name} STATIC ${arg_SOURCES})
    kvr_common_properties(kvr_${name})
    target_link_libraries(kvr_${name} PUBLIC ${arg_DEPENDS})
endfunction()

# kvr_kernel(<module> <file.cu> <image.c> [header…])
# The kernels of file.cu in image.c (device/kernel_image.h) of the module of this folder, compiled for
# KVRAIL_GPUS. Without nvcc there is none in it.
function(kvr_kernel module file image)
    if(NOT KVRAIL_HAVE_CUDA OR NOT KVRAIL_NVCC)
        return()
    endif()
    get_filename_component(kernel ${file} NAME)
    set(binary ${CMAKE_CURRENT_BINARY_DIR}/${kernel}.fatbin)
    add_custom_command(OUTPUT ${binary}
        COMMAND ${KVRAIL_NVCC} -fatbin -O3 --Werror all-warnings ${KVRAIL_GPUS}
            -o ${binary} ${CMAKE_CURRENT_SOURCE_DIR}/${file}
        DEPENDS ${file} ${ARGN}
        COMMENT "nvcc ${file}" VERBATIM)
    add_custom_target(kernel_${kernel} DEPENDS ${binary})
    add_dependencies(kvr_${module} kernel_${kernel})
    set_source_files_properties(${image} PROPERTIES
        OBJECT_DEPENDS ${binary} COMPILE_DEFINITIONS "KVR_KERNEL_FILE=\"${binary}\"")
endfunction()

# kvr_program(<name> SOURCES main.c… [DEPENDS target…])
# The executable <name> in bin/, installed.
function(kvr_program name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPENDS")
    add_executable(${name} ${arg_SOURCES})
    kvr_common_properties(${name})
    target_link_libraries(${name} PRIVATE ${arg_DEPENDS})
    file(RELATIVE_PATH up /prefix/${CMAKE_INSTALL_BINDIR} /prefix/${CMAKE_INSTALL_LIBDIR})
    set(rpath $ORIGIN/${up} ${CMAKE_INSTALL_RPATH})
    set_target_properties(${name} PROPERTIES INSTALL_RPATH "${rpath}")
    install(TARGETS ${name} RUNTIME)
endfunction()

# kvr_service(<unit> <example.ini>)
# Installs <unit>.in for systemd and the example of its configuration. The unit is written when it is
# installed: only then is the prefix known.
function(kvr_service unit example)
    install(CODE "
        set(KVRAIL_BIN_DIR \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}\")
        set(KVRAIL_DOC_DIR \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DOCDIR}\")
        configure_file(\"${CMAKE_CURRENT_SOURCE_DIR}/${unit}.in\"
            \"${CMAKE_CURRENT_BINARY_DIR}/${unit}\" @ONLY)")
    install(FILES "${CMAKE_CURRENT_BINARY_DIR}/${unit}" DESTINATION lib/systemd/system)
    install(FILES ${example} DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)
endfunction()

# kvr_protobuf(<name> <path below common/, e.g. wire/kvrail.proto> [IMPORTS path…] [DEPENDS target…])
# The static library kvr_<name> of protoc-c's output; include it as "wire/kvrail.pb-c.h". DEPENDS are
# the libraries of the schemas that it imports.
function(kvr_protobuf name proto)
    cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "IMPORTS;DEPENDS")
    list(TRANSFORM arg_IMPORTS PREPEND ${PROJECT_SOURCE_DIR}/common/)
    string(REGEX REPLACE "\\.proto$" ".pb-c" base ${proto})
    set(generated ${KVRAIL_GENERATED_DIR}/${base}.c ${KVRAIL_GENERATED_DIR}/${base}.h)
    add_custom_command(OUTPUT ${generated}
        COMMAND ${CMAKE_COMMAND} -E make_directory ${KVRAIL_GENERATED_DIR}
        COMMAND ${KVRAIL_PROTOC_C} --c_out=${KVRAIL_GENERATED_DIR}
            --proto_path=${PROJECT_SOURCE_DIR}/common ${PROJECT_SOURCE_DIR}/common/${proto}
        DEPENDS ${PROJECT_SOURCE_DIR}/common/${proto} ${arg_IMPORTS}
        COMMENT "protoc-c ${proto}" VERBATIM)
    add_library(kvr_${name} STATIC ${generated})
    target_include_directories(kvr_${name} SYSTEM PUBLIC ${KVRAIL_GENERATED_DIR})
    target_link_libraries(kvr_${name} PUBLIC ${arg_DEPENDS} PkgConfig::protobuf-c)
endfunction()

# What a sanitizer's run time is told. Libraries that are not ours are not instrumented: ThreadSanitizer
# sees only half of what they do, and what they do among themselves is ignored.
set(support ${PROJECT_SOURCE_DIR}/tests/support)
set(KVRAIL_TEST_ENVIRONMENT
    KVRAIL_BIN_DIR=${CMAKE_RUNTIME_OUTPUT_DIRECTORY}
    KVRAIL_ROOT_DIR=${PROJECT_SOURCE_DIR}
    KVRAIL_SANITIZE=${KVRAIL_SANITIZE}
    KVRAIL_TIME_SCALE=${KVRAIL_TIMEOUT_SCALE}00)
if(KVRAIL_SANITIZE STREQUAL "thread")
    list(APPEND KVRAIL_TEST_ENVIRONMENT
        "TSAN_OPTIONS=ignore_noninstrumented_modules=1:second_deadlock_stack=1:suppressions=${support}/tsan.supp")
elseif(KVRAIL_SANITIZE)
    list(APPEND KVRAIL_TEST_ENVIRONMENT
        "ASAN_OPTIONS=strict_string_checks=1:detect_stack_use_after_return=1"
        "LSAN_OPTIONS=suppressions=${support}/lsan.supp:print_suppressions=0"
        "UBSAN_OPTIONS=print_stacktrace=1")
endif()

# Timeout, labels and environment that all tests share. Exit status 77 means skipped. Tests with faults and
# benchmarks wait for times: one of them runs at a time, first, while the others fill the second core.
function(kvr_test_properties name timeout serial alone labels environment)
    if(NOT timeout)
        set(timeout 120)
    endif()
    math(EXPR timeout "${timeout} * ${KVRAIL_TIMEOUT_SCALE}")
    string(REGEX REPLACE "\\..*$" "" kind ${name})
    set_tests_properties(${name} PROPERTIES
        TIMEOUT ${timeout}
        SKIP_RETURN_CODE 77
        RUN_SERIAL ${alone}
        LABELS "${kind};${labels}"
        ENVIRONMENT "${KVRAIL_TEST_ENVIRONMENT};${environment}")
    if(serial)
        set_tests_properties(${name} PROPERTIES RESOURCE_LOCK times COST 1000)
    endif()
endfunction()

# kvr_test_sources(<variable> SOURCES file.c… DEPENDS target…)
# Sources of a test, by their paths in tests/. A file of support/ is compiled once, with the modules of the
# first test that names it, and its object is in each of its tests.
function(kvr_test_sources variable)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPENDS")
    set(sources)
    foreach(source IN LISTS arg_SOURCES)
        if(source MATCHES "^support/(.*)\\.c$")
            set(object support.${CMAKE_MATCH_1})
            if(NOT TARGET ${object})
                add_library(${object} OBJECT ${PROJECT_SOURCE_DIR}/tests/${source})
                kvr_common_properties(${object})
                target_link_libraries(${object} PRIVATE ${arg_DEPENDS} PkgConfig::cmocka)
            endif()
            list(APPEND sources $<TARGET_OBJECTS:${object}>)
        else()
            list(APPEND sources ${PROJECT_SOURCE_DIR}/tests/${source})
        endif()
    endforeach()
    set(${variable} ${sources} PARENT_SCOPE)
endfunction()

# kvr_test(<ctest name, e.g. unit.plan> SOURCES unit/test_plan.c… [DEPENDS target…] [ARGS arg…]
#          [LABELS label…] [ENVIRONMENT NAME=value…] [TIMEOUT seconds, default 120] [SERIAL] [ALONE] [POSTGRES])
# A cmocka program; the target has the test's name. POSTGRES: with a server of PostgreSQL. SERIAL: never two of these at once; ALONE: nothing
# else runs. ctest labels: the part of the name before the first dot, and LABELS.
function(kvr_test name)
    if(NOT BUILD_TESTING)
        return()
    endif()
    cmake_parse_arguments(PARSE_ARGV 1 arg "SERIAL;ALONE;POSTGRES" "TIMEOUT" "SOURCES;DEPENDS;ARGS;LABELS;ENVIRONMENT")
    kvr_test_sources(sources SOURCES ${arg_SOURCES} DEPENDS ${arg_DEPENDS})
    set(through)
    if(arg_POSTGRES)
        set(through sh ${PROJECT_SOURCE_DIR}/tests/support/postgres.sh)
    endif()
    add_executable(${name} ${sources})
    set_target_properties(${name} PROPERTIES
        RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
    kvr_common_properties(${name})
    target_link_libraries(${name} PRIVATE ${arg_DEPENDS} PkgConfig::cmocka)
    add_test(NAME ${name} COMMAND ${through} $<TARGET_FILE:${name}> ${arg_ARGS})
    kvr_test_properties(${name} "${arg_TIMEOUT}" ${arg_SERIAL} ${arg_ALONE} "${arg_LABELS}" "${arg_ENVIRONMENT}")
endfunction()

# kvr_command_test(<ctest name> COMMAND program arg… [LABELS …] [ENVIRONMENT …] [TIMEOUT s] [SERIAL] [ALONE])
# Any command as a test; a target's name stands for its executable. The environment has
# KVRAIL_BIN_DIR (the built programs) and KVRAIL_ROOT_DIR (the source tree).
function(kvr_command_test name)
    if(NOT BUILD_TESTING)
        return()
    endif()
    cmake_parse_arguments(PARSE_ARGV 1 arg "SERIAL;ALONE" "TIMEOUT" "COMMAND;LABELS;ENVIRONMENT")
    add_test(NAME ${name} COMMAND ${arg_COMMAND})
    kvr_test_properties(${name} "${arg_TIMEOUT}" ${arg_SERIAL} ${arg_ALONE} "${arg_LABELS}" "${arg_ENVIRONMENT}")
endfunction()

# kvr_fuzzer(<name> SOURCES fuzz/fuzz_message.c… [DEPENDS target…])
# The test fuzz.<name> of an LLVMFuzzerTestOneInput. In the fuzz preset libFuzzer runs it for
# KVRAIL_FUZZ_SECONDS, beginning with tests/fuzz/corpus/<name>/; elsewhere it runs that corpus once.
# The target `fuzzers` builds them all.
add_custom_target(fuzzers)
function(kvr_fuzzer name)
    if(NOT BUILD_TESTING)
        return()
    endif()
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPENDS")
    if(NOT KVRAIL_SANITIZE STREQUAL "fuzzer")
        list(APPEND arg_SOURCES support/fuzz_driver.c)
    endif()
    kvr_test_sources(sources SOURCES ${arg_SOURCES} DEPENDS ${arg_DEPENDS})
    set(target fuzz.${name})
    set(corpus ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${name})
    add_executable(${target} ${sources})
    if(KVRAIL_SANITIZE STREQUAL "fuzzer")
        set(work ${PROJECT_BINARY_DIR}/fuzz/${name})
        file(MAKE_DIRECTORY ${work}/corpus)
        target_link_options(${target} PRIVATE -fsanitize=fuzzer)
        math(EXPR timeout "${KVRAIL_FUZZ_SECONDS} + 60")
        set(arguments -max_total_time=${KVRAIL_FUZZ_SECONDS} -timeout=10 -rss_limit_mb=2048
            -print_final_stats=1 -artifact_prefix=${work}/ ${work}/corpus)
    else()
        set(timeout 60)
        set(arguments)
    endif()
    if(EXISTS ${corpus})
        list(APPEND arguments ${corpus})
    endif()
    set_target_properties(${target} PROPERTIES
        RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
    kvr_common_properties(${target})
    target_link_libraries(${target} PRIVATE ${arg_DEPENDS})
    add_test(NAME ${target} COMMAND ${target} ${arguments})
    kvr_test_properties(${target} ${timeout} FALSE FALSE "" "")
    add_dependencies(fuzzers ${target})
endfunction()
