#include "tests/support/slice_case.h"

#include "tests/support/check.h"

#include <stdio.h>

struct share share;

void share_open_rank(uint32_t tp, uint32_t tp_size, bool replicated)
{
    struct outbound_options options = {.without_secret = true,
                                       .silence_ns = KVR_S,
                                       .quiet_ns = KVR_S,
                                       .lease_default_ns = 10 * KVR_S,
                                       .rail_count = 1,
                                       .limits = {1, 1, SMALL_PAGE_BYTES, false}};
    struct kvr_rail_address rail = {.rail = 0, .epoch = 1};
    struct kvr_msg_hello hello = {
        .limits = {1, 1, SMALL_PAGE_BYTES, false}, .rails = &rail, .rail_count = 1};
    struct kvr_message regions;

    share.now = KVR_S;
    machine_log_clear();
    small_side_init(&share.source, 1);
    small_side_init(&share.target, 1);
    share.source.region.layout.replicated = share.target.layouts[0].replicated = replicated;
    assert_int_equal(outbound_init(&share.outbound, &options, &machine_ports, machine_memory()),
                     KVR_OK);
    machine_engine_up(&share.outbound.engines, 0, 1, &share.source, &share.page);
    share.outbound.engines.local[0].rank.tp = tp;
    share.outbound.engines.local[0].rank.tp_size = tp_size;
    outbound_peer_up(&share.outbound, share.now, 0, &hello);
    for (uint32_t i = 0; i < 2; i++) {
        machine_regions(10, &share.target, 1, &regions);
        regions.regions.rank.tp = i;
        regions.regions.rank.tp_size = 2;
        outbound_message(&share.outbound, share.now, 0, &regions);
    }
    machine_log_clear();
}

void share_open_stage(void)
{
    static const uint32_t first[SHARE_STAGES] = {0, 1, 3}, count[SHARE_STAGES] = {1, 2, 1};
    struct kvr_engine *engine = &share.outbound.engines.local[0];
    struct kvr_message regions;

    share_open_rank(0, 1, false);
    engine->rank.pp_size = 2;
    engine->compat.layers_total = 4;
    for (uint32_t i = 0; i < SHARE_STAGES; i++) {
        share.target.layouts[0].layer_first = first[i];
        share.target.layouts[0].layer_count = count[i];
        machine_regions(10, &share.target, 1, &regions);
        regions.regions.compat.layers_total = 4;
        regions.regions.rank.pp = i;
        regions.regions.rank.pp_size = SHARE_STAGES;
        outbound_message(&share.outbound, share.now, 0, &regions);
    }
    machine_log_clear();
}

static void ask(struct kvr_request *request)
{
    request->handle = 7;
    outbound_request(&share.outbound, share.now, 0, request);
}

void share_publish(uint32_t number, uint32_t consumers)
{
    static const uint32_t ids[SMALL_PLANNED] = {0, 2, 4, 6};
    struct kvr_request open = {.kind = KVR_REQ_SOURCE_OPEN};
    struct kvr_request pages = {.kind = KVR_REQ_SOURCE_PAGES};

    snprintf(open.source_open.request, sizeof(open.source_open.request), "r%u", number);
    open.source_open.tokens = SMALL_PLANNED;
    open.source_open.consumers = consumers;
    pages.pages.ids = ids;
    pages.pages.id_count = SMALL_PLANNED;
    ask(&open);
    ask(&pages);
}

void share_watch(uint64_t token_first, uint64_t token_end)
{
    struct kvr_request request = {.kind = KVR_REQ_WATCH};

    request.watch.token_first = token_first;
    request.watch.token_end = token_end;
    ask(&request);
}

void share_end(void)
{
    struct kvr_request request = {.kind = KVR_REQ_SOURCE_END};

    ask(&request);
}

void share_pages(uint32_t tp, uint32_t first, uint32_t count)
{
    static const struct kvr_page_run runs[SMALL_PLANNED] = {{1, 1}, {3, 1}, {5, 1}, {7, 1}};
    struct kvr_message message = {.kind = KVR_MSG_PAGES, .transfer = SHARE_NONCE + tp};

    message.pages.page_first = first;
    message.pages.runs = runs + first;
    message.pages.run_count = count;
    outbound_message(&share.outbound, share.now, 0, &message);
}

void share_want(uint32_t number, uint32_t tp, uint32_t sibling_count, uint64_t skip)
{
    static const uint32_t siblings[4] = {0, 1, 2, 3};
    struct kvr_message message = {.kind = KVR_MSG_WANT, .transfer = SHARE_NONCE + tp};
    struct kvr_msg_want *want = &message.want;

    snprintf(want->request, sizeof(want->request), "r%u", number);
    want->source_engine = machine_rank(1).engine;
    want->source_generation = 1;
    want->source_tp = share.outbound.engines.local[0].rank.tp;
    want->target = machine_rank(10);
    want->target.tp = tp;
    want->target.tp_size = 2;
    want->tokens = SMALL_PLANNED;
    want->skip_tokens = skip;
    want->deadline_ms = 20000;
    want->siblings = siblings;
    want->sibling_count = sibling_count;
    want->staged = share.target_staged;
    want->stage_bytes = share.target_stage_bytes;
    outbound_message(&share.outbound, share.now, 0, &message);
}

void share_want_stage(uint32_t number, uint32_t stage)
{
    static const uint32_t siblings[2] = {0, 1u << 16};
    struct kvr_message message = {.kind = KVR_MSG_WANT, .transfer = SHARE_NONCE + stage};
    struct kvr_msg_want *want = &message.want;

    snprintf(want->request, sizeof(want->request), "r%u", number);
    want->source_engine = machine_rank(1).engine;
    want->source_generation = 1;
    want->target = machine_rank(10);
    want->target.pp = stage;
    want->target.pp_size = SHARE_STAGES;
    want->tokens = want->skip_tokens = SMALL_PLANNED;
    want->deadline_ms = 20000;
    want->siblings = siblings;
    want->sibling_count = 2;
    outbound_message(&share.outbound, share.now, 0, &message);
}

void share_landed(uint32_t tp)
{
    struct kvr_message message = {.kind = KVR_MSG_LANDED, .transfer = SHARE_NONCE + tp};

    outbound_message(&share.outbound, share.now, 0, &message);
}
