/* Goal: slots and bitmaps are taken for a whole fetch at once, when there is something to send, the
 * oldest fetch first. They return transfer by transfer (rules 5 and 6). Method: inbound alone, with
 * recorded ports. */
#include "tests/support/check.h"

#include "tests/support/inbound_case.h"

static void slots_are_for_a_whole_fetch_and_the_oldest_first(void **state)
{
    uint64_t small = fetch(1, 3, 1), first = fetch(2, 0, 3), second = fetch(3, 3, 1);

    (void)state;
    plan(3, small);
    assert_true(granted(small));
    plan(0, first); /* needs three slots: two are free */
    assert_false(granted(first));
    plan(3, second); /* could be served, and does not pass the older one */
    assert_false(granted(second));
    assert_int_equal(inbound.free_count, SLOTS - 1);

    final(3, small);
    group_says(small, LAND_ALL, SMALL_CHUNKS, NULL);
    group_closes(small);
    assert_true(granted(first));
    assert_false(granted(second));
    assert_int_equal(inbound.free_count, 0);
    plan(1, first + 1); /* its slot is reserved already */
    assert_true(granted(first + 1));

    /* Returned transfer by transfer. */
    final(0, first);
    group_says(first, LAND_ALL, SMALL_CHUNKS, NULL);
    group_closes(first);
    assert_true(granted(second));
}

/* The order is that of opening, not of the first PLAN. */
static void slots_go_to_the_older_that_came_later(void **state)
{
    uint64_t holder = fetch(1, 0, 3), older = fetch(2, 3, 1), younger = fetch(3, 3, 1);

    (void)state;
    plan(0, holder);
    plan(3, younger);
    plan(3, older);
    assert_false(granted(older) || granted(younger));
    final(0, holder);
    group_says(holder, LAND_ALL, SMALL_CHUNKS, NULL);
    group_closes(holder);
    assert_true(granted(older));
    assert_false(granted(younger));
}

static void slots_wait_no_longer_for_a_fetch_that_ended(void **state)
{
    struct kvr_request cancel = {.kind = KVR_REQ_CANCEL, .handle = 2};
    uint64_t holder = fetch(1, 3, 1), large = fetch(2, 0, 3), small = fetch(3, 3, 1);

    (void)state;
    plan(3, holder);
    plan(0, large);
    plan(3, small);
    assert_false(granted(small));
    inbound_request(&inbound, now, 0, &cancel);
    assert_true(granted(small));
    assert_int_equal(machine_notice(KVR_NOTICE_CANCELLED)->handle, 2);
}

static void a_fetch_larger_than_the_pool_is_refused(void **state)
{
    uint64_t nonce = fetch(1, 0, 4);

    (void)state;
    (void)nonce;
    assert_int_equal(machine_sent_count(KVR_MSG_WANT), 0);
    assert_int_equal(machine_notice(KVR_NOTICE_FAILED)->status, KVR_TOO_LARGE);
    assert_int_equal(inbound_live(&inbound), 0);
}

/* Heads lie side by side at the target, and apart at the source, as its regions show: each head is
 * a write, 4 slots in all. */
static void a_fetch_that_turns_out_larger_than_the_pool_fails(void **state)
{
    static struct small_side apart;
    struct kvr_region_layout *wide = &inbound.engines.local[0].set->layouts[0];
    struct kvr_message regions;
    uint64_t large;

    (void)state;
    wide->head_bytes = wide->head_stride = 1;
    wide->head_count = KVR_SLOT_CHUNKS / 2;
    wide->token_stride = wide->page_stride = wide->head_count;
    wide->layer_stride = SMALL_PAGES * wide->page_stride;
    wide->bytes = SMALL_LAYERS * wide->layer_stride;
    small_side_init(&apart, 0);
    apart.layouts[0] = *wide;
    apart.layouts[0].head_stride = 2;
    apart.layouts[0].token_stride = apart.layouts[0].page_stride = 2 * wide->page_stride;
    apart.layouts[0].layer_stride = 2 * wide->layer_stride;
    apart.layouts[0].bytes = 2 * wide->bytes;
    machine_regions(10, &apart, 0, &regions);
    inbound_message(&inbound, now, 0, &regions);
    large = fetch(1, 0, 1);
    plan(0, large);
    assert_int_equal(machine_notice(KVR_NOTICE_FAILED)->status, KVR_TOO_LARGE);
    assert_non_null(strstr(machine_notice(KVR_NOTICE_FAILED)->detail, "it may need 4 slots"));
    assert_non_null(strstr(machine_notice(KVR_NOTICE_FAILED)->detail, "--slots"));
}

