/* The metrics of the scheduler's process, its health and its queue of reports. Any thread. */
#ifndef KVR_SCHEDULER_METRICS_SELF_H
#define KVR_SCHEDULER_METRICS_SELF_H

#include "scheduler/ingest.h"
#include "scheduler/stream.h"

struct metrics_self { /* borrowed */
    struct health *health;
    struct ingest *ingest;
    struct stream *stream;
};

void metrics_write_self(const struct metrics_self *self, kvr_ns now, struct exposition *out);

#endif
