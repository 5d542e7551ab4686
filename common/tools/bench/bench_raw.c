/* The conductor's side of the raw loop. */
#include "tools/bench/bench_raw.h"

#include <stdio.h>
#include <sys/mman.h>

#include "tools/bench/bench_raw_side.h"

#define START_NS (20 * KVR_S)
#define MORE_NS  (20 * KVR_S) /* beyond a turn's duration */

/* Of the search for the best window. */
#define CALIBRATE_NS     (40 * KVR_MS)
#define CALIBRATE_ROUNDS 3
static const uint32_t windows[] = {2, 4, 8, 16, 32, 64, 128};
#define WINDOWS (sizeof(windows) / sizeof(windows[0]))

bool bench_raw_start(struct bench_raw *raw, const struct bench_options *options,
                     const struct bench_rails *rails, const struct bench_pool *pool)
{
    struct bench_result result;

    raw->options = options;
    raw->rails = rails;
    raw->pool = pool;
    raw->board =
        mmap(NULL, sizeof(*raw->board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (raw->board == MAP_FAILED) {
        raw->board = NULL;
        perror("kvrail bench: mmap");
        return false;
    }
    raw->board->pieces_max = KVR_IOV_MAX;
    return bench_child_start(&raw->reader, "raw reader", raw_reader, raw) &&
           bench_child_start(&raw->writer, "raw writer", raw_writer, raw) &&
           bench_child_result(&raw->reader, START_NS, &result) &&
           bench_child_result(&raw->writer, START_NS, &result);
}

bool bench_raw_run(struct bench_raw *raw, kvr_ns duration, const struct bench_raw_shape *shape,
                   struct bench_result *ret_result)
{
    struct bench_order order = {.duration = duration, .raw = *shape};
    struct bench_result arrived;

    if (shape->threads > 0) /* the reader copies alone */
        return bench_child_order(&raw->reader, &order) &&
               bench_child_result(&raw->reader, duration + MORE_NS, ret_result);
    atomic_store(&raw->board->finished, false);
    if (!bench_child_order(&raw->reader, &order) || !bench_child_order(&raw->writer, &order) ||
        !bench_child_result(&raw->writer, duration + MORE_NS, ret_result) ||
        !bench_child_result(&raw->reader, MORE_NS, &arrived))
        return false;
    ret_result->last_at = arrived.last_at;
    return true;
}

/* Every window has a turn in each round, asleep and awake, so that one noisy moment does not
 * decide. */
bool bench_raw_calibrate(struct bench_raw *raw, struct bench_raw_shape *shape)
{
    size_t window_count = shape->window > 0 ? 1 : WINDOWS, best = 0, count = 2 * window_count;
    const uint32_t *window = shape->window > 0 ? &shape->window : windows;
    struct bench_raw_shape tried = *shape;
    double rates[2 * WINDOWS] = {0};

    for (size_t i = 0; i < CALIBRATE_ROUNDS * count; i++) {
        struct bench_result result;

        tried.window = window[i % count / 2];
        tried.spins = i % 2 != 0;
        if (!bench_raw_run(raw, CALIBRATE_NS, &tried, &result))
            return false;
        rates[i % count] += (double)result.bytes / (double)(result.last_at - result.first_at);
    }
    for (size_t i = 1; i < count; i++)
        if (rates[i] > rates[best])
            best = i;
    shape->window = window[best / 2];
    shape->spins = best % 2 != 0;
    return true;
}

uint32_t bench_raw_pieces_max(const struct bench_raw *raw)
{
    return raw->board->pieces_max;
}

kvr_ns bench_raw_cpu_time(const struct bench_raw *raw)
{
    return bench_cpu_time(raw->writer.pid) + bench_cpu_time(raw->reader.pid);
}

void bench_raw_stop(struct bench_raw *raw)
{
    bench_child_stop(&raw->writer);
    bench_child_stop(&raw->reader);
    if (raw->board != NULL)
        (void)munmap(raw->board, sizeof(*raw->board));
    raw->board = NULL;
}
