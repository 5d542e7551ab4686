#include "tools/bench/bench_cores.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/clock.h"

#define ROUND_TRIPS 10000

struct line {
    _Alignas(128) _Atomic int value;
    int core;
};

static bool pin(int core)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET((unsigned)core, &set);
    return pthread_setaffinity_np(pthread_self(), sizeof(set), &set) == 0;
}

/* Even numbers are ours, odd ones the other's. */
static void *answer(void *self)
{
    struct line *line = self;

    (void)pin(line->core);
    for (int i = 0; i < ROUND_TRIPS; i++) {
        while (atomic_load_explicit(&line->value, memory_order_acquire) != 2 * i + 1)
            ;
        atomic_store_explicit(&line->value, 2 * i + 2, memory_order_release);
    }
    return NULL;
}

static kvr_ns ask(struct line *line)
{
    kvr_ns start = 0;

    for (int i = 0; i < ROUND_TRIPS; i++) {
        if (i == 1)
            start = kvr_clock_now(); /* the first one waits for the thread to start */
        atomic_store_explicit(&line->value, 2 * i + 1, memory_order_release);
        while (atomic_load_explicit(&line->value, memory_order_acquire) != 2 * i + 2)
            ;
    }
    return kvr_clock_now() - start;
}

/* The first two cores of the set. */
static bool pick(const cpu_set_t *allowed, int cores[2])
{
    int found = 0;

    for (int core = 0; core < CPU_SETSIZE && found < 2; core++)
        if (CPU_ISSET((unsigned)core, allowed))
            cores[found++] = core;
    return found == 2;
}

double bench_core_round_trip_ns(void)
{
    static struct line line;
    cpu_set_t allowed;
    pthread_t other;
    int cores[2];
    kvr_ns took;

    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0 || !pick(&allowed, cores))
        return 0;
    atomic_store(&line.value, 0);
    line.core = cores[1];
    if (!pin(cores[0]) || pthread_create(&other, NULL, answer, &line) != 0)
        return 0;
    took = ask(&line);
    (void)pthread_join(other, NULL);
    (void)sched_setaffinity(0, sizeof(allowed), &allowed);
    return (double)took / (ROUND_TRIPS - 1);
}
