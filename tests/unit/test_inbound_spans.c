/* Goal: the target agent sends the spans of the transfers that are wanted, with their end.
 * Method: inbound alone; the test plays the rail thread, and reads the events. */
#include "tests/support/check.h"

#include "tests/support/inbound_case.h"

static struct kvr_spans spans; /* of the last ENDED, as all below */
static struct kvr_page_run runs[SMALL_PAGES];
static uint32_t run_count, unrecorded;
static kvr_role pages_role;
static bool has_ended, has_spans;

static void take_run(void *self, uint32_t group, struct kvr_page_run run)
{
    (void)self;
    assert_int_equal(group, 0);
    assert_true(run_count < SMALL_PAGES);
    runs[run_count++] = run;
}

static void take_event(void *self, const struct kvr_event *event)
{
    (void)self;
    if (event->kind != KVR_EVENT_ENDED) {
        assert_int_equal(event->spans_bytes, 0);
        return;
    }
    has_ended = true;
    has_spans = event->spans_bytes > 0;
    if (has_spans)
        assert_int_equal(kvr_spans_unpack(event->spans, event->spans_bytes, &spans), KVR_OK);
    run_count = 0;
    unrecorded = event->unrecorded;
    if (event->pages_bytes > 0)
        assert_int_equal(
            kvr_page_runs_unpack(event->pages, event->pages_bytes, &pages_role, take_run, NULL),
            KVR_OK);
}

static int open_spans(void **state)
{
    static struct kvr_ports ports;
    int opened = open_inbound(state);

    ports = *inbound.ports;
    ports.events = (struct kvr_event_sink){.emit = take_event};
    inbound.ports = &ports;
    inbound.options.spans = (struct kvr_spans_choice){.every = 1, .slow_ns = KVR_S};
    has_ended = has_spans = false;
    return opened;
}

static void layer_lands(uint64_t nonce, uint32_t layer, kvr_ns at)
{
    union land_message message = {
        .head.kind = LAND_LAYER, .transfer = nonce, .layer = {.layer = layer, .at = at}};

    assert_true(kvr_table_find(&inbound.by_nonce, nonce, &message.landing));
    inbound_group(&inbound, now, &message.any);
}

static struct landing *granted_landing(uint64_t nonce)
{
    plan(0, nonce);
    assert_true(granted(nonce));
    return land_commanded(LAND_OPEN).opened;
}

static void spans_come_with_the_end(void **state)
{
    size_t used = inbound.memory->used_bytes;
    uint64_t nonce = fetch(1, 0, 1);
    struct landing *landing = granted_landing(nonce);
    kvr_ns began = now;

    (void)state;
    landing->arrived.spans[1] = (struct kvr_rail_span){.bytes = 4096, .retries = 1};
    landing->arrived.counts[0] = (struct kvr_epoch_count){.rail = 1, .epoch = 1, .count = 2};
    landing->arrived.counts[1] = (struct kvr_epoch_count){.rail = 1, .epoch = 2, .count = 3};
    landing->arrived.counts[2].rail = UINT32_MAX; /* a peer's word */
    landing->arrived.count_count = 3;
    final(0, nonce);
    tick(10 * KVR_MS);
    layer_lands(nonce, 1, began + 8 * KVR_MS);
    layer_lands(nonce, 0, began + 12 * KVR_MS); /* this thread has read the clock before */
    tick(10 * KVR_MS);
    group_says(nonce, LAND_ALL, SMALL_CHUNKS, NULL);
    group_closes(nonce);
    assert_true(has_ended && has_spans);
    assert_int_equal(spans.role, KVR_ROLE_TARGET);
    assert_int_equal(spans.layer_count, SMALL_LAYERS);
    assert_int_equal(spans.layers[1].begins_us, 12000);
    assert_int_equal(spans.layers[1].ends_us, 10000);
    assert_int_equal(spans.layers[0].begins_us, 8000);
    assert_int_equal(spans.layers[0].ends_us, 8000);
    assert_int_equal(spans.rail_count, 1);
    assert_int_equal(spans.rails[0].carried.writes, 5);
    assert_int_equal(inbound.memory->used_bytes, used);
}

static void a_failed_one_is_sent(void **state)
{
    uint64_t nonce = fetch(1, 0, 1);
    struct landing *landing = granted_landing(nonce);

    (void)state;
    (void)landing;
    inbound.options.spans.every = UINT32_MAX;
    final(0, nonce);
    layer_lands(nonce, 0, now);
    reason(0, nonce, KVR_MSG_FAIL, KVR_PEER_LOST);
    quiet(0, nonce, 0);
    group_says(nonce, LAND_IS_QUIET, 0, NULL);
    group_closes(nonce);
    assert_true(has_ended && has_spans); /* it failed */
    assert_int_equal(spans.layers[1].begins_us, KVR_SPAN_NEVER);
    assert_int_equal(spans.layers[0].ends_us, 0);
}

static void none_are_noted_where_none_are_sent(void **state)
{
    uint64_t nonce;

    (void)state;
    inbound.options.spans.every = 0;
    nonce = fetch(1, 0, 1);
    assert_null(granted_landing(nonce)->arrived.spans);
    final(0, nonce);
    group_says(nonce, LAND_ALL, SMALL_CHUNKS, NULL);
    group_closes(nonce);
    assert_true(has_ended && !has_spans);
}

static void pages_come_while_a_recorder_asks(void **state)
{
    struct kvr_machine machine = inbound_machine(&inbound);
    const struct kvr_order order = {.kind = KVR_ORDER_RECORD, .lease_ns = KVR_S};
    size_t used = inbound.memory->used_bytes;

    (void)state;
    (void)machine.order(machine.self, now, &order);
    for (uint64_t handle = 1; handle <= 2; handle++) {
        uint64_t nonce = fetch(handle, 0, 1);

        (void)granted_landing(nonce);
        final(0, nonce);
        group_says(nonce, LAND_ALL, SMALL_CHUNKS, NULL);
        group_closes(nonce);
        assert_true(has_ended);
        assert_int_equal(run_count, handle == 1 ? SMALL_PLANNED : 0);
        for (uint32_t i = 0; i < run_count; i++)
            assert_int_equal(runs[i].page_first, 1 + 2 * i);
        tick(2 * KVR_S); /* the recorder is gone */
    }
    assert_int_equal(pages_role, KVR_ROLE_TARGET);
    assert_int_equal(unrecorded, 0);
    assert_int_equal(inbound.memory->used_bytes, used);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(spans_come_with_the_end, open_spans),
        cmocka_unit_test_setup(a_failed_one_is_sent, open_spans),
        cmocka_unit_test_setup(none_are_noted_where_none_are_sent, open_spans),
        cmocka_unit_test_setup(pages_come_while_a_recorder_asks, open_spans),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
