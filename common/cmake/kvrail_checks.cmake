# Checks that are part of every build: the layers (who may include whom) and purity (what decides
# has no clock, socket, thread or heap).

add_custom_target(kvr_layers ALL
    COMMAND ${CMAKE_COMMAND} -DROOT=${PROJECT_SOURCE_DIR}
        -P ${CMAKE_CURRENT_LIST_DIR}/check_layers.cmake
    COMMENT "" VERBATIM)

# kvr_pure(kvr_kv)
# Fails the build when the static library calls a clock, a heap, a thread, a socket or a file.
function(kvr_pure target)
    if(KVRAIL_SANITIZE)
        return() # instrumentation brings calls of its own
    endif()
    add_custom_command(TARGET ${target} POST_BUILD
        COMMAND ${CMAKE_COMMAND} -DNM=${CMAKE_NM} -DLIBRARY=$<TARGET_FILE:${target}>
            -P ${PROJECT_SOURCE_DIR}/common/cmake/check_pure.cmake
        VERBATIM)
endfunction()
