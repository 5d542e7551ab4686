/* The thread of a rail group: steps it, spins a bounded time after the last progress, then sleeps
 * on the rails' descriptors, its doorbell and the engines' doorbells. An idle group costs nothing.
 */
#ifndef KVR_RAIL_GROUP_THREAD_H
#define KVR_RAIL_GROUP_THREAD_H

#include "rail_group/rail_group.h"

struct kvr_group_thread;

struct kvr_group_thread_options {
    kvr_ns spin_ns; /* after the last progress; default 20 µs, 0 = never spin; beyond that default
                       the thread yields the core to other threads */
    kvr_ns blind_sleep_ns; /* sleep between polls while the user is expecting something and a rail
                              has no descriptor; default 50 µs */
    const int *cores;      /* to pin to; NULL: anywhere */
    uint32_t core_count;
    void (*notify)(
        void *self); /* any thread context: events are waiting for the loop (uv_async_send) */
    void *notify_self;
};

KVR_MUST_CHECK kvr_status kvr_group_thread_start(struct kvr_group *group,
                                                 const struct kvr_group_thread_options *options,
                                                 struct kvr_group_thread **ret_thread,
                                                 struct kvr_error *error);
/* Any thread: there is work for it; wakes the thread when it sleeps. */
void kvr_group_thread_kick(struct kvr_group_thread *thread);
/* Loop thread: an engine's eventfd to sleep on until unwatched. Every write wakes; it is never
 * read. fd stays the caller's. */
KVR_MUST_CHECK kvr_status kvr_group_thread_watch(struct kvr_group_thread *thread, int fd);
void kvr_group_thread_unwatch(struct kvr_group_thread *thread, int fd);
/* Joins it; it may still be kicked, by other groups' threads. */
void kvr_group_thread_end(struct kvr_group_thread *thread);
/* The same, and it is gone. */
void kvr_group_thread_stop(struct kvr_group_thread *thread);

struct kvr_group_thread_counters {
    uint64_t spin_ns, sleep_ns, steps, wakeups;
    uint64_t cpu_ns; /* 0: it has ended */
    bool asleep;     /* until there is work */
};
struct kvr_group_thread_counters kvr_group_thread_counters(const struct kvr_group_thread *thread);

#endif
