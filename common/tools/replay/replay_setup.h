/* What a replay does, as its options say, and what follows from them: the geometry, the requests
 * and the sizes of everything. Made once, before the engines are forked; from then on each process
 * has its own copy, which never changes. */
#ifndef KVR_TOOLS_REPLAY_SETUP_H
#define KVR_TOOLS_REPLAY_SETUP_H

#include "base/clock.h"
#include "base/options.h"
#include "tools/json_output.h"
#include "tools/replay/model.h"
#include "tools/replay/replay_agents.h"
#include "tools/replay/replay_content.h"
#include "tools/replay/replay_pages.h"
#include "tools/replay/replay_recording.h"
#include "tools/scheduler_get.h"
#include "trace/trace_file.h"

#define REPLAY_CONCURRENCY_MAX 1024
#define REPLAY_ATTEMPT         1u
#define REPLAY_EXIT_NO_AGENT   75 /* EX_TEMPFAIL */

typedef enum replay_verify {
    REPLAY_VERIFY_FULL,
    REPLAY_VERIFY_SAMPLED,
    REPLAY_VERIFY_NONE
} replay_verify;

typedef enum replay_corrupt {
    REPLAY_CORRUPT_NOTHING,
    REPLAY_CORRUPT_PAGE,  /* one page's bytes are wrong in the source's memory */
    REPLAY_CORRUPT_LAYER, /* a layer is announced that was never written */
    REPLAY_CORRUPT_SWAP,  /* two pages change places in the page table */
} replay_corrupt;

struct replay_options {
    struct replay_agent_options agents;
    struct scheduler_call scheduler; /* address "" = none */
    char model[32];
    uint64_t layers, kv_bytes_per_token, page_tokens, pool_bytes, chunk_tokens;
    char pages[16];
    bool prefix_cache;
    char trace[4096], format[16], speed[32];
    uint64_t requests, seed, concurrency, prefill_tokens_per_s;
    kvr_ns deadline;
    char verify[16], corrupt[16], device_memory[16];
    uint64_t allocation_bytes;
    bool progress, reconnect, in_virtual_time;
    kvr_ns reconnect_for;
    char json[JSON_OUTPUT_PATH_BYTES], pid_file[4096], journal[4096];
    char faults[16];
};

/* Layers of one kind, which share a page table. Pages that a window or a state does not keep are
 * named as the spare page, the last of the pool. */
struct replay_group {
    model_kind kind;
    uint32_t layer_count, part_count;
    uint32_t page_tokens, page_count;
    uint64_t plane_bytes; /* one page of one layer and part */
    uint64_t page_bytes;  /* one page of all layers and parts */
};

struct replay_setup {
    struct replay_options options;
    struct replay_agents agents;
    struct model_geometry geometry;
    struct kvr_trace trace;
    struct replay_recording recording; /* of a trace of transfers; else empty */
    uint32_t chunk_tokens, concurrency;
    struct replay_group groups[MODEL_KINDS]; /* the first has full attention */
    uint32_t group_count;
    uint8_t layer_groups[KVR_LAYERS_MAX]; /* of each layer */
    uint32_t block_pages;                 /* pages of one block of the trace, with full attention */
    pages_order order;
    replay_verify verify;
    replay_corrupt corrupt;
    uint32_t corrupt_request; /* where the fault is planted */
    double speed;             /* 0: as fast as it goes */
    uint32_t clipped;         /* requests shortened to what a pool can hold */
    uint64_t run;             /* makes request ids unique */
    int journal;              /* descriptor; -1: none is kept */
};

extern const struct kvr_command replay_command;

/* Reads options and the trace. False: leave with *ret_exit; the sentence was written. */
bool replay_setup_load(int argc, char **argv, struct replay_setup *setup, int *ret_exit);
void replay_setup_done(struct replay_setup *setup);

/* Memory of all pages of one side. */
double replay_pool_bytes(const struct replay_setup *setup);

/* The id that both engines know a request by. */
#define REPLAY_REQUEST_BYTES 64
char *replay_request_name(const struct replay_setup *setup, uint32_t request,
                          char text[REPLAY_REQUEST_BYTES]);

static inline const struct kvr_trace_request *replay_request(const struct replay_setup *setup,
                                                             uint32_t request)
{
    return &setup->trace.requests[request];
}

/* What a recording says of a request; of other traces it says nothing. */
const struct replay_recorded *replay_recorded(const struct replay_setup *setup, uint32_t request);
/* The place in setup->agents of the request's agent of a role. */
uint32_t replay_agent_of(const struct replay_setup *setup, uint32_t request, kvr_role role);
/* Of the fetch: the recorded one, else the option's. */
kvr_ns replay_deadline(const struct replay_setup *setup, uint32_t request);
/* What is recorded, by the clock of this replay; 0 where it does not wait. */
kvr_ns replay_scaled(const struct replay_setup *setup, kvr_ns recorded);

static inline const struct replay_group *replay_group(const struct replay_setup *setup,
                                                      uint32_t layer)
{
    return &setup->groups[setup->layer_groups[layer]];
}

/* Logical pages of a group for so many tokens, the last one partly used. */
static inline uint32_t replay_pages(const struct replay_group *group, uint32_t tokens)
{
    return (tokens + group->page_tokens - 1) / group->page_tokens;
}

/* The first of them that is kept. */
uint32_t replay_first_page(const struct replay_setup *setup, const struct replay_group *group,
                           uint32_t tokens);

/* A layer has fewer parts where it is a state. */
static inline uint32_t replay_part(const struct replay_setup *setup, uint32_t layer, uint32_t index)
{
    return replay_group(setup, layer)->kind == MODEL_STATE ? KVR_PART_STATE
                                                           : setup->geometry.model->parts[index];
}

/* What one page of a layer and a part holds when so many tokens of the request are computed. A
 * state is one token, the last of them, and as long as the page. */
struct content replay_content(const struct replay_setup *setup, uint32_t request, uint32_t tokens,
                              uint32_t layer, uint32_t part, uint32_t page);
/* The same of a block that is known without its request. */
struct content replay_block_content(const struct replay_setup *setup, uint64_t block,
                                    uint64_t token_first, uint32_t layer, uint32_t part);
/* A request's tail: one token. */
#define REPLAY_TAIL_WORDS 32u
struct content replay_tail_content(const struct replay_setup *setup, uint32_t request);

#endif