static void slots_are_reused_oldest_first(void **state)
{
    uint16_t seen[SLOTS + 1];

    (void)state;
    for (uint32_t i = 0; i <= SLOTS; i++) {
        uint64_t nonce = fetch(10 + i, 0, 1);
        const struct landing *landing;

        machine_log_clear();
        plan(0, nonce);
        landing = land_commanded(LAND_OPEN).opened;
        seen[i] = landing->slots[0];
        final(0, nonce);
        group_says(nonce, LAND_ALL, SMALL_CHUNKS, NULL);
        group_closes(nonce);
    }
    for (uint32_t i = 0; i < SLOTS; i++)
        for (uint32_t k = 0; k < i; k++)
            assert_int_not_equal(seen[i], seen[k]);
    assert_int_equal(seen[SLOTS], seen[0]);
    assert_int_not_equal(seen[0], 0);
}

/* Any of the older half may be drawn, and none of the younger. Each is drawn once before it has
 * rested again. */
static void slots_are_drawn_of_the_older_half(void **state)
{
    bool drawn[KVR_SLOTS] = {false};
    uint16_t last = 0;

    (void)state;
    inbound_begin_within(SLOTS, 0);
    for (uint32_t i = 0; i < 200; i++) {
        uint64_t nonce = fetch(10 + i, 0, 1);
        uint16_t slot;

        machine_log_clear();
        machine_log.random = UINT64_C(0x9e3779b97f4a7c15) * (i + 1);
        plan(0, nonce);
        slot = land_commanded(LAND_OPEN).opened->slots[0];
        assert_in_range(slot, 1, (KVR_SLOTS - 1) / 2 + 201);
        assert_false(drawn[slot]);
        assert_int_not_equal(slot, last + 1); /* counting finds none */
        drawn[slot] = true;
        last = slot;
        final(0, nonce);
        group_says(nonce, LAND_ALL, SMALL_CHUNKS, NULL);
        group_closes(nonce);
    }
}

/* One for all GRANTs of a transfer, another for the next transfer, and never 0. */
static void each_transfer_has_a_tag(void **state)
{
    static const uint64_t random[] = {0, 1, UINT32_MAX, UINT64_MAX, 0x123456789abcdef0};
    uint32_t tags[5];

    (void)state;
    for (uint32_t i = 0; i < 5; i++) {
        uint64_t nonce = fetch(10 + i, 0, 1);

        machine_log_clear();
        machine_log.random = random[i];
        plan(0, nonce);
        tags[i] = land_commanded(LAND_OPEN).opened->tag;
        assert_int_not_equal(tags[i], 0);
        assert_int_equal(machine_sent(KVR_MSG_GRANT)->grant.tag, tags[i]);
        final(0, nonce);
        group_says(nonce, LAND_ALL, SMALL_CHUNKS, NULL);
        group_closes(nonce);
    }
    assert_int_equal(tags[0], 1);
    assert_int_equal(tags[1], 2);
    assert_int_equal(tags[2], 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(slots_are_for_a_whole_fetch_and_the_oldest_first, open_inbound),
        cmocka_unit_test_setup(slots_go_to_the_older_that_came_later, open_inbound),
        cmocka_unit_test_setup(slots_wait_no_longer_for_a_fetch_that_ended, open_inbound),
        cmocka_unit_test_setup(a_fetch_larger_than_the_pool_is_refused, open_inbound),
        cmocka_unit_test_setup(a_fetch_that_turns_out_larger_than_the_pool_fails, open_inbound),
        cmocka_unit_test_setup(slots_are_reused_oldest_first, open_inbound),
        cmocka_unit_test_setup(slots_are_drawn_of_the_older_half, open_inbound),
        cmocka_unit_test_setup(each_transfer_has_a_tag, open_inbound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
