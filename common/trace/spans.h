/* When each layer of one transfer passed one of its agents, and what each rail carried.
 *
 * The agent notes it in a book while the transfer goes on. When the transfer ends, the book is
 * packed, and the event ENDED carries the bytes. Agents pack all that failed and all that were
 * slow, and of the others the same ones at both ends.
 *
 * Packed bytes begin with a version (bits 0 to 3) and the role (bit 4). Then follow the first
 * layer, the number of layers, and for each layer when it begins and when it ends: 0 for never,
 * else 1 and the folded difference to the time before. Times are microseconds before the transfer's
 * end, so that no clock must be known. Last come the number of rails and for each rail that carried
 * a part its number, writes, bytes and retries. All are numbers of base/varint.h.
 *
 * The bytes come from another host, or from a database that may be damaged: the reader believes
 * nothing. Pure. */
#ifndef KVR_TRACE_SPANS_H
#define KVR_TRACE_SPANS_H

#include <stddef.h>

#include "base/clock.h"
#include "trace/event.h"

#define KVR_SPANS_BYTES_MAX 4096 /* packed */

/* 0: never, or not yet. */
struct kvr_layer_span {
    kvr_ns begins; /* source: it was seen to be ready; target: its last byte landed */
    kvr_ns ends;   /* source: its last write was first accepted; target: it was announced */
};

/* The writes over one rail of the agent. */
struct kvr_rail_span {
    uint64_t bytes;   /* source: of all writes; target: of chunks that came the first time */
    uint64_t writes;  /* retries too */
    uint64_t retries; /* source: repeated writes; target: chunks that were here already */
};

struct kvr_span_book {
    kvr_ns opened; /* the grant */
    uint32_t layer_first, layer_count;
    struct kvr_rail_span rails[KVR_RAILS_MAX];
    struct kvr_layer_span layers[];
};

static inline size_t kvr_span_book_bytes(uint32_t layer_count)
{
    return sizeof(struct kvr_span_book) + layer_count * sizeof(struct kvr_layer_span);
}

/* Of kvr_span_book_bytes() bytes; layer_count: at most KVR_LAYERS_MAX. */
void kvr_span_book_open(struct kvr_span_book *book, kvr_ns now, uint32_t layer_first,
                        uint32_t layer_count);

static inline void kvr_span_begins(struct kvr_span_book *book, uint32_t layer, kvr_ns now)
{
    if (book != NULL && layer - book->layer_first < book->layer_count)
        book->layers[layer - book->layer_first].begins = now;
}

/* The thread that ends it may have read the clock before the one that began it. */
static inline void kvr_span_ends(struct kvr_span_book *book, uint32_t layer, kvr_ns now)
{
    struct kvr_layer_span *span;

    if (book == NULL || layer - book->layer_first >= book->layer_count)
        return;
    span = &book->layers[layer - book->layer_first];
    span->ends = now > span->begins ? now : span->begins;
}

/* Which transfers are sent. */
struct kvr_spans_choice {
    uint64_t every; /* one of so many, and all that failed or were slow; 0: none at all */
    kvr_ns slow_ns; /* from the grant to the end */
};

bool kvr_spans_wanted(const struct kvr_spans_choice *choice, const struct kvr_span_book *book,
                      const struct kvr_event *ended);
/* There was no memory for the book of a transfer that would be sent, slow or not. */
bool kvr_spans_missed(const struct kvr_spans_choice *choice, const struct kvr_span_book *book,
                      const struct kvr_event *ended);

/* Returns the number of bytes. */
size_t kvr_spans_pack(const struct kvr_span_book *book, kvr_role role, kvr_ns end,
                      uint8_t bytes[KVR_SPANS_BYTES_MAX]);

#define KVR_SPAN_NEVER (-1)

/* What was packed. About 6 KiB. */
struct kvr_spans {
    kvr_role role;
    uint32_t layer_first, layer_count, rail_count;
    struct kvr_spans_layer {
        int64_t begins_us, ends_us; /* before the transfer's end; KVR_SPAN_NEVER */
    } layers[KVR_LAYERS_MAX];
    struct kvr_spans_rail {
        uint32_t rail;
        struct kvr_rail_span carried;
    } rails[KVR_RAILS_MAX]; /* by their numbers */
};

/* KVR_UNSUPPORTED: of a newer version. KVR_MALFORMED: these are no spans. */
KVR_MUST_CHECK kvr_status kvr_spans_unpack(const uint8_t *bytes, size_t count,
                                           struct kvr_spans *ret_spans);

#endif
