/* Plays a request trace in virtual time over a modelled fleet: common/docs/virtual.md has the
 * model. The same configuration, trace and seed give the same run, on every machine. One thread;
 * memory grows with the requests that are under way, and 48 bytes for each that has ended. */
#ifndef KVR_TOOLS_VIRTUAL_RUN_H
#define KVR_TOOLS_VIRTUAL_RUN_H

#include "base/histogram.h"
#include "base/names.h"
#include "tools/replay/model.h"
#include "tools/replay/replay_pages.h"
#include "tools/virtual/prefill_time.h"
#include "tools/virtual/rail_costs.h"
#include "trace/trace_file.h"

#define VIRTUAL_GPUS      8u /* of a host */
#define VIRTUAL_RAILS_MAX 32u
#define VIRTUAL_HOSTS_MAX 128u

/* A fault that a check must find. */
typedef enum virtual_corrupt {
    VIRTUAL_CORRUPT_NOTHING,
    VIRTUAL_CORRUPT_PAGE,  /* one page of the source holds other tokens; --exact finds it */
    VIRTUAL_CORRUPT_OWNER, /* one page is handed to another request while writes are on their way */
} virtual_corrupt;

struct virtual_fleet {
    uint32_t prefill_hosts, decode_hosts;
    uint32_t rails; /* of each host; divides or is divided by the GPUs that have an engine */
    uint64_t card_bps;
};

struct virtual_config {
    struct virtual_fleet fleet;
    struct rail_costs costs;
    const struct prefill_time *prefill;
    struct model_geometry geometry;
    uint32_t tp;      /* ranks of an engine; divides VIRTUAL_GPUS */
    uint32_t engines; /* of each host, on its first GPUs; 0: as many as its GPUs make */
    uint32_t prefill_tokens_per_s; /* of an engine, whatever is cached; 0: as `prefill` says */
    uint32_t concurrency;          /* requests on their way at once, in all; 0: no limit */
    uint32_t page_tokens, chunk_tokens;
    uint64_t pool_bytes; /* of each GPU's pages */
    pages_order order;
    uint64_t seed;
    uint32_t speed_permille; /* 1000: requests arrive when the trace says */
    kvr_ns step_ns;          /* of one output token */
    uint32_t batch;          /* requests that a decode engine holds at once */
    uint32_t output_tokens;  /* of a request that has none in the trace */
    bool prefix_cache, fused, exact;
    virtual_corrupt corrupt;
};

/* GPUs of a host that have an engine. The host's cards are theirs. */
static inline uint32_t virtual_gpus(const struct virtual_config *config)
{
    return config->engines > 0 ? config->engines * config->tp : VIRTUAL_GPUS;
}

/* Of each request, in nanoseconds. X(symbol, name, meaning) */
#define VIRTUAL_TIME_LIST(X)                                                                       \
    X(VIRTUAL_TRANSFER, "transfer", "from the first write to the last byte")                       \
    X(VIRTUAL_FETCH, "fetch",                                                                      \
      "from the first layer ready, or the fetch opened if later, to the last byte")                \
    X(VIRTUAL_EXPOSED, "exposed_wait", "from the end of prefill to the last byte")                 \
    X(VIRTUAL_QUEUE, "queue", "from the arrival to the start of prefill")                          \
    X(VIRTUAL_WAIT, "wait", "from the arrival to the first token, without prefill itself")         \
    X(VIRTUAL_TTFT, "ttft", "from the arrival to the first token")

typedef enum virtual_time { VIRTUAL_TIME_LIST(KVR_SYMBOL) VIRTUAL_TIME_END } virtual_time;

const char *virtual_time_name(virtual_time time);
const char *virtual_time_meaning(virtual_time time);

/* What cards of one side did. */
struct virtual_use {
    uint64_t writes, bytes;
    double share, share_max; /* of what the cards carry in that time; of the busiest card */
};

struct virtual_figures {
    uint64_t *times[VIRTUAL_TIME_END]; /* of each request that is done; sorted when the run ends */
    size_t count, room;
    struct kvr_histogram layers; /* of each layer of each segment: from ready to landed */
    uint64_t requests, tokens, skipped_tokens, source_cached_tokens;
    uint64_t bytes, writes, events, packets, checked_words, turns;
    uint32_t clipped, without_output, live_max;
    uint32_t lanes, lane_ranks; /* each lane stands for so many equal ranks */
    kvr_ns end;                 /* virtual, of the last event */
    struct virtual_use source, target;
    double prefill_busy, thread_busy; /* of the engines' and the source's rail threads' time */
    uint64_t digest;
};

struct virtual_record;

/* Clips requests of the trace that no pool holds. record: NULL for none. KVR_INVALID: the fleet and
 * the model do not fit. KVR_DIGEST: a check found what must never be; the sentence says what. */
KVR_MUST_CHECK kvr_status virtual_run(const struct virtual_config *config, struct kvr_trace *trace,
                                      struct virtual_record *record,
                                      struct virtual_figures *ret_figures, struct kvr_error *error);
void virtual_figures_done(struct virtual_figures *figures);
/* percent of the values do not exceed it; 0 where none is. */
uint64_t virtual_percentile(const struct virtual_figures *figures, virtual_time time,
                            double percent);

#endif
