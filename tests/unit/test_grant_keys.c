/* Goal: where rails have keys of one transfer alone, GRANT names such keys, and only those that are
 * open; they are closed before the engine gets its pages back, however the transfer ends. Method:
 * inbound alone; the test is the source and the rail threads. */
#include "tests/support/check.h"

#include "kv/layout.h"
#include "tests/support/inbound_case.h"

static uint64_t nonce;

static struct kvr_region *region(void)
{
    return inbound.engines.local[0].set->locals[0];
}

static int open_case(void **state)
{
    static int registration;

    (void)open_inbound(state);
    inbound.options.groups = (struct kvr_rail_groups){.count = 2, .first = {0, 1, 2}};
    inbound.options.failover = true;
    machine_log.random = 1000003;
    region()->remote = KVR_REMOTE_GRANTED;
    memset(region()->keys, 0, sizeof(region()->keys));
    region()->memory[0] = region()->memory[1] = (struct kvr_memory *)&registration;
    return 0;
}

static void begin(void)
{
    nonce = fetch(1, 0, 1);
    plan(0, nonce);
    final(0, nonce);
}

static struct landing_keys *keys_last(void)
{
    return land_commanded(LAND_KEYS_OPEN).keys;
}

static void keys_opened(void)
{
    group_says(nonce, LAND_KEYS_OPENED, 0, keys_last());
}

static void keys_closed(void)
{
    group_says(nonce, LAND_KEYS_CLOSED, 0, keys_last());
}

static uint32_t terminals(void)
{
    return machine_notice_count(KVR_NOTICE_DONE) + machine_notice_count(KVR_NOTICE_FAILED) +
           machine_notice_count(KVR_NOTICE_CANCELLED) + machine_notice_count(KVR_NOTICE_EXPIRED);
}

static void cancel(void)
{
    struct kvr_request request = {.kind = KVR_REQ_CANCEL, .handle = 1};

    inbound_request(&inbound, now, 0, &request);
}

static void grant_waits_for_its_keys(void **state)
{
    (void)state;
    begin();
    assert_int_equal(machine_command_count(LAND_KEYS_OPEN), 1);
    assert_false(granted(nonce));
    keys_opened();
    assert_true(granted(nonce));
    assert_int_equal(machine_sent(KVR_MSG_GRANT)->grant.key_count, 1);
}

static unsigned asked, busy_from; /* the rail's thread is at work from that call on */

static kvr_status memory_open(void *self, uint32_t rail, const struct kvr_memory_span *span,
                              struct kvr_memory **ret_memory, struct kvr_error *error)
{
    static int registration;

    (void)self, (void)rail, (void)error;
    assert_true(span->at_once && span->remote && span->key != 0);
    if (asked++ >= busy_from)
        return KVR_AGAIN;
    *ret_memory = (struct kvr_memory *)&registration;
    return KVR_OK;
}

static void begin_with_memory_open(unsigned busy)
{
    static struct kvr_ports ports;

    ports = machine_ports;
    ports.memory_open = memory_open;
    inbound.ports = &ports;
    asked = 0;
    busy_from = busy;
    begin();
}

/* The rail thread hears of them, because it closes them. */
static void grant_does_not_wait_for_a_thread_that_sleeps(void **state)
{
    (void)state;
    begin_with_memory_open(UINT32_MAX);
    assert_int_equal(asked, 1);
    assert_true(granted(nonce));
    assert_int_equal(machine_sent(KVR_MSG_GRANT)->grant.key_count, 1);
    assert_int_equal(machine_command_count(LAND_KEYS_OPEN), 1);
    assert_true(keys_last()->open);
    group_says(nonce, LAND_ALL, SMALL_CHUNKS, NULL);
    assert_int_equal(machine_command_count(LAND_KEYS_CLOSE), 1);
    keys_closed();
    assert_int_equal(machine_notice_count(KVR_NOTICE_DONE), 1);
    group_closes(nonce);
}

static void grant_waits_for_a_thread_that_is_at_work(void **state)
{
    (void)state;
    begin_with_memory_open(0);
    assert_int_equal(asked, 1);
    assert_false(keys_last()->open);
    assert_false(granted(nonce));
    keys_opened();
    assert_true(granted(nonce));
}

