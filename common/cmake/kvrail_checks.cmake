# Checks that are part of every build: the layers (which folder may include which) and purity (the
# libraries that decide have no clock, socket, thread, file or heap).

add_custom_target(kvr_layers ALL
    COMMAND ${CMAKE_COMMAND} -DROOT=${PROJECT_SOURCE_DIR}
        -P ${CMAKE_CURRENT_LIST_DIR}/check_layers.cmake
    COMMENT "" VERBATIM)

# kvr_static_closure(<variable> target…): the static libraries of this build that the targets link.
function(kvr_static_closure variable)
    set(found)
    set(left ${ARGN})
    while(left)
        list(POP_FRONT left target)
        if(NOT TARGET ${target} OR target IN_LIST found)
            continue()
        endif()
        get_target_property(type ${target} TYPE)
        if(NOT type STREQUAL "STATIC_LIBRARY")
            continue()
        endif()
        list(APPEND found ${target})
        get_target_property(links ${target} INTERFACE_LINK_LIBRARIES)
        if(links)
            list(APPEND left ${links})
        endif()
    endwhile()
    set(${variable} ${found} PARENT_SCOPE)
endfunction()

function(kvr_pure_target target)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "BEYOND;ALLOW")
    kvr_static_closure(linked ${target})
    list(REMOVE_ITEM linked ${target} ${arg_BEYOND})
    set(files_linked ${linked})
    set(files_beyond ${arg_BEYOND})
    list(TRANSFORM files_linked REPLACE "(.+)" "$<TARGET_FILE:\\1>")
    list(TRANSFORM files_beyond REPLACE "(.+)" "$<TARGET_FILE:\\1>")
    set(stamp ${CMAKE_BINARY_DIR}/pure/${target})
    add_custom_command(OUTPUT ${stamp}.stamp
        COMMAND ${CMAKE_COMMAND} -DLD=${CMAKE_LINKER} -DNM=${CMAKE_NM} -DLIBRARY=$<TARGET_FILE:${target}>
            "-DLINKED=${files_linked}" "-DBEYOND=${files_beyond}" "-DALLOW=${arg_ALLOW}" -DWORK=${stamp}.o
            -P ${PROJECT_SOURCE_DIR}/common/cmake/check_pure.cmake
        COMMAND ${CMAKE_COMMAND} -E touch ${stamp}.stamp
        DEPENDS ${target} ${linked} ${arg_BEYOND} ${PROJECT_SOURCE_DIR}/common/cmake/check_pure.cmake
        COMMENT "" VERBATIM)
    add_custom_target(pure_${target} ALL DEPENDS ${stamp}.stamp)
endfunction()

# kvr_pure(<target> [BEYOND library…] [ALLOW function…])
# Fails the build when the static library, or what a program would link because of it, calls a clock, a
# heap, a thread, a socket or a file. BEYOND: libraries where the check stops. ALLOW: functions that
# may be called besides. The reason for either stands beside the call.
function(kvr_pure target)
    if(KVRAIL_SANITIZE)
        return() # instrumentation brings calls of its own
    endif()
    file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/pure)
    # The libraries that it links may be declared later.
    cmake_language(EVAL CODE
        "cmake_language(DEFER DIRECTORY [[${PROJECT_SOURCE_DIR}]] CALL kvr_pure_target ${ARGV})")
endfunction()
