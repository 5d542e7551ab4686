/* Goal: short pieces are written one by one, copied through staging memory or refused, by the
 * option and by the cost, and the record has the reason. Method: outbound alone, with recorded
 * ports; one rank at a time. */
#include "tests/support/check.h"

#include "device/stage.h"
#include "tests/support/slice_case.h"

static bool target_near; /* the target may copy from our memory, and copying is cheap */

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
    share_open_rank(0, 1, false);
    share.outbound.ports = &ports;
    share.outbound.options.fragments = choice;
    share.outbound.options.fragment_bytes_min = bytes_min;
    share_publish(1, 1);
    share_want(1, 0, 1, 0);
    share_watch(0, SMALL_PLANNED);
    share_pages(0, 0, SMALL_PLANNED);
    share.outbound.ports = &machine_ports;
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

/* Short pieces make no short writes there. Nothing goes to a target without such memory. */
static void pieces_between_staging_memories_are_not_refused(void **state)
{
    static const uint16_t slot = 3;
    const struct kvr_rail_address rail = {.rail = 0, .epoch = 1};
    struct kvr_message grant = {
        .kind = KVR_MSG_GRANT,
        .transfer = SHARE_NONCE,
        .grant = {.slots = &slot, .slot_count = 1, .tag = 1, .rails = &rail, .rail_count = 1}};
    const struct kvr_write_limits *limits;
    struct kvr_stage stage = {.index = 0};

    (void)state;
    share_open_rank(0, 1, false);
    share.outbound.options.fragments = KVR_FRAGMENT_REFUSE;
    share.outbound.options.fragment_bytes_min = SMALL_PAGE_BYTES + 1;
    share.source.region.path = KVR_PATH_STAGED;
    share.source.region.stage = &stage;
    share.target_staged = true;
    share_publish(1, 1);
    share_want(1, 0, 1, 0);
    share.target_staged = false;
    share_watch(0, SMALL_PLANNED);
    share_pages(0, 0, SMALL_PLANNED);
    assert_int_equal(machine_sent_count(KVR_MSG_FAIL), 0);
    limits = &machine_sent(KVR_MSG_PLAN)->plan.limits;
    assert_true(limits->pieces_local == KVR_PLAN_ONE_RUN);
    assert_true(limits->pieces_remote == KVR_PLAN_ONE_RUN);
    outbound_message(&share.outbound, share.now, 0, &grant);
    assert_int_equal(machine_sent(KVR_MSG_FAIL)->reason.status, KVR_MALFORMED);
    assert_non_null(strstr(machine_sent(KVR_MSG_FAIL)->reason.detail, "no staging memory"));
}

/* A second rail is for the target's host, which is ours. */
static void be_neighbours(void)
{
    static struct kvr_ports ports;
    static int registration;

    ports = machine_ports;
    ports.revocation_words = machine_words;
    share.outbound.ports = &ports;
    share.outbound.options.groups =
        (struct kvr_rail_groups){.count = 1, .first = {0, 2}, .same_host = 2};
    share.outbound.options.costs_local =
        (struct kvr_fragment_costs){.write = 1, .wire_byte = 0.1, .copy = 10, .copy_byte = 0.01};
    share.outbound.peers[0].same_host = 2;
    share.source.region.rail_count = 2;
    share.source.region.memory[1] = (struct kvr_memory *)&registration;
}

/* Writes are expensive here. A target with `stage_bytes` of staging memory wants pages that the
 * option calls short; 64 KiB make a write. */
static void short_pieces_to(uint64_t stage_bytes, kvr_fragment_choice choice)
{
    share_open_rank(0, 1, false);
    share.outbound.options.limits.chunk_bytes_max = share.outbound.peers[0].limits.chunk_bytes_max =
        65536;
    share.outbound.options.fragments = choice;
    share.outbound.options.fragment_bytes_min = SMALL_PAGE_BYTES + 1;
    share.outbound.options.costs = (struct kvr_fragment_costs){
        .write = 10000, .wire_byte = 0.1, .copy = 10, .copy_byte = 0.01};
    if (target_near)
        be_neighbours();
    share.target_stage_bytes = stage_bytes;
    share_publish(1, 1);
    share_want(1, 0, 1, 0);
    share.target_stage_bytes = 0;
    share_watch(0, SMALL_PLANNED);
    share_pages(0, 0, SMALL_PLANNED);
}

static void stage_opened(kvr_status status)
{
    static struct kvr_stage stage;

    if (status == KVR_OK)
        share.source.region.stage = &stage;
    outbound_registered(&share.outbound, share.now, machine_log.registered_id, status);
}

