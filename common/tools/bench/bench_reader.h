/* The page of a browser while reports come: a thread asks the API for lists, the summary and one
 * transfer, ten times a second. */
#ifndef KVR_TOOLS_BENCH_READER_H
#define KVR_TOOLS_BENCH_READER_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/histogram.h"
#include "tools/scheduler_get.h"

struct bench_reader {
    const struct scheduler_call *call;
    pthread_t thread;
    _Atomic bool stopping;
    /* After bench_reader_stop: */
    struct kvr_histogram times; /* of questions that were answered */
    uint64_t unanswered;
};

/* reader is zeroed. call is borrowed until the end. */
KVR_MUST_CHECK kvr_status bench_reader_start(struct bench_reader *reader,
                                             const struct scheduler_call *call,
                                             struct kvr_error *error);
void bench_reader_stop(struct bench_reader *reader);

#endif
