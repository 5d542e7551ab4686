/* Goal: how many targets a source rank waits for, what it gives of what its siblings hold too, and
 * when it plans: pages that are named late, prompts that come in parts, targets that have all.
 * Method: outbound alone, its ports written down; a rank at a time. */
#include "tests/support/check.h"

#include <stdio.h>

#include "device/stage.h"
#include "prefill-agent/outbound.h"
#include "tests/support/machine_log.h"

#define NONCE  1000
#define STAGES 3

static struct outbound outbound;
static struct small_side source, target;
static struct kvr_shared_page page;
static kvr_ns now;
static bool target_staged;          /* what is wanted lands in staging memory */
static uint64_t target_stage_bytes; /* it can, up to these */
static bool target_near;            /* it may copy from our memory, and copying is cheap */

/* A source rank of an engine of tp_size ranks, and two target ranks behind one peer. */
static void open_rank(uint32_t tp, uint32_t tp_size, bool replicated)
{
    struct outbound_options options = {.silence_ns = KVR_S,
                                       .quiet_ns = KVR_S,
                                       .lease_default_ns = 10 * KVR_S,
                                       .want_default_ns = 20 * KVR_S,
                                       .rail_count = 1,
                                       .limits = {1, 1, SMALL_PAGE_BYTES, false}};
    struct kvr_rail_address rail = {.rail = 0, .epoch = 1};
    struct kvr_msg_hello hello = {
        .limits = {1, 1, SMALL_PAGE_BYTES, false}, .rails = &rail, .rail_count = 1};
    struct kvr_message regions;

    now = KVR_S;
    machine_log_clear();
    small_side_init(&source, 1);
    small_side_init(&target, 1);
    source.region.layout.replicated = target.layouts[0].replicated = replicated;
    assert_int_equal(outbound_init(&outbound, &options, &machine_ports, machine_memory()), KVR_OK);
    machine_engine_up(&outbound.engines, 0, 1, &source, &page);
    outbound.engines.local[0].rank.tp = tp;
    outbound.engines.local[0].rank.tp_size = tp_size;
    outbound_peer_up(&outbound, now, 0, &hello);
    for (uint32_t i = 0; i < 2; i++) {
        machine_regions(10, &target, 1, &regions);
        regions.regions.rank.tp = i;
        regions.regions.rank.tp_size = 2;
        outbound_message(&outbound, now, 0, &regions);
    }
    machine_log_clear();
}

/* The first of two stages, with layers 0 and 1 of four, and three target stages with 1, 2 and 1. */
static void open_stage(void)
{
    static const uint32_t first[STAGES] = {0, 1, 3}, count[STAGES] = {1, 2, 1};
    struct kvr_engine *engine = &outbound.engines.local[0];
    struct kvr_message regions;

    open_rank(0, 1, false);
    engine->rank.pp_size = 2;
    engine->compat.layers_total = 4;
    for (uint32_t i = 0; i < STAGES; i++) {
        target.layouts[0].layer_first = first[i];
        target.layouts[0].layer_count = count[i];
        machine_regions(10, &target, 1, &regions);
        regions.regions.compat.layers_total = 4;
        regions.regions.rank.pp = i;
        regions.regions.rank.pp_size = STAGES;
        outbound_message(&outbound, now, 0, &regions);
    }
    machine_log_clear();
}

static void ask(struct kvr_request *request)
{
    request->handle = 7;
    outbound_request(&outbound, now, 0, request);
}

static void publish(uint32_t number, uint32_t consumers)
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

static void watch(uint64_t token_first, uint64_t token_end)
{
    struct kvr_request request = {.kind = KVR_REQ_SOURCE_WATCH};

    request.watch.token_first = token_first;
    request.watch.token_end = token_end;
    ask(&request);
}

static void end(void)
{
    struct kvr_request request = {.kind = KVR_REQ_SOURCE_END};

    ask(&request);
}

static void pages(uint32_t tp, uint32_t first, uint32_t count)
{
    static const struct kvr_page_run runs[SMALL_PLANNED] = {{1, 1}, {3, 1}, {5, 1}, {7, 1}};
    struct kvr_message message = {.kind = KVR_MSG_PAGES, .transfer = NONCE + tp};

    message.pages.page_first = first;
    message.pages.runs = runs + first;
    message.pages.run_count = count;
    outbound_message(&outbound, now, 0, &message);
}

