/* One thread: step, spin a while, sleep.
 *
 * Falling asleep loses no work. The thread sets `asleep`, then asks the group, which checks its
 * rings, the user's words and every rail; only if all are empty the thread sleeps on the
 * descriptors. A sender writes its message first and reads `asleep` then. Both use an exchange on
 * the same word, so one of the two always sees the other. */
#include "rail_group/rail_group_thread.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define BLIND_SLEEP_DEFAULT (50 * KVR_US)
#define EVENTS_MAX          64
#define NAP_NS              (10 * KVR_MS)
#define OWN_NS              (20 * KVR_US) /* a thread that spins for longer yields its core */
#define SLEEP_MAX_NS        (3600 * KVR_S)

struct thread_counters {
    _Atomic uint64_t spin_ns, sleep_ns, steps, wakeups;
};

struct kvr_group_thread {
    struct kvr_group *group;
    struct kvr_group_thread_options options;
    cpu_set_t cores;
    pthread_t thread;
    clockid_t
        cpu_clock; /* of the thread; read by other threads only, as each reading is a system call */
    int epoll_fd, doorbell_fd;
    bool rung;                   /* edges are to be taken */
    int rail_fds[KVR_RAILS_MAX]; /* those in the epoll set */
    uint64_t recycles[KVR_RAILS_MAX];
    _Atomic bool asleep, stop;
    struct thread_counters counters;
};

static void count(_Atomic uint64_t *counter, uint64_t more)
{
    uint64_t value = atomic_load_explicit(counter, memory_order_relaxed);

    atomic_store_explicit(counter, value + more, memory_order_relaxed);
}

/* Doorbells are watched for edges and never read: every write is an edge. So a closed descriptor
 * cannot be read by mistake when its number names another file. The provider reads a rail's
 * descriptor. */
