#include "tools/bench/bench_raw_copy.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define HAND_BYTES (256u << 10) /* what a thread takes at once */

struct turn {
    const struct bench_pool *pool;
    uint32_t pages, hand; /* of one call of memcpy; calls that a thread takes at once */
    kvr_ns end;
    _Atomic uint64_t next, pieces, last_at;
};

static void copy_piece(const struct turn *turn, uint64_t first)
{
    uint64_t source, target;

    bench_pool_page(turn->pool, first, &source, &target);
    memcpy((uint8_t *)turn->pool->target.address + target,
           (const uint8_t *)turn->pool->source.address + source,
           turn->pages * turn->pool->page_bytes);
}

static void *copy(void *self)
{
    struct turn *turn = self;
    uint64_t pieces = 0;
    kvr_ns now;

    do {
        uint64_t first = atomic_fetch_add(&turn->next, (uint64_t)turn->hand * turn->pages);

        for (uint32_t i = 0; i < turn->hand; i++)
            copy_piece(turn, first + (uint64_t)i * turn->pages);
        pieces += turn->hand;
        now = kvr_clock_now();
    } while (now < turn->end);
    atomic_fetch_add(&turn->pieces, pieces);
    if (now > atomic_load(&turn->last_at)) /* one that is overtaken is not later by much */
        atomic_store(&turn->last_at, now);
    return NULL;
}

void raw_copy_turn(const struct bench_pool *pool, const struct bench_order *order, uint64_t *next,
                   struct bench_result *result)
{
    uint64_t piece_bytes = order->raw.pages * pool->page_bytes;
    pthread_t helpers[BENCH_COPY_THREADS_MAX] = {0};
    uint32_t helper_count = 0;
    struct turn turn = {.pool = pool, .pages = order->raw.pages, .next = *next};

    turn.hand = (uint32_t)(HAND_BYTES / piece_bytes);
    turn.hand += turn.hand == 0;
    result->first_at = kvr_clock_now();
    turn.end = result->first_at + order->duration;
    while (helper_count + 1 < order->raw.threads && helper_count < BENCH_COPY_THREADS_MAX)
        if (pthread_create(&helpers[helper_count], NULL, copy, &turn) == 0)
            helper_count++;
        else
            break;
    if (helper_count + 1 < order->raw.threads)
        bench_problem(result, "cannot start %u threads", order->raw.threads);
    copy(&turn);
    while (helper_count > 0)
        pthread_join(helpers[--helper_count], NULL);
    *next = turn.next;
    result->writes = turn.pieces;
    result->bytes = turn.pieces * piece_bytes;
    result->last_at = turn.last_at;
}