/* Of target rank tp of two, which asks the first sibling_count ranks of the source engine. */
static void want(uint32_t number, uint32_t tp, uint32_t sibling_count, uint64_t skip)
{
    static const uint32_t siblings[4] = {0, 1, 2, 3};
    struct kvr_message message = {.kind = KVR_MSG_WANT, .transfer = NONCE + tp};
    struct kvr_msg_want *want = &message.want;

    snprintf(want->request, sizeof(want->request), "r%u", number);
    want->source_engine = machine_rank(1).engine;
    want->source_generation = 1;
    want->source_tp = outbound.engines.local[0].rank.tp;
    want->target = machine_rank(10);
    want->target.tp = tp;
    want->target.tp_size = 2;
    want->tokens = SMALL_PLANNED;
    want->skip_tokens = skip;
    want->siblings = siblings;
    want->sibling_count = sibling_count;
    want->staged = target_staged;
    want->stage_bytes = target_stage_bytes;
    outbound_message(&outbound, now, 0, &message);
}

/* Of that target stage, which asks both source stages and has all pages. */
static void want_stage(uint32_t number, uint32_t stage)
{
    static const uint32_t siblings[2] = {0, 1u << 16};
    struct kvr_message message = {.kind = KVR_MSG_WANT, .transfer = NONCE + stage};
    struct kvr_msg_want *want = &message.want;

    snprintf(want->request, sizeof(want->request), "r%u", number);
    want->source_engine = machine_rank(1).engine;
    want->source_generation = 1;
    want->target = machine_rank(10);
    want->target.pp = stage;
    want->target.pp_size = STAGES;
    want->tokens = want->skip_tokens = SMALL_PLANNED;
    want->siblings = siblings;
    want->sibling_count = 2;
    outbound_message(&outbound, now, 0, &message);
}

static void landed(uint32_t tp)
{
    struct kvr_message message = {.kind = KVR_MSG_LANDED, .transfer = NONCE + tp};

    outbound_message(&outbound, now, 0, &message);
}

/* ---- what is given --------------------------------------------------------------------------- */

static bool gives(uint32_t tp, uint32_t number, uint32_t target_tp)
{
    const struct kvr_message *plan;

    open_rank(tp, 4, true);
    publish(number, 0);
    want(number, target_tp, 4, 0);
    watch(0, SMALL_PLANNED);
    pages(target_tp, 0, SMALL_PLANNED);
    plan = machine_sent(KVR_MSG_PLAN);
    assert_non_null(plan);
    assert_int_equal(plan->plan.chunk_count, plan->plan.none ? 0 : SMALL_CHUNKS);
    return !plan->plan.none;
}

/* One for each target rank, another one for the next, and not the same for every request. */
static void one_of_those_that_hold_alike_gives(void **state)
{
    uint32_t given[4] = {0};

    (void)state;
    for (uint32_t number = 0; number < 16; number++) {
        uint32_t givers[2] = {0};

        for (uint32_t target_tp = 0; target_tp < 2; target_tp++) {
            for (uint32_t tp = 0; tp < 4; tp++) {
                if (!gives(tp, number, target_tp))
                    continue;
                given[tp]++;
                givers[target_tp] |= 1u << tp;
            }
            assert_int_equal(__builtin_popcount(givers[target_tp]), 1);
        }
        assert_int_not_equal(givers[0], givers[1]);
    }
    for (uint32_t tp = 0; tp < 4; tp++)
        assert_true(given[tp] > 0);
}

/* A target that asks this rank alone gets it from this rank. */
static void who_is_asked_alone_gives(void **state)
{
    (void)state;
    for (uint32_t tp = 0; tp < 4; tp++) {
        open_rank(tp, 4, true);
        publish(1, 1);
        want(1, 0, 1, 0);
        watch(0, SMALL_PLANNED);
        pages(0, 0, SMALL_PLANNED);
        assert_false(machine_sent(KVR_MSG_PLAN)->plan.none);
    }
}

/* ---- in how short pieces --------------------------------------------------------------------- */

