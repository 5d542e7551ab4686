# base/version.h with KVRAIL_VERSION ("0.1.0" or "0.1.0+g1a2b3c4"), looked at in every build and
# rewritten only when it changed. Run as a script (-P) it does the work; included, it sets up the target.

if(CMAKE_SCRIPT_MODE_FILE)
    cmake_minimum_required(VERSION 3.22)
    execute_process(COMMAND git -C ${ROOT} describe --always --dirty --match v[0-9]*
        OUTPUT_VARIABLE describe ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
    set(text ${VERSION})
    if(NOT failed AND describe)
        if(describe MATCHES "^v(.*)$")
            set(text ${CMAKE_MATCH_1})
        else()
            set(text ${VERSION}+g${describe})
        endif()
    endif()
    file(CONFIGURE OUTPUT ${HEADER} NEWLINE_STYLE UNIX CONTENT
"/* Written by the build. */
#ifndef KVR_BASE_VERSION_H
#define KVR_BASE_VERSION_H

#define KVRAIL_VERSION \"${text}\"

#endif
")
    return()
endif()

set(KVRAIL_GENERATED_DIR ${PROJECT_BINARY_DIR}/generated)
add_custom_target(kvr_version
    COMMAND ${CMAKE_COMMAND} -DROOT=${PROJECT_SOURCE_DIR} -DVERSION=${PROJECT_VERSION}
        -DHEADER=${KVRAIL_GENERATED_DIR}/base/version.h -P ${CMAKE_CURRENT_LIST_FILE}
    BYPRODUCTS ${KVRAIL_GENERATED_DIR}/base/version.h
    COMMENT "" VERBATIM)
