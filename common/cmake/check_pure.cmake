# Fails when a static library that must be pure refers to something of the outside world.
cmake_minimum_required(VERSION 3.25)

set(forbidden malloc calloc realloc free posix_memalign aligned_alloc mmap
    clock_gettime gettimeofday time nanosleep usleep kvr_clock_now kvr_clock_wall
    getrandom rand random kvr_random_u64 getenv
    socket send recv sendmsg recvmsg connect accept poll epoll_wait
    open read write fopen fprintf printf puts fputs
    pthread_create pthread_mutex_lock uv_run)
execute_process(COMMAND ${NM} --undefined-only --format=posix ${LIBRARY}
    OUTPUT_VARIABLE symbols RESULT_VARIABLE failed ERROR_QUIET)
if(failed)
    message(FATAL_ERROR "${NM} cannot read ${LIBRARY}")
endif()
string(REGEX MATCHALL "[^\n]+" symbols "${symbols}")
foreach(line IN LISTS symbols)
    string(REGEX REPLACE "[ @].*$" "" symbol "${line}")
    if(symbol IN_LIST forbidden)
        message(SEND_ERROR "${LIBRARY} must be pure, but calls ${symbol}()")
    endif()
endforeach()
