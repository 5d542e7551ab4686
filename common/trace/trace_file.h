/* Request traces: the tokens of each request, its time, and the prefixes that requests share.
 *
 * Read from public formats, one line a request (each import_*.h describes its own), or made from a
 * seed (synth.h); written in Mooncake's form. A request's input is cut into blocks of
 * KVR_TRACE_BLOCK_TOKENS tokens, the last one partial; equal block ids at equal positions mean
 * equal tokens up to the end of that block, so their KV is reusable. Formats without block ids get
 * ids that no other request has.
 *
 * Nothing here holds prompts or tokens. One thread a trace; memory is the trace's own and bounded
 * by the limits below; what is beyond them is refused with file, line and sentence. */
#ifndef KVR_TRACE_TRACE_FILE_H
#define KVR_TRACE_TRACE_FILE_H

#include <stddef.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/status.h"

#define KVR_TRACE_BLOCK_TOKENS   512u
#define KVR_TRACE_TOKENS_MAX     (16u << 20) /* of one request */
#define KVR_TRACE_REQUESTS_MAX   (16u << 20) /* of one trace */
#define KVR_TRACE_BLOCKS_MAX     (64u << 20) /* of one trace, all requests together */
#define KVR_TRACE_LINE_BYTES_MAX (1u << 20)
#define KVR_TRACE_NAME_BYTES     128
#define KVR_TRACE_BLOCK_OWN      (1ull << 63) /* set in ids that were made here, never in a file's */

struct kvr_trace_request {
    kvr_ns at;              /* since the trace's first request */
    uint32_t input_tokens;  /* ≥ 1 */
    uint32_t output_tokens; /* 0: unknown or none */
    uint32_t block_first;   /* in blocks[] of the trace */
    uint32_t block_count;   /* input_tokens / KVR_TRACE_BLOCK_TOKENS, rounded up */
};

struct kvr_trace {
    char name[KVR_TRACE_NAME_BYTES]; /* the file's name, for people */
    struct kvr_trace_request *requests;
    uint64_t *blocks;
    uint32_t request_count, request_capacity;
    uint32_t block_count, block_capacity;
    uint32_t skipped_count; /* lines that hold no request to replay (an input of 0 tokens) */
};

typedef enum kvr_trace_format {
    KVR_TRACE_MOONCAKE,
    KVR_TRACE_AZURE,
    KVR_TRACE_BURSTGPT,
} kvr_trace_format;

/* "mooncake", "azure", "burstgpt". */
KVR_MUST_CHECK kvr_status kvr_trace_format_from_name(const char *name,
                                                     kvr_trace_format *ret_format);

void kvr_trace_init(struct kvr_trace *trace);
void kvr_trace_done(struct kvr_trace *trace); /* any number of times */

/* Appends one request. blocks NULL: ids of its own are made. KVR_MALFORMED with a sentence when
 * tokens or blocks are outside their limits or do not fit each other; KVR_TOO_LARGE, KVR_NO_MEMORY.
 */
KVR_MUST_CHECK kvr_status kvr_trace_add(struct kvr_trace *trace, kvr_ns at, uint64_t input_tokens,
                                        uint64_t output_tokens, const uint64_t *blocks,
                                        size_t block_count, struct kvr_error *error);

/* Reads at most `limit` requests (0: all) into an initialised, empty trace, sorts them by time and
 * counts time from the first. The sentence of a failure begins with "FILE, line N: ". */
KVR_MUST_CHECK kvr_status kvr_trace_read(const char *path, kvr_trace_format format, uint32_t limit,
                                         struct kvr_trace *trace, struct kvr_error *error);
/* The same from an open stream; `name` stands for the file in sentences. */
KVR_MUST_CHECK kvr_status kvr_trace_read_stream(FILE *stream, const char *name,
                                                kvr_trace_format format, uint32_t limit,
                                                struct kvr_trace *trace, struct kvr_error *error);

/* Writes Mooncake's form. KVR_SYSTEM when the stream refuses. */
KVR_MUST_CHECK kvr_status kvr_trace_write(const struct kvr_trace *trace, FILE *stream,
                                          struct kvr_error *error);

/* Shortens a request to at most `tokens` (≥ 1); false when it was not longer. */
bool kvr_trace_clip(struct kvr_trace_request *request, uint32_t tokens);

static inline const uint64_t *kvr_trace_blocks(const struct kvr_trace *trace,
                                               const struct kvr_trace_request *request)
{
    return trace->blocks + request->block_first;
}

#endif
