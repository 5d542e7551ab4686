/* How much slower than its quiet self the processor is just now. Other programs slow a shared core:
 * they take its caches, and the other half of it. What a fixed piece of work takes says by how
 * much. */
#ifndef KVR_TOOLS_BENCH_PACE_H
#define KVR_TOOLS_BENCH_PACE_H

#include "base/clock.h"
#include "base/histogram.h"
#include "base/status.h"

/* What the work takes on a quiet core of the machine of RESULTS.md. */
#define BENCH_PACE_QUIET_NS (1750 * KVR_US)

struct sqlite3_stmt;

struct bench_pace { /* {0} is a closed one */
    struct sqlite3_stmt *work;
    struct kvr_histogram taken;
};

KVR_MUST_CHECK kvr_status bench_pace_open(struct bench_pace *pace, struct kvr_error *error);
void bench_pace_close(struct bench_pace *pace);

/* What the processor has worked for this thread so far. */
kvr_ns bench_pace_worked(void);

/* Forgets what the work took. */
void bench_pace_begin(struct bench_pace *pace);
/* Does the work once: some milliseconds. */
void bench_pace_measure(struct bench_pace *pace);
/* The median since bench_pace_begin() over BENCH_PACE_QUIET_NS; 1 where that is less, or where
 * nothing was measured. */
double bench_pace_slower(const struct bench_pace *pace);

#endif
