# Language, warnings and sanitizers. Warnings are an INTERFACE target, so that generated code goes
# without them; sanitizers are global, because instrumenting half of a program finds half of its bugs.

set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)

get_property(multi_config GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
if(NOT multi_config AND NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Debug or RelWithDebInfo" FORCE)
endif()
# Without CMake's -DNDEBUG: assertions hold in release builds too.
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O2 -g")
set(CMAKE_C_FLAGS_RELEASE "-O2")

add_compile_definitions(_GNU_SOURCE)
if(KVRAIL_SHORT_SLOTS)
    add_compile_definitions(KVRAIL_SHORT_SLOTS=1)
endif()
if(KVRAIL_MUTANTS)
    add_compile_definitions(KVRAIL_MUTANTS=1)
endif()

add_library(kvr_warnings INTERFACE)
target_compile_options(kvr_warnings INTERFACE
    -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wvla
    -Wformat=2 -Wundef -Wwrite-strings
    $<$<BOOL:${KVRAIL_WERROR}>:-Werror>)

if(KVRAIL_SANITIZE STREQUAL "address")
    set(sanitizers -fsanitize=address,undefined -fno-sanitize-recover=all)
elseif(KVRAIL_SANITIZE STREQUAL "thread")
    set(sanitizers -fsanitize=thread)
    # It does not see what a fence orders. What ours order are atomics, which it needs no fence for.
    if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
        add_compile_options(-Wno-tsan)
    endif()
elseif(KVRAIL_SANITIZE STREQUAL "fuzzer")
    if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
        message(FATAL_ERROR "KVRAIL_SANITIZE=fuzzer needs clang, but the compiler is ${CMAKE_C_COMPILER}")
    endif()
    # Libraries are instrumented too, or the fuzzer is blind inside them; its main() comes with
    # kvr_fuzzer().
    set(sanitizers -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)
elseif(KVRAIL_SANITIZE)
    message(FATAL_ERROR "KVRAIL_SANITIZE is '${KVRAIL_SANITIZE}'; allowed: address, thread, fuzzer")
endif()
if(KVRAIL_SANITIZE)
    add_compile_options(${sanitizers} -fno-omit-frame-pointer)
    add_link_options(${sanitizers})
endif()
