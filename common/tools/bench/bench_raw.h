/* The raw loop: what libfabric alone does with the same pages on the same rails.
 *
 * Two processes, a writer and a reader, each with the pool of its side. The writer keeps a window
 * of writes with immediates on every rail, of the shape that is ordered; the reader counts what
 * arrives. Rail i of the source writes to rail i mod m of the target's m, or to that of its plane.
 * Both either spin without end, or sleep as the agents' threads do: on the queue's descriptor, or
 * 50 µs where there is none, once nothing has moved for `spin`. Which is better depends on the
 * host, so both are tried before the first turn. No requests, no plans, no page tables, no engines.
 *
 * Where the shape says so the reader copies the pages itself, without a rail and a writer. */
#ifndef KVR_TOOLS_BENCH_RAW_H
#define KVR_TOOLS_BENCH_RAW_H

#include "tools/bench/bench_child.h"
#include "tools/bench/bench_options.h"
#include "tools/bench/bench_pool.h"
#include "tools/bench/bench_rails.h"

struct bench_raw {
    const struct bench_options *options;
    const struct bench_rails *rails;
    const struct bench_pool *pool;
    struct raw_board *board; /* what the two processes tell each other */
    struct bench_child writer, reader;
};

/* Forks both and waits until their rails are open. False: said on stderr. */
bool bench_raw_start(struct bench_raw *raw, const struct bench_options *options,
                     const struct bench_rails *rails, const struct bench_pool *pool);
/* One turn: from the first write to the last arrival. False: said on stderr. */
bool bench_raw_run(struct bench_raw *raw, kvr_ns duration, const struct bench_raw_shape *shape,
                   struct bench_result *ret_result);
/* Tries windows, unless the shape has one, and both ways to wait, in short turns, and sets the pair
 * that moves most. False: a turn failed, said on stderr. */
bool bench_raw_calibrate(struct bench_raw *raw, struct bench_raw_shape *shape);
/* What one write of it may carry. */
uint32_t bench_raw_pieces_max(const struct bench_raw *raw);
kvr_ns bench_raw_cpu_time(const struct bench_raw *raw);
void bench_raw_stop(struct bench_raw *raw);

#endif