static void grant_share(const struct kvr_remote_key *keys, uint32_t key_count)
{
    static const uint16_t slot = 3;
    const struct kvr_rail_address rail = {.rail = 0, .epoch = 1};
    struct kvr_message grant = {.kind = KVR_MSG_GRANT,
                                .transfer = SHARE_NONCE,
                                .grant = {.slots = &slot,
                                          .tag = 1,
                                          .slot_count = 1,
                                          .rails = &rail,
                                          .rail_count = 1,
                                          .quota_offset = 4096,
                                          .quota_bytes = 1 << 20,
                                          .quota_keys = keys,
                                          .quota_key_count = key_count}};

    outbound_message(&share.outbound, share.now, 0, &grant);
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
    job = push_message_of(machine_command(PUSH_OPEN)).opened;
    assert_ptr_equal(job->via, share.source.region.stage);
    assert_int_equal(job->quota.memory.keys[0].key, 7); /* the regions' keys are of the pages */
    assert_int_equal(job->quota.offset, 4096);
    short_pieces_to(1 << 20, KVR_FRAGMENT_AUTO);
    stage_opened(KVR_OK);
    grant_share(NULL, 0);
    assert_non_null(
        strstr(machine_sent(KVR_MSG_FAIL)->reason.detail, "staging memory without its keys"));
}

/* A target on this host copies from our memory, so the costs of cards do not matter. */
static void short_pieces_for_a_neighbour_cost_what_local_does(void **state)
{
    (void)state;
    target_near = true;
    short_pieces_to(1 << 20, KVR_FRAGMENT_AUTO);
    target_near = false;
    assert_int_not_equal(machine_sent(KVR_MSG_PLAN)->plan.revocation_word, 0);
    assert_int_equal(machine_log.stages_asked, 0);
    assert_true(machine_sent(KVR_MSG_PLAN)->plan.limits.pieces_local == 1);
    assert_true(machine_sent(KVR_MSG_PLAN)->plan.limits.pieces_remote == 1);
}

/* Without staging memory nothing is copied twice, and no fetch fails for it. */
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
    share_open_rank(0, 1, false);
    share.outbound.ports = &ports;
    share.outbound.options.fragments = KVR_FRAGMENT_STAGE;
    share.outbound.options.fragment_bytes_min = SMALL_PAGE_BYTES + 1;
    share_publish(1, 1);
    share_want(1, 0, 1, 0);
    share_watch(0, SMALL_PLANNED);
    share_pages(0, 0, SMALL_PLANNED);
    share.outbound.ports = &machine_ports;
    assert_true(machine_sent(KVR_MSG_PLAN)->plan.limits.pieces_local == 1);
}

static void a_stage_is_tried_again_after_a_while(void **state)
{
    (void)state;
    for (uint32_t late = 0; late < 2; late++) {
        share_open_rank(0, 1, false);
        share.outbound.options.limits.chunk_bytes_max =
            share.outbound.peers[0].limits.chunk_bytes_max = 65536;
        share.outbound.options.fragments = KVR_FRAGMENT_STAGE;
        share.outbound.options.fragment_bytes_min = SMALL_PAGE_BYTES + 1;
        share.outbound.options.costs = (struct kvr_fragment_costs){
            .write = 10000, .wire_byte = 0.1, .copy = 10, .copy_byte = 0.01};
        share_publish(1, 2);
        share_want(1, 0, 1, 0);
        share_watch(0, SMALL_PLANNED);
        share_pages(0, 0, SMALL_PLANNED);
        assert_int_equal(machine_log.stages_asked, 1);
        stage_opened(KVR_NO_MEMORY);
        share.now += KVR_STAGE_RETRY_NS - 1 + late;
        share_want(1, 1, 1, 0);
        share_pages(1, 0, SMALL_PLANNED);
        assert_int_equal(machine_log.stages_asked, 1 + late);
        assert_int_equal(machine_sent_count(KVR_MSG_PLAN), 2 - late);
        assert_int_equal(machine_sent_count(KVR_MSG_FAIL), 0);
    }
}

/* The record has the reason for more writes than the cards need. */
static void the_record_says_what_a_write_may_be(void **state)
{
    struct kvr_ports ports = machine_ports;

    (void)state;
    ports.events.emit = keep_event;
    for (int calibrated = 0; calibrated < 2; calibrated++) {
        share_open_rank(0, 1, false);
        share.outbound.ports = &ports;
        share.outbound.peers[0].limits.calibrated = calibrated != 0;
        share_publish(1, 1);
        share_want(1, 0, 1, 0);
        share_watch(0, SMALL_PLANNED);
        share_pages(0, 0, SMALL_PLANNED);
        assert_int_equal(last_event.kind, KVR_EVENT_MATCHED);
        assert_int_equal(last_event.limits.pieces_local, 1);
        assert_int_equal(last_event.limits.pieces_remote, 1);
        assert_int_equal(last_event.limits.bytes, SMALL_PAGE_BYTES);
        assert_int_equal(last_event.limits.calibrated, calibrated);
        share.outbound.ports = &machine_ports;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_pieces_are_refused_or_recorded),
        cmocka_unit_test(the_record_says_what_a_write_may_be),
        cmocka_unit_test(pieces_between_staging_memories_are_not_refused),
        cmocka_unit_test(short_pieces_are_copied_once_there_is_a_stage),
        cmocka_unit_test(short_pieces_for_a_neighbour_cost_what_local_does),
        cmocka_unit_test(without_a_stage_short_pieces_are_written),
        cmocka_unit_test(a_stage_is_tried_again_after_a_while),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
