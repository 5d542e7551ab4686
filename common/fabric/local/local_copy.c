#include "fabric/local/local_copy.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "base/clock.h"

#define LINE         64u
#define STREAM_BYTES 256u         /* from here on past the caches */
#define AHEAD_BYTES  4096u        /* bytes fetched ahead */
#define HELP_BYTES   (256u << 10) /* a list from which on help pays */
#define HAND_BYTES   (256u << 10) /* about what a thread takes at once, less near the end */
#define SPIN_NS      (20 * KVR_US)
#define STOP         UINT32_MAX

struct local_copier {
    const struct local_job *jobs;
    _Atomic uint32_t hand; /* jobs that a thread takes at once, at most */
    uint32_t helper_count;
    _Alignas(LINE) _Atomic uint32_t untaken; /* jobs before this one are not taken yet; or STOP */
    _Alignas(LINE) _Atomic uint32_t unfinished;
    _Atomic uint32_t sleepers;
    _Atomic bool awaited; /* the caller sleeps until all are finished */
    pthread_t helpers[LOCAL_COPY_THREADS_MAX - 1];
};

static void futex_wait(_Atomic uint32_t *word, uint32_t value)
{
    (void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word)
{
    (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static inline void pause_briefly(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Bytes that are read before their turn: one line for each line that is copied. Pages lie anywhere,
 * and what a processor fetches by itself ends with the page that it is in. */
struct ahead {
    const struct local_job *job, *end;
    size_t offset;
};

static inline void fetch_line(struct ahead *ahead)
{
    if (ahead->job == ahead->end)
        return;
    __builtin_prefetch((const uint8_t *)ahead->job->source + ahead->offset);
    ahead->offset += LINE;
    if (ahead->offset >= ahead->job->bytes) {
        ahead->job++;
        ahead->offset = 0;
    }
}

static void fetch_lines(struct ahead *ahead, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += LINE)
        fetch_line(ahead);
}

#if defined(__x86_64__)
static inline void stream_line(uint8_t *target, const uint8_t *source)
{
    const __m128i *from = (const __m128i *)(const void *)source;
    __m128i *to = (__m128i *)(void *)target;
    __m128i a = _mm_loadu_si128(from), b = _mm_loadu_si128(from + 1);
    __m128i c = _mm_loadu_si128(from + 2), d = _mm_loadu_si128(from + 3);

    _mm_stream_si128(to, a);
    _mm_stream_si128(to + 1, b);
    _mm_stream_si128(to + 2, c);
    _mm_stream_si128(to + 3, d);
}

static void move(uint8_t *target, const uint8_t *source, size_t bytes, struct ahead *ahead)
{
    size_t head = -(uintptr_t)target % LINE, i;

    if (bytes < STREAM_BYTES) {
        fetch_lines(ahead, bytes);
        memcpy(target, source, bytes);
        return;
    }
    memcpy(target, source, head);
    for (i = head; i + LINE <= bytes; i += LINE) {
        fetch_line(ahead);
        stream_line(target + i, source + i);
    }
    fetch_lines(ahead, bytes - (i - head)); /* a line behind would stay behind */
    memcpy(target + i, source + i, bytes - i);
}

/* Such stores are in no order with others. */
static void order_moves(void)
{
    _mm_sfence();
}
#else
static void move(uint8_t *target, const uint8_t *source, size_t bytes, struct ahead *ahead)
{
    for (size_t i = 0, part; i < bytes; i += part) {
        part = bytes - i < AHEAD_BYTES ? bytes - i : AHEAD_BYTES;
        fetch_lines(ahead, part);
        memcpy(target + i, source + i, part);
    }
}

static void order_moves(void)
{
}
#endif

/* Past the caches: the copying thread does not read the page again, and a store that need not read
 * its line first saves a third of the traffic (tests/bench/RESULTS.md). */
static void copy(const struct local_job *jobs, uint32_t count)
{
    struct ahead ahead = {.job = jobs, .end = jobs + count};

    fetch_lines(&ahead, AHEAD_BYTES);
    for (uint32_t i = 0; i < count; i++)
        move(jobs[i].target, jobs[i].source, jobs[i].bytes, &ahead);
    order_moves();
}

/* Takes several jobs, at most half of a thread's part of the rest, so that all threads end
 * together. Returns how many, 0 when none is left. If the list ends meanwhile and another one of
 * the same length begins, the jobs taken belong to the new list. */
static uint32_t take(struct local_copier *copier, uint32_t *ret_first)
{
    uint32_t untaken = atomic_load(&copier->untaken), count;
    uint32_t hand = atomic_load_explicit(&copier->hand, memory_order_relaxed);

    do {
        if (untaken == 0 || untaken == STOP)
            return 0;
        count = untaken / (2 * (copier->helper_count + 1));
        count = count < hand ? count : hand;
        count += count == 0;
    } while (!atomic_compare_exchange_weak(&copier->untaken, &untaken, untaken - count));
    *ret_first = untaken - count;
    return count;
}

static void take_part(struct local_copier *copier)
{
    uint32_t first, count;

    while ((count = take(copier, &first)) > 0) {
        copy(copier->jobs + first, count);
        if (atomic_fetch_sub(&copier->unfinished, count) == count && atomic_load(&copier->awaited))
            futex_wake(&copier->unfinished);
    }
}

/* Until *word is (not) zero, for a while; false: it still is not. */
static bool spin_until(const _Atomic uint32_t *word, bool zero)
{
    kvr_ns end = kvr_clock_now() + SPIN_NS;

    do {
        for (unsigned i = 0; i < 64; i++) {
            if ((atomic_load_explicit(word, memory_order_acquire) == 0) == zero)
                return true;
            pause_briefly();
        }
    } while (kvr_clock_now() < end);
    return false;
}

static void *help(void *self)
{
    struct local_copier *copier = self;

    while (atomic_load(&copier->untaken) != STOP) {
        take_part(copier);
        if (spin_until(&copier->untaken, false))
            continue;
        atomic_fetch_add(&copier->sleepers, 1);
        futex_wait(&copier->untaken, 0);
        atomic_fetch_sub(&copier->sleepers, 1);
    }
    return NULL;
}

void local_copier_run(struct local_copier *copier, const struct local_job *jobs, uint32_t count)
{
    uint64_t bytes = 0;
    uint32_t hand, left;

    for (uint32_t i = 0; i < count; i++)
        bytes += jobs[i].bytes;
    if (copier->helper_count == 0 || bytes < HELP_BYTES || count < 2) {
        copy(jobs, count);
        return;
    }
    copier->jobs = jobs;
    hand = (uint32_t)((uint64_t)count * HAND_BYTES / bytes);
    atomic_store_explicit(&copier->hand, hand > 0 ? hand : 1, memory_order_relaxed);
    atomic_store(&copier->unfinished, count);
    atomic_store(&copier->untaken, count);
    if (atomic_load(&copier->sleepers) > 0)
        futex_wake(&copier->untaken);
    take_part(copier);
    if (spin_until(&copier->unfinished, true))
        return;
    atomic_store(&copier->awaited, true);
    while ((left = atomic_load(&copier->unfinished)) > 0)
        futex_wait(&copier->unfinished, left);
    atomic_store(&copier->awaited, false);
}

kvr_status local_copier_open(uint32_t threads, struct local_copier **ret_copier,
                             struct kvr_error *error)
{
    struct local_copier *copier = aligned_alloc(LINE, sizeof(*copier));

    if (copier == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "fabric", "no memory for copying threads");
    memset(copier, 0, sizeof(*copier));
    while (copier->helper_count + 1 < threads &&
           copier->helper_count < LOCAL_COPY_THREADS_MAX - 1) {
        pthread_t *helper = &copier->helpers[copier->helper_count];
        int code = pthread_create(helper, NULL, help, copier);

        if (code != 0) {
            local_copier_close(copier);
            return kvr_error_system(error, "fabric", code, "cannot start %u copying threads",
                                    threads);
        }
        (void)pthread_setname_np(*helper, "kvr-copy");
        copier->helper_count++;
    }
    *ret_copier = copier;
    return KVR_OK;
}

void local_copier_close(struct local_copier *copier)
{
    if (copier == NULL)
        return;
    atomic_store(&copier->untaken, STOP);
    futex_wake(&copier->untaken);
    for (uint32_t i = 0; i < copier->helper_count; i++) /* which they read to their end */
        pthread_join(copier->helpers[i], NULL);
    free(copier);
}
