/* Goal: spans of transfers reach the scheduler, however long they are, with every event.
 * Method: a reporter against the real HTTP port, writer and database in this process. */
#include "tests/support/check.h"

#include <stdio.h>

#include "agent/report/reporter.h"
#include "scheduler/scheduler.h"
#include "tests/support/folder.h"
#include "trace/spans.h"

static void count_spans(void *self, const struct kvr_spans *spans)
{
    (void)spans;
    ++*(int *)self;
}

/* A thousand ends with the longest spans are more than a report may have. */
static void reporter_hands_over_spans_however_long(void **state)
{
    struct kvr_reporter_options options = {
        .agent = "decode-0", .boot = 8, .memory_bytes_max = 64u << 20, .close_ms = 60000};
    struct scheduler scheduler = {0};
    struct kvr_reporter *reporter;
    struct kvr_event_sink sink;
    char folder[FOLDER_BYTES], address[64];
    static union {
        struct kvr_span_book book;
        uint8_t room[sizeof(struct kvr_span_book) + KVR_LAYERS_MAX * sizeof(struct kvr_layer_span)];
    } notes;
    uint8_t spans[KVR_SPANS_BYTES_MAX] = {0};
    uint64_t counts[STATE_END], stored = 0;
    int count = 0;

    (void)state;
    folder_make(folder);
    assert_int_equal(scheduler_open(&(struct scheduler_options){.state_dir = folder,
                                                                .retention = KVR_NEVER,
                                                                .listen = {.host = "127.0.0.1"},
                                                                .connections_max = 64},
                                    &scheduler, NULL),
                     KVR_OK);
    snprintf(address, sizeof(address), "127.0.0.1:%u", scheduler.port);
    options.scheduler = address;
    assert_int_equal(kvr_reporter_open(&options, &reporter, NULL), KVR_OK);
    sink = kvr_reporter_sink(reporter);
    kvr_span_book_open(&notes.book, 0, 0, KVR_LAYERS_MAX);
    for (uint64_t id = 1; id <= 2000; id++) {
        struct kvr_event event = {.kind = KVR_EVENT_ENDED,
                                  .role = KVR_ROLE_TARGET,
                                  .at = kvr_clock_now(),
                                  .transfer = id,
                                  .request = "request",
                                  .spans = spans,
                                  .spans_bytes = sizeof(spans)};

        memset(event.detail, 'x', sizeof(event.detail) - 1);
        if (id == 1)
            event.spans_bytes =
                (uint32_t)kvr_spans_pack(&notes.book, KVR_ROLE_TARGET, event.at, spans);
        sink.emit(sink.self, &event);
    }
    kvr_reporter_close(reporter); /* as soon as the scheduler has all */
    assert_true(store_list_spans(scheduler.reader, 1, count_spans, &count));
    assert_int_equal(count, 1);
    assert_true(store_count_states(scheduler.reader, counts));
    for (int i = 0; i < STATE_END; i++)
        stored += counts[i];
    assert_int_equal(stored, 2000);
    scheduler_close(&scheduler);
    folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reporter_hands_over_spans_however_long),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