static struct kvr_event last_event;

static void keep_event(void *self, const struct kvr_event *event)
{
    (void)self;
    last_event = *event;
}

static void short_pieces(kvr_fragment_choice choice, uint64_t bytes_min)
{
    struct kvr_ports ports = machine_ports;

    ports.events.emit = keep_event;
    open_rank(0, 1, false);
    outbound.ports = &ports;
    outbound.options.fragments = choice;
    outbound.options.fragment_bytes_min = bytes_min;
    publish(1, 1);
    want(1, 0, 1, 0);
    watch(0, SMALL_PLANNED);
    pages(0, 0, SMALL_PLANNED);
    outbound.ports = &machine_ports;
}

static void short_pieces_are_refused_or_recorded(void **state)
{
    (void)state;
    short_pieces(KVR_FRAGMENT_REFUSE, SMALL_PAGE_BYTES);
    assert_int_equal(machine_sent_count(KVR_MSG_FAIL), 0);
    assert_int_equal(last_event.fragment_bytes, 0);
    short_pieces(KVR_FRAGMENT_REFUSE, SMALL_PAGE_BYTES + 1);
    assert_int_equal(machine_sent(KVR_MSG_FAIL)->reason.status, KVR_INCOMPATIBLE);
    assert_non_null(strstr(machine_sent(KVR_MSG_FAIL)->reason.detail,
                           "only 4096 B in a row at both ends, and fragment_bytes_min is 4097"));
    short_pieces(KVR_FRAGMENT_WRITE, SMALL_PAGE_BYTES + 1);
    assert_int_equal(machine_sent_count(KVR_MSG_PLAN), 1);
    assert_int_equal(last_event.kind, KVR_EVENT_MATCHED);
    assert_int_equal(last_event.fragment_bytes, SMALL_PAGE_BYTES);
}

/* Short pieces make no short writes there. Nothing goes to a target that then has no such memory.
 */
static void pieces_between_staging_memories_are_not_refused(void **state)
{
    static const uint16_t slot = 3;
    const struct kvr_rail_address rail = {.rail = 0, .epoch = 1};
    struct kvr_message grant = {
        .kind = KVR_MSG_GRANT,
        .transfer = NONCE,
        .grant = {.slots = &slot, .slot_count = 1, .rails = &rail, .rail_count = 1}};
    const struct kvr_write_limits *limits;
    struct kvr_stage stage = {.index = 0};

    (void)state;
    open_rank(0, 1, false);
    outbound.options.fragments = KVR_FRAGMENT_REFUSE;
    outbound.options.fragment_bytes_min = SMALL_PAGE_BYTES + 1;
    source.region.path = KVR_PATH_STAGED;
    source.region.stage = &stage;
    target_staged = true;
    publish(1, 1);
    want(1, 0, 1, 0);
    target_staged = false;
    watch(0, SMALL_PLANNED);
    pages(0, 0, SMALL_PLANNED);
    assert_int_equal(machine_sent_count(KVR_MSG_FAIL), 0);
    limits = &machine_sent(KVR_MSG_PLAN)->plan.limits;
    assert_true(limits->pieces_local == KVR_PLAN_ONE_RUN);
    assert_true(limits->pieces_remote == KVR_PLAN_ONE_RUN);
    outbound_message(&outbound, now, 0, &grant);
    assert_int_equal(machine_sent(KVR_MSG_FAIL)->reason.status, KVR_MALFORMED);
    assert_non_null(strstr(machine_sent(KVR_MSG_FAIL)->reason.detail, "no staging memory"));
}

/* A second rail is for the target's host, which is ours. */
static void be_neighbours(void)
{
    static _Atomic uint64_t words[KVR_TRANSFERS_MAX];
    static struct kvr_ports ports;
    static int registration;

    ports = machine_ports;
    ports.loans = words;
    outbound.ports = &ports;
    outbound.options.groups = (struct kvr_rail_groups){.count = 1, .first = {0, 2}, .same_host = 2};
    outbound.options.costs_local =
        (struct kvr_fragment_costs){.write = 1, .wire_byte = 0.1, .copy = 10, .copy_byte = 0.01};
    outbound.peers[0].same_host = 2;
    source.region.rail_count = 2;
    source.region.memory[1] = (struct kvr_memory *)&registration;
}

