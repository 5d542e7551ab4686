/* Goal: a source never posts beyond the ROOM in a target's staging memory. It sends QUIET when the
 * room is used up, and answers every ROOM with a QUIET, in every state of the transfer. Method:
 * outbound alone; the test plays the engine, the target and the rail thread. */
#include "tests/support/check.h"

#include <stdio.h>

#include "tests/support/outbound_case.h"

#define SHARE 65536

/* A WANT for pages that no card reaches. */
static void want_staged(void)
{
    static const struct kvr_page_run runs[SMALL_PLANNED] = {{1, 1}, {3, 1}, {5, 1}, {7, 1}};
    struct kvr_message want = {.kind = KVR_MSG_WANT, .transfer = NONCE};
    struct kvr_message pages = {.kind = KVR_MSG_PAGES, .transfer = NONCE};

    snprintf(want.want.request, sizeof(want.want.request), "r");
    want.want.source_engine = machine_rank(1).engine;
    want.want.source_generation = 1;
    want.want.target = machine_rank(10);
    want.want.tokens = SMALL_PLANNED;
    want.want.deadline_ms = 20000;
    want.want.staged = true;
    pages.pages.runs = runs;
    pages.pages.run_count = SMALL_PLANNED;
    outbound_message(&outbound, now, 0, &want);
    outbound_message(&outbound, now, 0, &pages);
}

static void grant_share(uint64_t quota_bytes)
{
    static const struct kvr_remote_key keys[1] = {{7, 8}};
    static const uint16_t slots[1] = {3};
    const struct kvr_rail_address rail = {.epoch = 1};
    struct kvr_message grant = {.kind = KVR_MSG_GRANT,
                                .transfer = NONCE,
                                .grant = {.slots = slots,
                                          .tag = 1,
                                          .slot_count = 1,
                                          .rails = &rail,
                                          .rail_count = 1,
                                          .quota_bytes = quota_bytes,
                                          .quota_keys = keys,
                                          .quota_key_count = 1}};

    outbound_message(&outbound, now, 0, &grant);
}

static void room(uint32_t round, uint64_t position_end)
{
    struct kvr_message message = {.kind = KVR_MSG_ROOM, .transfer = NONCE};

    message.room = (struct kvr_msg_room){.round = round, .position_end = position_end};
    outbound_message(&outbound, now, 0, &message);
}

static void begin(uint64_t quota_bytes)
{
    publish_for(1);
    publish_all();
    want_staged();
    grant_share(quota_bytes);
}

static void a_share_smaller_than_the_transfer_is_a_ring(void **state)
{
    const struct push_retransmit *retransmit;
    const struct push_segment *segment;
    const struct push_job *job;

    (void)state;
    begin(2 * SMALL_PAGE_BYTES);
    job = push_commanded(PUSH_OPEN).opened;
    assert_int_equal(job->quota.bytes, 2 * SMALL_PAGE_BYTES);
    assert_int_equal(job->quota.room, 2 * SMALL_PAGE_BYTES);
    segment = push_commanded(PUSH_SEGMENT).segment;
    for (uint32_t i = 0; i < SMALL_CHUNKS; i++)
        assert_int_equal(segment->positions[i], i * (uint64_t)SMALL_PAGE_BYTES);
    room(1, 3 * SMALL_PAGE_BYTES);
    retransmit = push_commanded(PUSH_RETRANSMIT).retransmit;
    assert_int_equal(retransmit->round, 1);
    assert_int_equal(retransmit->room, 3 * SMALL_PAGE_BYTES);
    assert_int_equal(retransmit->run_count, 0);
    group_says(PUSH_STAGING_FULL, 0, NULL); /* from before ROOM */
    assert_int_equal(machine_sent_count(KVR_MSG_QUIET), 0);
    group_says(PUSH_STAGING_FULL, 1, NULL);
    assert_int_equal(machine_sent(KVR_MSG_QUIET)->quiet.round, 1);
}

static void a_share_smaller_than_a_write_is_refused(void **state)
{
    (void)state;
    begin(SMALL_PAGE_BYTES - 1);
    assert_int_equal(machine_sent(KVR_MSG_FAIL)->reason.status, KVR_MALFORMED);
    assert_non_null(
        strstr(machine_sent(KVR_MSG_FAIL)->reason.detail, "4095 bytes of staging memory are less"));
    assert_null(machine_command(PUSH_OPEN));
}

static void room_that_was_not_granted_is_refused(void **state)
{
    (void)state;
    publish_for(1);
    publish_all();
    want(0, NONCE);
    grant(0, NONCE);
    room(1, SHARE);
    assert_int_equal(machine_sent(KVR_MSG_FAIL)->reason.status, KVR_MALFORMED);
}

/* ROOM crossed the last QUIET: the same counts hold for its round too. Else the target would wait
 * for another QUIET, and end its epochs. */
static void who_has_ended_answers_it_too(void **state)
{
    (void)state;
    begin(SHARE);
    ask(&(struct kvr_request){.kind = KVR_REQ_CANCEL});
    room(1, SHARE + 1);
    assert_int_equal(machine_sent_count(KVR_MSG_QUIET), 0); /* it has not stopped */
    group_says(PUSH_STOPPED, 0, NULL);
    assert_int_equal(machine_sent(KVR_MSG_QUIET)->quiet.round, 1);
    room(2, SHARE + 2);
    assert_int_equal(machine_sent(KVR_MSG_QUIET)->quiet.round, 2);
    group_closes();
    assert_int_equal(machine_notice_count(KVR_NOTICE_SOURCE_FREE), 1);
    room(3, SHARE + 3);
    assert_int_equal(machine_sent(KVR_MSG_QUIET)->quiet.round, 3);
    assert_int_equal(machine_sent_count(KVR_MSG_UNKNOWN), 0);
    assert_int_equal(machine_command_count(PUSH_RETRANSMIT), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_share_smaller_than_the_transfer_is_a_ring, open_outbound),
        cmocka_unit_test_setup(a_share_smaller_than_a_write_is_refused, open_outbound),
        cmocka_unit_test_setup(room_that_was_not_granted_is_refused, open_outbound),
        cmocka_unit_test_setup(who_has_ended_answers_it_too, open_outbound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
