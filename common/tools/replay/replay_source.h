/* The replayed prefill engine, in two files. replay_source.c takes pages for each request in the
 * order of arrival and publishes it. replay_source_stream.c prefills.
 *
 * A modelled prefill runs one request after the other on one stream, as a GPU does: chunk by chunk,
 * layer by layer. Where a recording has the times of a request's layers, the request has a stream
 * of its own, and each layer becomes ready at its time. Each layer is filled first, then announced
 * by the stream's readiness word. Pages are free at SOURCE_FREE, not before. */
#ifndef KVR_TOOLS_REPLAY_SOURCE_H
#define KVR_TOOLS_REPLAY_SOURCE_H

#include "tools/replay/replay_engine.h"

/* The first is the modelled prefill's. */
#define SOURCE_STREAMS KVRAIL_WORDS_MAX

struct source_request {
    struct replay_engine_request base;       /* first */
    struct replay_table tables[MODEL_KINDS]; /* where contents are written; before pages were taken
                                                without ids */
    uint32_t *given; /* the ids of group 0 for the agent: the same, unless a fault is planted */
    kvr_ns start_at; /* by the router */
    kvr_ns opened_at;
    bool prefilling; /* it has a stream, or had one */
};

typedef enum stream_phase {
    PHASE_PAGES,
    PHASE_WATCH,
    PHASE_LAYER,
    PHASE_TAIL,
    PHASE_END
} stream_phase;

/* A prefill that runs. */
struct stream {
    struct source_request *request; /* NULL: idle */
    stream_phase phase;
    uint32_t token_first, token_end; /* the chunk */
    uint32_t group;                  /* the next to give pages of */
    uint32_t layer, page_at;         /* what is filled next */
    kvr_ns started_at;               /* of the chunk */
    uint64_t word;                   /* value of the readiness word */
};

struct source {
    struct replay_engine engine;
    struct stream streams[SOURCE_STREAMS];
    uint64_t filled; /* bytes, since events were taken */
};

/* Whether a call has succeeded. Back-pressure is no failure: the loop tries again. Whatever else a
 * call says cancels the request. */
bool source_succeeded(struct source *source, struct source_request *request, kvrail_status status);

/* Gives streams to requests that were published, and does one slice of work on each. Returns when
 * to call it again, as replay_engine_ops.step. */
kvr_ns source_prefill(struct source *source, kvr_ns now);
/* The request is settled. */
void source_leave_stream(struct source *source, const struct source_request *request);

#endif