/* Where writes are dear, a target that can have `stage_bytes` land in staging memory wants pages
 * that are short by the option; 64 KiB make a write. */
static void short_pieces_to(uint64_t stage_bytes, kvr_fragment_choice choice)
{
    open_rank(0, 1, false);
    outbound.options.limits.chunk_bytes_max = outbound.peers[0].limits.chunk_bytes_max = 65536;
    outbound.options.fragments = choice;
    outbound.options.fragment_bytes_min = SMALL_PAGE_BYTES + 1;
    outbound.options.costs = (struct kvr_fragment_costs){
        .write = 10000, .wire_byte = 0.1, .copy = 10, .copy_byte = 0.01};
    if (target_near)
        be_neighbours();
    target_stage_bytes = stage_bytes;
    publish(1, 1);
    want(1, 0, 1, 0);
    target_stage_bytes = 0;
    watch(0, SMALL_PLANNED);
    pages(0, 0, SMALL_PLANNED);
}

static void stage_opened(kvr_status status)
{
    static struct kvr_stage stage;

    if (status == KVR_OK)
        source.region.stage = &stage;
    outbound_registered(&outbound, now, machine_log.registered_id, status);
}

static void grant_share(const struct kvr_remote_key *keys, uint32_t key_count)
{
    static const uint16_t slot = 3;
    const struct kvr_rail_address rail = {.rail = 0, .epoch = 1};
    struct kvr_message grant = {.kind = KVR_MSG_GRANT,
                                .transfer = NONCE,
                                .grant = {.slots = &slot,
                                          .slot_count = 1,
                                          .rails = &rail,
                                          .rail_count = 1,
                                          .share_offset = 4096,
                                          .share_bytes = 1 << 20,
                                          .share_keys = keys,
                                          .share_key_count = key_count}};

    outbound_message(&outbound, now, 0, &grant);
}

static void short_pieces_are_copied_once_there_is_a_stage(void **state)
{
    const struct kvr_remote_key key = {7, 8};
    const struct kvr_write_limits *limits;
    const struct push_job *job;

    (void)state;
    short_pieces_to(1 << 20, KVR_FRAGMENT_AUTO);
    assert_int_equal(machine_log.stages_asked, 1);
    assert_int_equal(machine_sent_count(KVR_MSG_PLAN), 0);
    stage_opened(KVR_OK);
    limits = &machine_sent(KVR_MSG_PLAN)->plan.limits;
    assert_true(limits->pieces_local == KVR_PLAN_ONE_RUN);
    assert_true(limits->pieces_remote == KVR_PLAN_ONE_RUN);
    grant_share(&key, 1);
    job = machine_command(PUSH_OPEN)->pointer;
    assert_ptr_equal(job->via, source.region.stage);
    assert_int_equal(job->share.keys[0].key, 7); /* the regions' are of the pages */
    assert_int_equal(job->share_offset, 4096);
    short_pieces_to(1 << 20, KVR_FRAGMENT_AUTO);
    stage_opened(KVR_OK);
    grant_share(NULL, 0);
    assert_non_null(
        strstr(machine_sent(KVR_MSG_FAIL)->reason.detail, "staging memory without its keys"));
}

/* Whoever is on this host copies from our memory: what cards cost is nothing to that. */
static void short_pieces_for_a_neighbour_cost_what_local_does(void **state)
{
    (void)state;
    target_near = true;
    short_pieces_to(1 << 20, KVR_FRAGMENT_AUTO);
    target_near = false;
    assert_int_not_equal(machine_sent(KVR_MSG_PLAN)->plan.loan, 0);
    assert_int_equal(machine_log.stages_asked, 0);
    assert_true(machine_sent(KVR_MSG_PLAN)->plan.limits.pieces_local == 1);
    assert_true(machine_sent(KVR_MSG_PLAN)->plan.limits.pieces_remote == 1);
}

