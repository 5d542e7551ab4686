/* The work of the kernel in bench_gpu_ping.cu, done by a thread of the host: for the substitutes of
 * a GPU, the emulated device and the driver of host memory that tests have. Its ticks are
 * nanoseconds. */
#ifndef KVR_TOOLS_BENCH_GPU_PING_HOST_H
#define KVR_TOOLS_BENCH_GPU_PING_HOST_H

#include <stdbool.h>

#include "base/clock.h"
#include "tools/bench/bench_gpu_ping.h"

static inline bool gpu_ping_host_await(unsigned long long *word, unsigned long long least)
{
    kvr_ns began = kvr_clock_now();

    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) < least)
        if (kvr_clock_now() - began > GPU_PING_LATE_NS)
            return false;
    return true;
}

static inline void gpu_ping_host_play(struct gpu_ping *ping)
{
    unsigned long long first = __atomic_load_n(ping->word, __ATOMIC_RELAXED);
    kvr_ns began = kvr_clock_now();
    bool late = false;

    for (unsigned long long i = 1; i <= ping->count && !late; i++) {
        kvr_ns sent;

        late = !gpu_ping_host_await(ping->go, first + i);
        for (sent = kvr_clock_now(); kvr_clock_now() - sent < ping->pause_ns;)
            ;
        sent = kvr_clock_now();
        __atomic_store_n(ping->word, first + i, __ATOMIC_RELEASE);
        late = !gpu_ping_host_await(ping->reply, first + i) || late;
        ping->took[i - 1] = kvr_clock_now() - sent;
    }
    ping->ticks = ping->ns = kvr_clock_now() - began;
    ping->late = late;
    __atomic_fetch_add(ping->ended, 1, __ATOMIC_RELEASE);
}

#endif
