/* What agents tell the scheduler.
 *
 * An event is a fact with a time. The state machines emit them into a sink; the reporter batches
 * and posts them. Nothing parses logs. */
#ifndef KVR_TRACE_EVENT_H
#define KVR_TRACE_EVENT_H

#include "base/clock.h"
#include "base/data_path.h"
#include "base/status.h"
#include "base/types.h"

/* X(symbol, name, what it says). The scheduler stores their numbers: a new one goes to the end. */
#define KVR_EVENT_LIST(X)                                                                          \
    X(KVR_EVENT_OPENED, "opened", "an engine published or fetched; no peer is known yet")          \
    X(KVR_EVENT_MATCHED, "matched", "both sides know each other's page tables")                    \
    X(KVR_EVENT_GRANTED, "granted", "slots and rails are fixed")                                   \
    X(KVR_EVENT_FIRST_READY, "first_ready", "the first layer was final at the source engine")      \
    X(KVR_EVENT_LAST_READY, "last_ready", "the last layer was final at the source engine")         \
    X(KVR_EVENT_FIRST_POST, "first_post", "the first write was accepted by a rail")                \
    X(KVR_EVENT_LAST_POST, "last_post", "the last write was accepted by a rail")                   \
    X(KVR_EVENT_FIRST_LAND, "first_land", "the first chunk arrived at the target")                 \
    X(KVR_EVENT_LAST_LAND, "last_land", "the last chunk arrived at the target")                    \
    X(KVR_EVENT_FAILING, "failing", "it will fail; pages are still held")                          \
    X(KVR_EVENT_RETRY, "retry", "chunks are posted a second time")                                 \
    X(KVR_EVENT_ENDED, "ended", "terminal: the pages were handed back, with the outcome")

typedef enum kvr_event_kind { KVR_EVENT_LIST(KVR_SYMBOL) KVR_EVENT_KIND_END } kvr_event_kind;

typedef enum kvr_role { KVR_ROLE_SOURCE, KVR_ROLE_TARGET } kvr_role;

/* One stage of one transfer as one agent saw it. A publish that no target ever wanted, and a fetch
 * before its WANT, is reported under transfer 0 with its request. */
struct kvr_event {
    kvr_event_kind kind;
    kvr_role role;
    kvr_ns at;         /* monotonic; the reporter adds the wall anchor */
    uint64_t transfer; /* the wire's nonce, equal on both sides */
    char request[KVR_REQUEST_BYTES];
    char tenant[KVR_NAME_BYTES]; /* empty: an agent that knows none, or a WANT of none it serves */
    uint32_t attempt;
    struct kvr_uuid source_engine, target_engine;
    struct kvr_place {
        uint32_t tp, pp;
    } source_rank, target_rank; /* which rank of them */
    char peer[KVR_NAME_BYTES];  /* the other agent's name */
    uint64_t tokens, skip_tokens;
    uint64_t bytes;          /* ENDED: bytes that were planned and moved */
    uint32_t layers, chunks; /* ENDED: writes = chunks + retries */
    uint32_t retries;        /* chunks posted a second time */
    uint64_t pieces;         /* ENDED, of the source: what is contiguous at both ends */
    uint64_t
        fragment_bytes; /* the shortest of them, where it is below fragment_bytes_min; else 0 */
    /* What was done about those, and what was expected of it; writes 0: it was no way to go. */
    bool fragments_staged;
    struct kvr_event_way {
        uint64_t writes, ns;
    } fragments_direct, fragments_copied;
    struct kvr_event_limits {                 /* of the source, of each write; bytes 0: not known */
        uint32_t pieces_local, pieces_remote; /* UINT32_MAX: any number, in staging memory */
        uint64_t bytes;
        bool calibrated; /* the cards take more, which would make fewer writes: it was measured
                            that more gains nothing */
    } limits;
    uint64_t rails;     /* bit r: rail r carried a part */
    kvr_path path;      /* of its pages at this agent, the least direct that it needs */
    kvr_status outcome; /* FAILING, ENDED: KVR_OK or the reason */
    char detail[KVR_DETAIL_BYTES];
    /* ENDED, of some transfers: its spans, packed (trace/spans.h); borrowed as the event is. */
    const uint8_t *spans;
    uint32_t spans_bytes; /* 0: none */
    /* The same of its page tables (trace/page_runs.h). */
    const uint8_t *pages;
    uint32_t pages_bytes; /* 0: none */
    /* Of both, those that were asked for and could not be made: there was no memory, or a table has
     * too many runs. For the reporter's count alone: no report carries it. */
    uint32_t unrecorded;
};

const char *kvr_event_name(kvr_event_kind kind);
/* KVR_EVENT_KIND_END: only a newer version knows it. */
kvr_event_kind kvr_event_from_name(const char *name);

/* Where events go. Enqueues only; never blocks. `event` is borrowed for the call. */
struct kvr_event_sink {
    void *self;
    void (*emit)(void *self, const struct kvr_event *event);
};

#endif