/* Nothing is copied twice that could not be, and no fetch fails for it. */
static void without_a_stage_short_pieces_are_written(void **state)
{
    struct kvr_ports ports = machine_ports;

    (void)state;
    short_pieces_to(0, KVR_FRAGMENT_STAGE);
    stage_opened(KVR_NO_MEMORY);
    assert_true(machine_sent(KVR_MSG_PLAN)->plan.limits.pieces_local == 1);
    short_pieces_to(SMALL_PAGE_BYTES - 1, KVR_FRAGMENT_STAGE); /* too little for one write */
    stage_opened(KVR_OK);
    assert_true(machine_sent(KVR_MSG_PLAN)->plan.limits.pieces_local == KVR_PLAN_ONE_RUN);
    assert_true(machine_sent(KVR_MSG_PLAN)->plan.limits.pieces_remote == 1);
    ports.region_stage = NULL;
    open_rank(0, 1, false);
    outbound.ports = &ports;
    outbound.options.fragments = KVR_FRAGMENT_STAGE;
    outbound.options.fragment_bytes_min = SMALL_PAGE_BYTES + 1;
    publish(1, 1);
    want(1, 0, 1, 0);
    watch(0, SMALL_PLANNED);
    pages(0, 0, SMALL_PLANNED);
    outbound.ports = &machine_ports;
    assert_true(machine_sent(KVR_MSG_PLAN)->plan.limits.pieces_local == 1);
}

static void a_stage_is_tried_again_after_a_while(void **state)
{
    (void)state;
    for (uint32_t late = 0; late < 2; late++) {
        open_rank(0, 1, false);
        outbound.options.limits.chunk_bytes_max = outbound.peers[0].limits.chunk_bytes_max = 65536;
        outbound.options.fragments = KVR_FRAGMENT_STAGE;
        outbound.options.fragment_bytes_min = SMALL_PAGE_BYTES + 1;
        outbound.options.costs = (struct kvr_fragment_costs){
            .write = 10000, .wire_byte = 0.1, .copy = 10, .copy_byte = 0.01};
        publish(1, 2);
        want(1, 0, 1, 0);
        watch(0, SMALL_PLANNED);
        pages(0, 0, SMALL_PLANNED);
        assert_int_equal(machine_log.stages_asked, 1);
        stage_opened(KVR_NO_MEMORY);
        now += KVR_STAGE_RETRY_NS - 1 + late;
        want(1, 1, 1, 0);
        pages(1, 0, SMALL_PLANNED);
        assert_int_equal(machine_log.stages_asked, 1 + late);
        assert_int_equal(machine_sent_count(KVR_MSG_PLAN), 2 - late);
        assert_int_equal(machine_sent_count(KVR_MSG_FAIL), 0);
    }
}

/* More writes than the cards need are in the record with their reason. */
static void the_record_says_what_a_write_may_be(void **state)
{
    struct kvr_ports ports = machine_ports;

    (void)state;
    ports.events.emit = keep_event;
    for (int calibrated = 0; calibrated < 2; calibrated++) {
        open_rank(0, 1, false);
        outbound.ports = &ports;
        outbound.peers[0].limits.calibrated = calibrated != 0;
        publish(1, 1);
        want(1, 0, 1, 0);
        watch(0, SMALL_PLANNED);
        pages(0, 0, SMALL_PLANNED);
        assert_int_equal(last_event.kind, KVR_EVENT_MATCHED);
        assert_int_equal(last_event.limits.pieces_local, 1);
        assert_int_equal(last_event.limits.pieces_remote, 1);
        assert_int_equal(last_event.limits.bytes, SMALL_PAGE_BYTES);
        assert_int_equal(last_event.limits.calibrated, calibrated);
        outbound.ports = &machine_ports;
    }
}

/* ---- who comes ------------------------------------------------------------------------------- */

/* Both target ranks hold all: they are two, which nobody said. */
static void the_first_target_tells_how_many_come(void **state)
{
    (void)state;
    open_rank(0, 1, true);
    publish(1, 0);
    watch(0, SMALL_PLANNED);
    end();
    want(1, 0, 1, SMALL_PLANNED);
    landed(0);
    assert_int_equal(machine_notice_count(KVR_NOTICE_SOURCE_FREE), 0);
    want(1, 1, 1, SMALL_PLANNED);
    landed(1);
    assert_int_equal(machine_notice(KVR_NOTICE_SOURCE_FREE)->status, KVR_OK);
}

