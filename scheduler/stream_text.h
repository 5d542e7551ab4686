/* The texts of the stream: a snapshot, and what has changed since the last delta. One thread. */
#ifndef KVR_SCHEDULER_STREAM_TEXT_H
#define KVR_SCHEDULER_STREAM_TEXT_H

#include "scheduler/changes.h"
#include "scheduler/fleet.h"
#include "scheduler/health.h"
#include "scheduler/metrics.h"
#include "scheduler/store.h"

struct stream_parts {    /* borrowed */
    struct store *store; /* a reader of its own */
    struct fleet *fleet;
    struct metrics *metrics;
    struct health *health;
    struct changes *changes;
};

struct stream_writer;

struct stream_writer *stream_writer_open(const struct stream_parts *parts); /* NULL: no memory */
struct stream_writer *stream_writer_close(struct stream_writer *writer);    /* returns NULL */

/* The next delta holds all agents, and none of the transfers that were committed before. */
void stream_writer_begin(struct stream_writer *writer);
/* An event with that id, malloc'ed. NULL: nothing has changed, or there is no memory. */
char *stream_writer_delta(struct stream_writer *writer, int64_t id, size_t *ret_size);
/* NULL: the database failed, or there is no memory. */
char *stream_writer_snapshot(struct stream_writer *writer, int64_t id, size_t *ret_size);

#endif
