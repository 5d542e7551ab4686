/* Goal: the source agent sends the spans of the transfers that are wanted, with their end.
 * Method: outbound alone; the test plays the rail thread, and reads the events. */
#include "tests/support/check.h"

#include "prefill-agent/source_transfer.h"
#include "tests/support/outbound_case.h"

static struct kvr_spans spans; /* of the last ENDED, as all below */
static struct kvr_page_run runs[SMALL_PAGES];
static uint32_t run_count, unrecorded;
static kvr_role pages_role;
static kvr_status ended_as;
static bool has_ended, has_spans, has_book;

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
    if (event->kind != KVR_EVENT_ENDED || event->transfer == 0) {
        assert_int_equal(event->spans_bytes, 0);
        return;
    }
    has_ended = true;
    ended_as = event->outcome;
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
    int opened = open_outbound(state);

    ports = *outbound.ports;
    ports.events = (struct kvr_event_sink){.emit = take_event};
    outbound.ports = &ports;
    outbound.options.spans = (struct kvr_spans_choice){.every = 1, .slow_ns = KVR_S};
    has_ended = has_spans = false;
    return opened;
}

/* The target has everything a second after the GRANT, or the transfer fails; the rail thread has
 * posted layer 0 alone, over rail 1. */
static void transfer_begins(uint64_t nonce)
{
    struct push_job *job;

    publish_for(1);
    publish_all();
    want(0, nonce);
    grant(0, nonce);
    job = push_commanded(PUSH_OPEN).opened;
    has_book = job->posts.spans != NULL;
    if (has_book) {
        kvr_span_begins(job->posts.spans, 0, now + KVR_MS);
        kvr_span_ends(job->posts.spans, 0, now + 3 * KVR_MS);
    }
    job->posts.pair_count = 2;
    job->posts.pairs[0] =
        (struct push_pair){.pair = {.rail = 1}, .count = 3, .bytes = 3000, .repeated = 1};
    job->posts.pairs[1] = (struct push_pair){
        .pair = {.rail = 1, .target_rail = 1}, .count = 2, .bytes = 2000, .repeated = 0};
}

static void transfer_settles(uint64_t nonce, kvr_status status)
{
    tick(KVR_S);
    message(0, nonce, status == KVR_OK ? KVR_MSG_LANDED : KVR_MSG_CANCEL, status);
    group_says(PUSH_STOPPED, 0, NULL);
    group_closes();
    assert_true(has_ended);
    assert_int_equal(ended_as, status);
}

static void transfer_ends(uint64_t nonce, kvr_status status)
{
    transfer_begins(nonce);
    transfer_settles(nonce, status);
}

static void spans_come_with_the_end(void **state)
{
    (void)state;
    transfer_ends(NONCE, KVR_OK);
    assert_true(has_spans);
    assert_int_equal(spans.role, KVR_ROLE_SOURCE);
    assert_int_equal(spans.layer_count, SMALL_LAYERS);
    assert_int_equal(spans.layers[0].begins_us, 999000);
    assert_int_equal(spans.layers[0].ends_us, 997000);
    assert_int_equal(spans.layers[1].begins_us, KVR_SPAN_NEVER);
    assert_int_equal(spans.rail_count, 1);
    assert_int_equal(spans.rails[0].rail, 1);
    assert_int_equal(spans.rails[0].carried.writes, 5);
    assert_int_equal(spans.rails[0].carried.bytes, 5000);
    assert_int_equal(spans.rails[0].carried.retries, 1);
}

static void one_of_many_is_sent(void **state)
{
    (void)state;
    outbound.options.spans.every = NONCE;
    transfer_ends(NONCE, KVR_OK);
    assert_true(has_spans);
    transfer_ends(NONCE + 1, KVR_OK);
    assert_false(has_spans);
}

static void a_failed_one_is_sent(void **state)
{
    (void)state;
    outbound.options.spans.every = NONCE;
    transfer_ends(NONCE + 1, KVR_CANCELLED);
    assert_true(has_spans);
}