/* The stage in the middle needs both source stages: that every stage asks both, the others tell. */
static void the_first_target_may_know_of_too_few(void **state)
{
    static const uint32_t orders[2][STAGES] = {{1, 0, 2}, {1, 2, 0}};

    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        open_stage();
        publish(1, 0);
        watch(0, SMALL_PLANNED);
        end();
        for (uint32_t k = 0; k < STAGES; k++) {
            assert_int_equal(machine_notice_count(KVR_NOTICE_SOURCE_FREE), 0);
            want_stage(1, orders[i][k]);
            landed(orders[i][k]);
        }
        assert_int_equal(machine_notice(KVR_NOTICE_SOURCE_FREE)->status, KVR_OK);
        assert_int_equal(machine_notice_count(KVR_NOTICE_TARGET_REFUSED), 0);
    }
}

/* ---- when it is planned ---------------------------------------------------------------------- */

static void a_full_hit_frees_the_source(void **state)
{
    (void)state;
    open_rank(0, 1, false);
    publish(1, 1);
    watch(0, SMALL_PLANNED);
    end();
    want(1, 0, 1, SMALL_PLANNED);
    assert_int_equal(machine_sent_count(KVR_MSG_PLAN), 0);
    assert_int_equal(machine_sent(KVR_MSG_FINAL)->final.segment_count, 0);
    landed(0);
    assert_int_equal(machine_notice(KVR_NOTICE_SOURCE_FREE)->status, KVR_OK);
    assert_int_equal(machine_notice(KVR_NOTICE_SOURCE_FREE)->bytes, 0);
}

static void pages_may_be_named_late(void **state)
{
    (void)state;
    open_rank(0, 1, false);
    publish(1, 1);
    want(1, 0, 1, 0);
    pages(0, 0, 2);
    watch(0, SMALL_PLANNED);
    end();
    assert_int_equal(machine_sent_count(KVR_MSG_PLAN), 0);
    pages(0, 2, 2);
    assert_int_equal(machine_sent_count(KVR_MSG_PLAN), 1);
    assert_int_equal(machine_sent(KVR_MSG_FINAL)->final.chunk_count, SMALL_CHUNKS);
}

static void a_prompt_comes_in_segments(void **state)
{
    (void)state;
    open_rank(0, 1, false);
    publish(1, 1);
    want(1, 0, 1, 0);
    pages(0, 0, 1);
    watch(0, 1);
    assert_int_equal(machine_sent_count(KVR_MSG_PLAN), 1);
    watch(1, SMALL_PLANNED); /* ready, and its pages at the target are not known */
    assert_int_equal(machine_sent_count(KVR_MSG_PLAN), 1);
    pages(0, 1, 3);
    assert_int_equal(machine_sent_count(KVR_MSG_PLAN), 2);
    assert_int_equal(machine_sent(KVR_MSG_PLAN)->plan.token_first, 1);
    assert_int_equal(machine_sent(KVR_MSG_PLAN)->plan.chunk_first, SMALL_LAYERS);
    assert_int_equal(machine_sent_count(KVR_MSG_FINAL), 0);
    end();
    assert_int_equal(machine_sent(KVR_MSG_FINAL)->final.segment_count, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_of_those_that_hold_alike_gives),
        cmocka_unit_test(who_is_asked_alone_gives),
        cmocka_unit_test(short_pieces_are_refused_or_recorded),
        cmocka_unit_test(the_record_says_what_a_write_may_be),
        cmocka_unit_test(pieces_between_staging_memories_are_not_refused),
        cmocka_unit_test(short_pieces_are_copied_once_there_is_a_stage),
        cmocka_unit_test(short_pieces_for_a_neighbour_cost_what_local_does),
        cmocka_unit_test(without_a_stage_short_pieces_are_written),
        cmocka_unit_test(a_stage_is_tried_again_after_a_while),
        cmocka_unit_test(the_first_target_tells_how_many_come),
        cmocka_unit_test(the_first_target_may_know_of_too_few),
        cmocka_unit_test(a_full_hit_frees_the_source),
        cmocka_unit_test(pages_may_be_named_late),
        cmocka_unit_test(a_prompt_comes_in_segments),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
