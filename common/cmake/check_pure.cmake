# Fails when a static library that must be pure, or any object that a program would link because of it,
# calls a function that is not on the list below. Variables: LD, NM, LIBRARY; LINKED, the static libraries
# that it links; BEYOND, those of them where the check stops; ALLOW, functions that this library may
# call besides; WORK, an object file that this script writes.
cmake_minimum_required(VERSION 3.22)

# No clock, heap, thread, socket, file, environment or random number is among these. clang calls bcmp()
# where memcmp() only has to find out whether bytes are equal. nettle's work on memory of the caller.
set(pure_functions
    bcmp memchr memcmp memcpy memmove memset strchr strcmp strcspn strlen strncmp strnlen strrchr strstr
    snprintf vsnprintf qsort bsearch strerror_r __xpg_strerror_r
    __assert_fail __errno_location __stack_chk_fail _GLOBAL_OFFSET_TABLE_
    XXH3_64bits_withSeed explicit_bzero
    nettle_hmac_sha256_set_key nettle_hmac_sha256_update nettle_hmac_sha256_digest nettle_memeql_sec
    ${ALLOW})

# A relocatable link takes from the libraries exactly the objects that a program's link would.
execute_process(
    COMMAND ${LD} -r -o ${WORK} --whole-archive ${LIBRARY} --no-whole-archive
        --start-group ${LINKED} --end-group
    RESULT_VARIABLE failed ERROR_VARIABLE errors)
if(failed)
    message(FATAL_ERROR "${LIBRARY} cannot be linked for the check: ${errors}")
endif()

# symbols(<variable> <nm's option> FILE…)
function(symbols variable option)
    execute_process(COMMAND ${NM} ${option} --format=posix ${ARGN}
        OUTPUT_VARIABLE text RESULT_VARIABLE failed ERROR_VARIABLE errors)
    if(failed)
        message(FATAL_ERROR "${NM}: ${errors}")
    endif()
    string(REGEX MATCHALL "[^\n]+" lines "${text}")
    list(FILTER lines EXCLUDE REGEX ":$")
    list(TRANSFORM lines REPLACE "[ @].*$" "")
    set(${variable} ${lines} PARENT_SCOPE)
endfunction()

set(boundary)
if(BEYOND)
    symbols(boundary --defined-only ${BEYOND})
endif()
symbols(called --undefined-only ${WORK})
file(REMOVE ${WORK})
foreach(symbol IN LISTS called)
    if(symbol MATCHES "^protobuf_c_")
        continue() # it computes; its memory is the caller's
    endif()
    if(symbol MATCHES "^__aarch64_(cas|swp|ldadd|ldclr|ldeor|ldset)[0-9]+_(relax|acq|rel|acq_rel|sync)$")
        continue() # an atomic access: gcc's run time chooses the instruction of this processor
    endif()
    string(REGEX REPLACE "^__(.*)_chk$" "\\1" plain ${symbol})
    if(NOT plain IN_LIST pure_functions AND NOT symbol IN_LIST boundary)
        message(SEND_ERROR "${LIBRARY} must be pure, but it or an object that it links calls ${symbol}()")
    endif()
endforeach()