/* Pages 1, 3, 5 and 7 of the region are fetched; page 0 is no part of it. */
static void the_pages_of_the_request_are_opened(void **state)
{
    const struct landing_spans *spans;
    uint64_t first, end;

    (void)state;
    begin();
    spans = keys_last()->spans;
    kvr_layout_span(&region()->layout, 1, 7, &first, &end);
    assert_true(first > 0);
    assert_int_equal(spans->count, 1);
    assert_ptr_equal(spans->list[0].base, region()->base + first);
    assert_int_equal(spans->list[0].bytes, end - first);
    assert_int_equal(spans->list[0].key.base + first, 0);
}

/* A region that lies in the memory of another has that one's kvr_region, and a layout of its own.
 */
static void a_region_in_the_memory_of_another_has_its_own_pages(void **state)
{
    struct kvr_region_layout layout = region()->layout;
    const struct landing_spans *spans;
    uint64_t first, end;

    (void)state;
    kvr_layout_span(&layout, 1, 7, &first, &end);
    region()->layout.base += layout.page_stride; /* the other's */
    begin();
    spans = keys_last()->spans;
    assert_ptr_equal(spans->list[0].base, region()->base + first);
    assert_int_equal(spans->list[0].bytes, end - first);
    region()->layout = layout;
}

/* Any page may follow. */
static void until_all_pages_are_named_the_region_is_opened(void **state)
{
    struct kvr_page_table *pages;
    const struct landing_spans *spans;

    (void)state;
    nonce = fetch(1, 0, 1);
    pages = &((struct fetch *)kvr_pool_at(&inbound.fetches, 0, NULL))->pages.groups[0];
    assert_int_equal(pages->count, pages->capacity);
    pages->capacity++;
    plan(0, nonce);
    spans = keys_last()->spans;
    pages->capacity--;
    assert_ptr_equal(spans->list[0].base, region()->base);
    assert_int_equal(spans->list[0].bytes, region()->layout.bytes);
    assert_int_equal(spans->list[0].key.base, 0);
}

/* Other bits than those that count spans are random, and none is 0. */
static void a_key_is_drawn_for_each_transfer(void **state)
{
    static const uint64_t drawn[] = {0, 1, 512, UINT64_MAX, UINT64_C(0x123456789abcdef0)};
    uint64_t keys[sizeof(drawn) / sizeof(drawn[0])];

    (void)state;
    for (size_t i = 0; i < sizeof(drawn) / sizeof(drawn[0]); i++) {
        const struct landing_spans *spans;

        (void)open_case(NULL);
        machine_log.random = drawn[i];
        begin();
        spans = keys_last()->spans;
        keys[i] = spans->list[0].key.key;
        assert_int_not_equal(keys[i], 0);
        assert_int_equal(keys[i] % KVR_REGIONS_MAX, 0);
        for (size_t k = 0; k < i; k++)
            assert_int_not_equal(keys[k], keys[i]);
    }
}

static void done_waits_until_they_are_closed(void **state)
{
    (void)state;
    begin();
    keys_opened();
    group_says(nonce, LAND_ALL, SMALL_CHUNKS, NULL);
    assert_int_equal(machine_command_count(LAND_KEYS_CLOSE), 1);
    assert_int_equal(terminals(), 0);
    assert_int_equal(machine_sent_count(KVR_MSG_LANDED), 0);
    keys_closed();
    assert_int_equal(machine_notice_count(KVR_NOTICE_DONE), 1);
    assert_int_equal(machine_sent_count(KVR_MSG_LANDED), 1);
    group_closes(nonce);
}

/* The rail thread closes them with the last chunk. */
static void done_waits_for_nothing_where_they_are_closed(void **state)
{
    (void)state;
    begin();
    keys_opened();
    keys_closed();
    assert_int_equal(terminals(), 0);
    group_says(nonce, LAND_ALL, SMALL_CHUNKS, NULL);
    assert_int_equal(machine_command_count(LAND_KEYS_CLOSE), 0);
    assert_int_equal(machine_notice_count(KVR_NOTICE_DONE), 1);
    group_closes(nonce);
}

/* It reports that while the loop asks for the same. */
static void both_may_close_them(void **state)
{
    (void)state;
    begin();
    keys_opened();
    cancel();
    quiet(0, nonce, 0);
    group_says(nonce, LAND_IS_QUIET, 0, NULL);
    assert_int_equal(machine_command_count(LAND_KEYS_CLOSE), 1);
    group_says(nonce, LAND_IS_QUIET, 0, NULL);
    quiet(0, nonce, 0);
    assert_int_equal(terminals(), 0);
    keys_closed();
    assert_int_equal(machine_notice_count(KVR_NOTICE_CANCELLED), 1);
}

