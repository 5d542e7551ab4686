/* Request traces: the tokens of each request, its time, and the prefixes that requests share.
 *
 * Read from public formats, line by line (each import_*.h describes its own), or made from a seed
 * (synth.h); written in Mooncake's form. A request's input is cut into blocks of
 * KVR_TRACE_BLOCK_TOKENS tokens, the last one partial; equal block ids at equal positions mean
 * equal tokens up to the end of that block, so their KV is reusable. Formats without block ids get
 * ids that no other request has.
 *
 * Nothing here holds prompts or tokens. One thread a trace; memory is the trace's own and bounded
 * by the limits below; what is beyond them is refused with file, line and sentence. */
#ifndef KVR_TRACE_TRACE_FILE_H
#define KVR_TRACE_TRACE_FILE_H

#include <stddef.h>

#include "base/clock.h"
#include "base/names.h"
#include "base/status.h"

#define KVR_TRACE_BLOCK_TOKENS   512u
#define KVR_TRACE_TOKENS_MAX     (16u << 20) /* of one request */
#define KVR_TRACE_REQUESTS_MAX   (16u << 20) /* of one trace */
#define KVR_TRACE_BLOCKS_MAX     (64u << 20) /* of one trace, all requests together */
#define KVR_TRACE_LINE_BYTES_MAX (1u << 20)  /* a request */
#define KVR_TRACE_RUN_BYTES_MAX  (64u << 20) /* a run of a benchmark, with texts */
#define KVR_TRACE_RUN_VALUES_MAX (4u << 20)  /* of its JSON: each takes some 100 bytes */
#define KVR_TRACE_NAME_BYTES     128
#define KVR_TRACE_BLOCK_OWN      (1ull << 63) /* set in ids that were made here, never in a file's */

struct kvr_trace_request {
    kvr_ns at;              /* since the trace's first request */
    uint32_t input_tokens;  /* ≥ 1 */
    uint32_t output_tokens; /* 0: unknown or none */
    uint32_t block_first;   /* in blocks[] of the trace */
    uint32_t block_count;   /* input_tokens / KVR_TRACE_BLOCK_TOKENS, rounded up */
    uint32_t number;        /* in the order in which requests were added: sorting keeps it */
};

struct kvr_trace {
    char name[KVR_TRACE_NAME_BYTES]; /* the file's name, for people */
    struct kvr_trace_request *requests;
    uint64_t *blocks;
    uint32_t request_count, request_capacity;
    uint32_t block_count, block_capacity;
    uint32_t skipped_count; /* lines that hold no request to replay (an input of 0 tokens) */
    char problem[KVR_DETAIL_BYTES]; /* why requests may be missing: how a file was cut; or "" */
};

/* X(symbol, name, what such a file is) */
#define KVR_TRACE_FORMAT_LIST(X)                                                                   \
    X(KVR_TRACE_MOONCAKE, "mooncake", "JSON lines of Mooncake")                                    \
    X(KVR_TRACE_AZURE, "azure", "CSV of Azure's LLM inference traces")                             \
    X(KVR_TRACE_BURSTGPT, "burstgpt", "CSV of BurstGPT")                                           \
    X(KVR_TRACE_BAILIAN, "bailian", "JSON lines of Qwen-Bailian")                                  \
    X(KVR_TRACE_VLLM_BENCH, "vllm-bench", "result of `vllm bench serve --save-detailed`")          \
    X(KVR_TRACE_SGLANG_BENCH, "sglang-bench", "result of SGLang's bench_serving --output-details") \
    X(KVR_TRACE_SGLANG_LOG, "sglang-log", "SGLang's log of requests as JSON")

typedef enum kvr_trace_format {
    KVR_TRACE_FORMAT_LIST(KVR_SYMBOL) KVR_TRACE_FORMAT_END
} kvr_trace_format;

/* Their names, in that order. */
#define KVR_TRACE_FORMATS "mooncake|azure|burstgpt|bailian|vllm-bench|sglang-bench|sglang-log"
/* For --help. */
#define KVR_TRACE_FORMATS_HELP                                                                     \
    "JSON lines of Mooncake or Qwen-Bailian, CSV of Azure or BurstGPT, the result of vLLM's or "   \
    "SGLang's serving benchmark with its details, or SGLang's log of requests as JSON"

/* One of KVR_TRACE_FORMATS. */
KVR_MUST_CHECK kvr_status kvr_trace_format_from_name(const char *name,
                                                     kvr_trace_format *ret_format);

void kvr_trace_init(struct kvr_trace *trace);
/* Says the trace's problem on standard error, where it has one. */
void kvr_trace_note_problem(const struct kvr_trace *trace);
void kvr_trace_done(struct kvr_trace *trace); /* any number of times */

/* Appends one request. blocks NULL: ids of its own are made. KVR_MALFORMED with a sentence when
 * tokens or blocks are outside their limits or do not fit each other; KVR_TOO_LARGE, KVR_NO_MEMORY.
 */
KVR_MUST_CHECK kvr_status kvr_trace_add(struct kvr_trace *trace, kvr_ns at, uint64_t input_tokens,
                                        uint64_t output_tokens, const uint64_t *blocks,
                                        size_t block_count, struct kvr_error *error);

/* Lines that are wrong: where a reader gets this, it leaves them out and goes on. */
struct kvr_trace_wrong {
    void (*say)(void *self, const char *sentence); /* which begins with "FILE, line N: " */
    void *self;
    uint64_t count;
};

/* Reads at most `limit` requests (0: all) of a file, compressed or not, or of standard input, "-",
 * into an initialised, empty trace. Sorts them by time and counts time from the first. wrong NULL:
 * a wrong line is a failure; its sentence begins with "FILE, line N: ". */
KVR_MUST_CHECK kvr_status kvr_trace_read(const char *path, kvr_trace_format format, uint32_t limit,
                                         struct kvr_trace_wrong *wrong, struct kvr_trace *trace,
                                         struct kvr_error *error);
/* The same of bytes in memory; `name` stands for the file in sentences. */
KVR_MUST_CHECK kvr_status kvr_trace_read_bytes(const void *bytes, size_t count, const char *name,
                                               kvr_trace_format format, uint32_t limit,
                                               struct kvr_trace_wrong *wrong,
                                               struct kvr_trace *trace, struct kvr_error *error);

/* By time, which then counts from the first request. */
void kvr_trace_sort(struct kvr_trace *trace);

/* Writes Mooncake's form: to standard output, "-", or a file, compressed where its name ends in
 * ".zst". KVR_SYSTEM. */
KVR_MUST_CHECK kvr_status kvr_trace_write(const struct kvr_trace *trace, const char *path,
                                          struct kvr_error *error);

/* Shortens a request to at most `tokens` (≥ 1); false when it was not longer. */
bool kvr_trace_clip(struct kvr_trace_request *request, uint32_t tokens);

static inline const uint64_t *kvr_trace_blocks(const struct kvr_trace *trace,
                                               const struct kvr_trace_request *request)
{
    return trace->blocks + request->block_first;
}

#endif
