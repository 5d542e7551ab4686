/* Goal: WANTs of requests that no engine publishes, from however many targets, leave room for
 * others, and none stays for ever. Method: outbound alone; the test plays the targets. */
#include "tests/support/check.h"

#include "prefill-agent/parked.h"
#include "tests/support/outbound_case.h"

#define GREAT_TOKENS (1u << 20) /* a page table of 4 MiB */

static uint32_t refused_for(uint32_t peer)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < machine_log.sent_count; i++)
        count += machine_log.sent_to[i] == peer &&
                 (machine_log.sent[i].kind == KVR_MSG_CANCEL ||
                  machine_log.sent[i].kind == KVR_MSG_FAIL) &&
                 machine_log.sent[i].reason.status == KVR_FULL;
    return count;
}

static void wants_of_nothing(uint32_t peer, uint64_t nonce, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        machine_log.sent_count = machine_log.notice_count = 0;
        want_of_deadline(peer, nonce + i, UINT32_MAX);
    }
}

/* However many requests without a publish a crowd of targets wants, those of others find room.
 */
static void a_crowd_leaves_room(void **state)
{
    (void)state;
    for (uint32_t peer = 2; peer < 8; peer++) {
        outbound_peer_comes(peer);
        wants_of_nothing(peer, peer * UINT64_C(1000000), 3 * OUTBOUND_PARKED_MAX);
    }
    machine_log.sent_count = machine_log.notice_count = 0;
    for (uint32_t i = 0; i < 30; i++)
        want_of_deadline(0, 10 + i, 1000);
    assert_int_equal(refused_for(0), 0);
    assert_int_equal(outbound.peers[0].parked, 30);
    assert_true(outbound.wants_refused > 0);
    publish_for(1);
    want(1, 7000);
    assert_int_equal(refused_for(1), 0);
}

/* Page tables of great requests: the memory is divided too. */
static void a_crowd_leaves_memory(void **state)
{
    (void)state;
    for (uint32_t peer = 2; peer < 12; peer++) {
        outbound_peer_comes(peer);
        for (uint32_t i = 0; i < 6; i++) {
            machine_log.sent_count = 0;
            want_tokens(peer, peer * UINT64_C(1000000) + i, GREAT_TOKENS);
        }
    }
    assert_true(outbound.wants_refused > 0);
    assert_true(outbound.parked_bytes <=
                (uint64_t)outbound.memory->units * KVR_BUDDY_BLOCK_BYTES / 2);
    for (uint32_t peer = 0; peer < 2; peer++) {
        machine_log.sent_count = 0;
        want_tokens(peer, 10 + peer, GREAT_TOKENS);
        assert_int_equal(refused_for(peer), 0);
        assert_int_equal(outbound.peers[peer].parked, 1);
    }
    for (uint32_t peer = 0; peer < 12; peer++)
        outbound_peer_lost(&outbound, now, peer, KVR_PEER_LOST, "gone");
    assert_int_equal(outbound.parked_bytes, 0);
    assert_int_equal(outbound.parked, 0);
}

static int open_great(void **state)
{
    (void)state;
    outbound_begin_wide(GREAT_TOKENS);
    return 0;
}

/* No target has a place for ever. */
static void a_deadline_is_bounded(void **state)
{
    (void)state;
    want_of_deadline(0, 10, UINT32_MAX);
    assert_int_equal(outbound.peers[0].parked, 1);
    tick(KVR_DEADLINE_MS_MAX * KVR_MS - KVR_S);
    assert_int_equal(outbound.peers[0].parked, 1);
    tick(2 * KVR_S);
    assert_int_equal(outbound.peers[0].parked, 0);
    assert_int_equal(outbound.parked_bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_crowd_leaves_room, open_outbound),
        cmocka_unit_test_setup(a_crowd_leaves_memory, open_great),
        cmocka_unit_test_setup(a_deadline_is_bounded, open_outbound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