static void a_cancel_before_grant_sends_none(void **state)
{
    (void)state;
    begin();
    cancel();
    assert_int_equal(machine_command_count(LAND_KEYS_CLOSE), 1);
    assert_int_equal(machine_sent_count(KVR_MSG_CANCEL), 1);
    keys_opened();
    assert_false(granted(nonce));
    assert_int_equal(terminals(), 0);
    keys_closed();
    assert_int_equal(machine_notice_count(KVR_NOTICE_CANCELLED), 1);
    group_closes(nonce);
    assert_int_equal(inbound.free_count, SLOTS);
}

static void what_cannot_be_opened_fails(void **state)
{
    (void)state;
    begin();
    (void)kvr_error_set(&keys_last()->error, KVR_SYSTEM, "test", "no room");
    keys_opened();
    assert_false(granted(nonce));
    keys_closed();
    assert_int_equal(machine_notice_count(KVR_NOTICE_FAILED), 1);
    assert_string_equal(machine_notice(KVR_NOTICE_FAILED)->detail, "no room");
}

/* A source that is gone may write until its epochs have ended. */
static void a_fence_comes_first(void **state)
{
    (void)state;
    begin();
    keys_opened();
    inbound_peer_lost(&inbound, now, 0, KVR_PEER_LOST, "gone");
    assert_int_equal(machine_command_count(LAND_KEYS_CLOSE), 0);
    group_says(nonce, LAND_IS_QUIET, 0, NULL);
    assert_int_equal(machine_command_count(LAND_KEYS_CLOSE), 1);
    assert_int_equal(terminals(), 0);
    keys_closed();
    assert_int_equal(machine_notice_count(KVR_NOTICE_FAILED), 1);
}

/* Of another rail group too, with the keys that the source has. */
static void a_group_that_carries_on_opens_the_same(void **state)
{
    struct landing_keys *home, *other;

    (void)state;
    begin();
    home = keys_last();
    keys_opened();
    reason(0, nonce, KVR_MSG_NO_RAIL, KVR_NO_RAIL);
    inbound_registered(&inbound, now, machine_log.registered_id, KVR_OK);
    other = keys_last();
    assert_int_equal(other->group, 1);
    assert_ptr_equal(other->spans, home->spans);
    assert_int_equal(machine_sent_count(KVR_MSG_GRANT), 1);
    group_says(nonce, LAND_KEYS_OPENED, 0, other);
    assert_int_equal(machine_sent_count(KVR_MSG_GRANT), 2);
    group_says(nonce, LAND_KEYS_CLOSED, 0, home);
    group_says(nonce, LAND_ALL, SMALL_CHUNKS, NULL);
    assert_int_equal(machine_command(LAND_KEYS_CLOSE)->head.group, 1);
    assert_int_equal(terminals(), 0);
    group_says(nonce, LAND_KEYS_CLOSED, 0, other);
    assert_int_equal(machine_notice_count(KVR_NOTICE_DONE), 1);
}

static void rails_without_such_keys_grant_at_once(void **state)
{
    (void)state;
    region()->keys[0].key = 77;
    begin();
    assert_int_equal(machine_command_count(LAND_KEYS_OPEN), 0);
    assert_true(granted(nonce));
    assert_int_equal(machine_sent(KVR_MSG_GRANT)->grant.key_count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(grant_waits_for_its_keys, open_case),
        cmocka_unit_test_setup(grant_does_not_wait_for_a_thread_that_sleeps, open_case),
        cmocka_unit_test_setup(grant_waits_for_a_thread_that_is_at_work, open_case),
        cmocka_unit_test_setup(the_pages_of_the_request_are_opened, open_case),
        cmocka_unit_test_setup(a_region_in_the_memory_of_another_has_its_own_pages, open_case),
        cmocka_unit_test_setup(until_all_pages_are_named_the_region_is_opened, open_case),
        cmocka_unit_test_setup(a_key_is_drawn_for_each_transfer, open_case),
        cmocka_unit_test_setup(done_waits_until_they_are_closed, open_case),
        cmocka_unit_test_setup(done_waits_for_nothing_where_they_are_closed, open_case),
        cmocka_unit_test_setup(both_may_close_them, open_case),
        cmocka_unit_test_setup(a_cancel_before_grant_sends_none, open_case),
        cmocka_unit_test_setup(what_cannot_be_opened_fails, open_case),
        cmocka_unit_test_setup(a_fence_comes_first, open_case),
        cmocka_unit_test_setup(a_group_that_carries_on_opens_the_same, open_case),
        cmocka_unit_test_setup(rails_without_such_keys_grant_at_once, open_case),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
