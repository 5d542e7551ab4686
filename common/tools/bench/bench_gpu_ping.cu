/* One thread that plays its half of a turn (bench_gpu_ping.h). */
#include "bench_gpu_ping.h"

static __device__ unsigned long long now_ns(void)
{
    unsigned long long now;

    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

static __device__ bool await(volatile unsigned long long *word, unsigned long long least)
{
    unsigned long long began = now_ns();

    while (*word < least)
        if (now_ns() - began > GPU_PING_LATE_NS)
            return false;
    return true;
}

extern "C" __global__ void gpu_ping(struct gpu_ping *ping)
{
    volatile unsigned long long *word = ping->word;
    unsigned long long first = *word, count = ping->count, began_ns = now_ns(), late = 0;
    long long began = clock64();

    for (unsigned long long i = 1; i <= count && late == 0; i++) {
        unsigned long long pause_began;
        long long sent;

        late = !await(ping->go, first + i);
        for (pause_began = now_ns(); now_ns() - pause_began < ping->pause_ns;)
            ;
        __threadfence_system();
        sent = clock64();
        *word = first + i;
        late |= !await(ping->reply, first + i);
        ping->took[i - 1] = (unsigned long long)(clock64() - sent);
    }
    ping->ticks = (unsigned long long)(clock64() - began);
    ping->ns = now_ns() - began_ns;
    ping->late = late;
    __threadfence_system();
    *(volatile unsigned long long *)ping->ended += 1;
}