static int watch(struct kvr_group_thread *thread, int fd, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.fd = fd};

    return epoll_ctl(thread->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

/* A recycled rail has another descriptor, perhaps with the same number. The kernel removed the old
 * one when it was closed, so the new one is added. The old number may be an engine's doorbell now,
 * and is left alone. */
static void follow_rails(struct kvr_group_thread *thread)
{
    uint32_t first, count = kvr_group_rails(thread->group, &first);

    for (uint32_t i = first; i < first + count; i++) {
        uint64_t recycles = kvr_group_counters(thread->group, i).recycles;
        int fd = kvr_group_wait_fd(thread->group, i);

        if (fd == thread->rail_fds[i] && recycles == thread->recycles[i])
            continue;
        thread->rail_fds[i] = fd;
        thread->recycles[i] = recycles;
        if (fd >= 0)
            (void)watch(thread, fd, EPOLLIN);
    }
}

/* Short naps are exact. In a longer sleep a millisecond does not matter: there epoll_wait takes the
 * edges itself, which saves a call and a second wake-up. (epoll_pwait2 does both, but not every
 * kernel and sandbox has it.) */
static void doze(struct kvr_group_thread *thread, kvr_ns now, kvr_ns until)
{
    struct pollfd readable = {.fd = thread->epoll_fd, .events = POLLIN};
    kvr_ns left = until > now ? until - now : 0;
    struct timespec timeout = {.tv_sec = (time_t)(left / KVR_S), .tv_nsec = (long)(left % KVR_S)};
    struct epoll_event events[EVENTS_MAX];

    if (left < NAP_NS) {
        thread->rung = ppoll(&readable, 1, &timeout, NULL) > 0;
        return;
    }
    left = left < SLEEP_MAX_NS ? left : SLEEP_MAX_NS;
    (void)epoll_wait(thread->epoll_fd, events, EVENTS_MAX,
                     until == KVR_NEVER ? -1 : (int)(left / KVR_MS + 1));
}

/* Takes the edges of the doorbells. On waking, work comes first; the edges are taken before the
 * next sleep. A doorbell that rings later is heard, and the work of an earlier one is looked for
 * once more. */
static void hear(struct kvr_group_thread *thread)
{
    struct epoll_event events[EVENTS_MAX];

    if (thread->rung)
        (void)epoll_wait(thread->epoll_fd, events, EVENTS_MAX, 0);
    thread->rung = false;
}

/* Sleeps if nothing is to be done; returns the time of waking, or `now`. */
static kvr_ns sleep_if_idle(struct kvr_group_thread *thread, kvr_ns now)
{
    kvr_ns until, awake;

    hear(thread);
    (void)atomic_exchange(&thread->asleep, true);
    if (atomic_load(&thread->stop) || !kvr_group_may_sleep(thread->group)) {
        (void)atomic_exchange(&thread->asleep, false);
        return now;
    }
    until = kvr_group_wake_at(thread->group, now, thread->options.blind_sleep_ns);
    doze(thread, now, until);
    (void)atomic_exchange(&thread->asleep, false);
    kvr_group_awake(thread->group);
    awake = kvr_clock_now();
    count(&thread->counters.sleep_ns, awake - now);
    count(&thread->counters.wakeups, 1);
    return awake;
}

static void *run(void *self)
{
    struct kvr_group_thread *thread = self;
    kvr_ns now = kvr_clock_now(), progress_at = now, own_from = now, next;

    (void)prctl(PR_SET_TIMERSLACK, 1000ul); /* naps of 50 µs, not of 100 */
    while (!atomic_load_explicit(&thread->stop, memory_order_relaxed)) {
        bool moved = kvr_group_step(thread->group, now);

        count(&thread->counters.steps, 1);
        if (kvr_group_told(thread->group) && thread->options.notify != NULL)
            thread->options.notify(thread->options.notify_self);
        follow_rails(thread);
        next = kvr_clock_now();
        if (moved) {
            progress_at = own_from = now = next;
        } else if (next - progress_at < thread->options.spin_ns) {
            count(&thread->counters.spin_ns, next - now);
            now = next;
            if (next - own_from > OWN_NS) { /* a thread on this core may hold what we need */
                sched_yield();
                own_from = next;
            }
        } else {
            now = sleep_if_idle(thread, next);
        }
    }
    return NULL;
}

static kvr_status open_descriptors(struct kvr_group_thread *thread, struct kvr_error *error)
{
    thread->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    thread->doorbell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (thread->epoll_fd < 0 || thread->doorbell_fd < 0 ||
        watch(thread, thread->doorbell_fd, EPOLLIN | EPOLLET) != 0)
        return kvr_error_system(error, "rail_group", errno,
                                "no descriptors for a rail group's thread (ulimit -n?)");
    return KVR_OK;
}

static void release(struct kvr_group_thread *thread)
{
    if (thread->epoll_fd >= 0)
        close(thread->epoll_fd);
    if (thread->doorbell_fd >= 0)
        close(thread->doorbell_fd);
    free(thread);
}

/* Pinned before it runs, so that the memory it touches first is near it. */
static kvr_status start(struct kvr_group_thread *thread, struct kvr_error *error)
{
    pthread_attr_t attributes;
    int code;

    CPU_ZERO(&thread->cores);
    for (uint32_t i = 0; i < thread->options.core_count; i++) {
        int core = thread->options.cores[i];

        if (core < 0 || core >= CPU_SETSIZE)
            return kvr_error_set(error, KVR_INVALID, "rail_group", "core %d does not exist", core);
        CPU_SET((unsigned)core, &thread->cores);
    }
    pthread_attr_init(&attributes);
    if (thread->options.core_count > 0)
        pthread_attr_setaffinity_np(&attributes, sizeof(thread->cores), &thread->cores);
    code = pthread_create(&thread->thread, &attributes, run, thread);
    pthread_attr_destroy(&attributes);
    if (code != 0)
        return kvr_error_system(error, "rail_group", code,
                                "the thread of a rail group on %u given cores",
                                thread->options.core_count);
    (void)pthread_getcpuclockid(thread->thread, &thread->cpu_clock);
    (void)pthread_setname_np(thread->thread, "kvr-rails");
    return KVR_OK;
}

kvr_status kvr_group_thread_start(struct kvr_group *group,
                                  const struct kvr_group_thread_options *options,
                                  struct kvr_group_thread **ret_thread, struct kvr_error *error)
{
    struct kvr_group_thread *thread = calloc(1, sizeof(*thread));
    kvr_status status;

    if (thread == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "rail_group", "no memory for a thread");
    thread->group = group;
    thread->options = *options;
    if (thread->options.blind_sleep_ns == 0)
        thread->options.blind_sleep_ns = BLIND_SLEEP_DEFAULT;
    for (uint32_t i = 0; i < KVR_RAILS_MAX; i++)
        thread->rail_fds[i] = -1;
    status = open_descriptors(thread, error);
    if (status == KVR_OK) {
        follow_rails(thread);
        status = start(thread, error);
    }
    if (status != KVR_OK) {
        release(thread);
        return status;
    }
    *ret_thread = thread;
    return KVR_OK;
}

static void ring(struct kvr_group_thread *thread)
{
    (void)eventfd_write(thread->doorbell_fd, 1);
}

void kvr_group_thread_kick(struct kvr_group_thread *thread)
{
    if (atomic_exchange(&thread->asleep, false))
        ring(thread);
}

kvr_status kvr_group_thread_watch(struct kvr_group_thread *thread, int fd)
{
    return watch(thread, fd, EPOLLIN | EPOLLET) == 0 ? KVR_OK : KVR_SYSTEM;
}

void kvr_group_thread_unwatch(struct kvr_group_thread *thread, int fd)
{
    (void)epoll_ctl(thread->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

void kvr_group_thread_end(struct kvr_group_thread *thread)
{
    if (thread == NULL || atomic_exchange(&thread->stop, true))
        return;
    (void)atomic_exchange(&thread->asleep, false);
    ring(thread);
    pthread_join(thread->thread, NULL);
}

void kvr_group_thread_stop(struct kvr_group_thread *thread)
{
    if (thread == NULL)
        return;
    kvr_group_thread_end(thread);
    release(thread);
}

struct kvr_group_thread_counters kvr_group_thread_counters(const struct kvr_group_thread *thread)
{
    const struct thread_counters *counters = &thread->counters;
    struct timespec cpu = {0};

    (void)clock_gettime(thread->cpu_clock, &cpu); /* fails once the thread has ended */
#define READ(name) .name = atomic_load_explicit(&counters->name, memory_order_relaxed)
    return (struct kvr_group_thread_counters){
        READ(spin_ns),
        READ(sleep_ns),
        READ(steps),
        READ(wakeups),
        .cpu_ns = (uint64_t)cpu.tv_sec * KVR_S + (uint64_t)cpu.tv_nsec,
        .asleep = atomic_load_explicit(&thread->asleep, memory_order_relaxed)};
#undef READ
}