static void a_slow_one_is_sent(void **state)
{
    (void)state;
    outbound.options.spans = (struct kvr_spans_choice){.every = NONCE, .slow_ns = KVR_S - 1};
    transfer_ends(NONCE + 1, KVR_OK);
    assert_true(has_spans);
}

static void none_are_noted_where_none_are_sent(void **state)
{
    size_t used;

    (void)state;
    outbound.options.spans.every = 0;
    used = outbound.memory->used_bytes;
    transfer_ends(NONCE, KVR_CANCELLED);
    assert_false(has_spans);
    assert_false(has_book);
    assert_int_equal(outbound.memory->used_bytes, used);
}

/* Every block of memory comes back. */
static void the_book_is_given_back(void **state)
{
    size_t used = outbound.memory->used_bytes;

    (void)state;
    transfer_ends(NONCE, KVR_OK);
    assert_int_equal(outbound.memory->used_bytes, used);
}

static void asked(kvr_ns length)
{
    struct kvr_machine machine = outbound_machine(&outbound);
    const struct kvr_order order = {.kind = KVR_ORDER_RECORD, .lease_ns = length};

    (void)machine.order(machine.self, now, &order);
}

/* Pages 0, 2, 4, 6: no two are neighbours. */
static void pages_come_while_a_recorder_asks(void **state)
{
    size_t used = outbound.memory->used_bytes;

    (void)state;
    transfer_ends(NONCE, KVR_OK);
    assert_int_equal(run_count, 0);
    asked(KVR_S + KVR_MS); /* the transfer takes a second */
    transfer_ends(NONCE + 1, KVR_OK);
    assert_int_equal(run_count, SMALL_PLANNED);
    assert_int_equal(pages_role, KVR_ROLE_SOURCE);
    for (uint32_t i = 0; i < SMALL_PLANNED; i++) {
        assert_int_equal(runs[i].page_first, 2 * i);
        assert_int_equal(runs[i].page_count, 1);
    }
    assert_int_equal(unrecorded, 0);
    transfer_ends(NONCE + 2, KVR_OK); /* the recorder did not ask again */
    assert_int_equal(run_count, 0);
    assert_int_equal(outbound.memory->used_bytes, used);
}

static void pages_of_one_of_many_are_sent(void **state)
{
    (void)state;
    outbound.pages.every = NONCE;
    transfer_ends(NONCE, KVR_OK);
    assert_int_equal(run_count, SMALL_PLANNED);
    transfer_ends(NONCE + 1, KVR_OK);
    assert_int_equal(run_count, 0);
}

/* All of the arena is taken when the transfer ends. */
static void pages_without_memory_are_counted(void **state)
{
    static void *blocks[MACHINE_MEMORY_BYTES / KVR_PAGE_RUNS_BYTES_MAX + 1];
    uint32_t count = 0;

    (void)state;
    asked(60 * KVR_S);
    transfer_begins(NONCE);
    while ((blocks[count] = kvr_buddy_alloc(outbound.memory, KVR_PAGE_RUNS_BYTES_MAX)) != NULL)
        count++;
    assert_true(count > 0);
    transfer_settles(NONCE, KVR_OK);
    assert_true(has_spans);
    assert_int_equal(run_count, 0);
    assert_int_equal(unrecorded, 1);
    while (count > 0)
        kvr_buddy_free(outbound.memory, blocks[--count]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(spans_come_with_the_end, open_spans),
        cmocka_unit_test_setup(one_of_many_is_sent, open_spans),
        cmocka_unit_test_setup(a_failed_one_is_sent, open_spans),
        cmocka_unit_test_setup(a_slow_one_is_sent, open_spans),
        cmocka_unit_test_setup(none_are_noted_where_none_are_sent, open_spans),
        cmocka_unit_test_setup(the_book_is_given_back, open_spans),
        cmocka_unit_test_setup(pages_come_while_a_recorder_asks, open_spans),
        cmocka_unit_test_setup(pages_of_one_of_many_are_sent, open_spans),
        cmocka_unit_test_setup(pages_without_memory_are_counted, open_spans),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
