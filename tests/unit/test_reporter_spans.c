/* Goal: spans of transfers reach the scheduler, however long they are, with every event. Events
 * that find the ring full are counted.
 * Method: a reporter against the real HTTP port, writer and database in this process. */
#include "tests/support/check.h"

#include <stdio.h>
#include <time.h>

#include "agent/report/reporter.h"
#include "scheduler/scheduler.h"
#include "tests/support/folder.h"
#include "trace/page_runs.h"
#include "trace/spans.h"

static void open_scheduler(struct scheduler *scheduler, char folder[FOLDER_BYTES], char address[64])
{
    folder_make(folder);
    assert_int_equal(scheduler_open(&(struct scheduler_options){.place.folder = folder,
                                                                .place.retention = KVR_NEVER,
                                                                .listen = {.host = "127.0.0.1"},
                                                                .connections_max = 64},
                                    scheduler, NULL),
                     KVR_OK);
    snprintf(address, 64, "127.0.0.1:%u", scheduler->port);
}

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
    open_scheduler(&scheduler, folder, address);
    options.schedulers[0] = address;
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
    ingest_settle(scheduler.ingest, 10 * KVR_S);
    assert_true(store_list_records(
        scheduler.reader, 1, &(struct records_visitor){.self = &count, .spans = count_spans}));
    assert_int_equal(count, 1);
    assert_true(store_count_states(scheduler.reader, counts));
    for (int i = 0; i < STATE_END; i++)
        stored += counts[i];
    assert_int_equal(stored, 2000);
    scheduler_close(&scheduler);
    folder_remove(folder);
}

static void read_dropped(void *self, const struct agent_row *row,
                         const struct kvr_agent_facts *facts)
{
    (void)facts;
    *(uint64_t *)self = row->dropped;
}

static struct kvr_reporter_stats wait_for(struct kvr_reporter *reporter, uint64_t settled)
{
    const struct timespec pause = {0, 50000000};
    struct kvr_reporter_stats stats = {0};

    for (int i = 0; i < 1200 && stats.acknowledged + stats.dropped < settled; i++) {
        nanosleep(&pause, NULL);
        kvr_reporter_stats(reporter, &stats);
    }
    return stats;
}

/* The recorder of the loop thread is a ring of 8,192 places. A thread that fills it faster than the
 * reporter empties it loses events. Each is counted, at the agent and at the scheduler. */
static void reporter_counts_the_losses_of_its_ring(void **state)
{
    static struct kvr_agent_facts facts;
    struct kvr_reporter_options options = {
        .agent = "decode-0", .boot = 8, .memory_bytes_max = 256u << 20, .close_ms = 60000};
    struct scheduler scheduler = {0};
    struct kvr_reporter *reporter;
    struct kvr_reporter_stats stats = {0};
    struct kvr_event_sink sink;
    char folder[FOLDER_BYTES], address[64];
    const uint8_t packed[2000] = {0};
    uint64_t emitted = 0, told = 0;

    (void)state;
    open_scheduler(&scheduler, folder, address);
    options.schedulers[0] = address;
    assert_int_equal(kvr_reporter_open(&options, &reporter, NULL), KVR_OK);
    sink = kvr_reporter_sink(reporter);
    for (int round = 0; round < 20 && stats.dropped == 0; round++) {
        for (int i = 0; i < 20000; i++) {
            struct kvr_event event = {.kind = KVR_EVENT_ENDED,
                                      .role = KVR_ROLE_TARGET,
                                      .at = kvr_clock_now(),
                                      .transfer = ++emitted,
                                      .request = "request",
                                      .pages = packed,
                                      .pages_bytes = sizeof(packed),
                                      .unrecorded = i == 0 ? 3 : 0};

            sink.emit(sink.self, &event);
        }
        kvr_reporter_stats(reporter, &stats);
        assert_int_equal(stats.unrecorded, 3 * (round + 1));
    }
    assert_true(stats.dropped > 0);
    stats = wait_for(reporter, emitted);
    assert_int_equal(stats.emitted, emitted);
    assert_int_equal(stats.acknowledged + stats.dropped, emitted);
    kvr_reporter_facts(reporter, &facts);
    kvr_reporter_close(reporter);
    ingest_settle(scheduler.ingest, 10 * KVR_S);
    assert_true(store_list_agents(scheduler.reader, read_dropped, &told));
    assert_int_equal(told, stats.dropped);
    scheduler_close(&scheduler);
    folder_remove(folder);
}

static uint64_t emit_pages(struct kvr_event_sink sink, uint64_t count)
{
    static const uint8_t packed[KVR_PAGE_RUNS_BYTES_MAX];

    for (uint64_t i = 1; i <= count; i++) {
        struct kvr_event event = {.kind = KVR_EVENT_ENDED,
                                  .role = KVR_ROLE_TARGET,
                                  .at = kvr_clock_now(),
                                  .transfer = i,
                                  .request = "request",
                                  .pages = packed,
                                  .pages_bytes = sizeof(packed)};

        sink.emit(sink.self, &event);
    }
    return count;
}

/* A full ring of the longest page tables would be half a gigabyte. Beyond the bound events go
 * without, which is counted; once the ring is empty, tables are recorded again. */
static void reporter_bounds_the_bytes_of_its_ring(void **state)
{
    struct kvr_reporter_options options = {.agent = "decode-0", .boot = 8, .close_ms = 60000};
    struct scheduler scheduler = {0};
    struct kvr_reporter *reporter;
    struct kvr_reporter_stats stats = {0};
    char folder[FOLDER_BYTES], address[64];
    uint64_t emitted = 0, unrecorded;

    (void)state;
    open_scheduler(&scheduler, folder, address);
    options.schedulers[0] = address;
    assert_int_equal(kvr_reporter_open(&options, &reporter, NULL), KVR_OK);
    for (int round = 0; round < 20 && stats.unrecorded == 0; round++) {
        emitted += emit_pages(kvr_reporter_sink(reporter), 4000);
        kvr_reporter_stats(reporter, &stats);
    }
    unrecorded = stats.unrecorded;
    assert_true(unrecorded > 0);
    stats = wait_for(reporter, emitted);
    assert_int_equal(stats.acknowledged + stats.dropped, emitted);
    emitted += emit_pages(kvr_reporter_sink(reporter), 100);
    stats = wait_for(reporter, emitted);
    assert_int_equal(stats.acknowledged + stats.dropped, emitted);
    assert_int_equal(stats.unrecorded, unrecorded);
    kvr_reporter_close(reporter);
    scheduler_close(&scheduler);
    folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reporter_hands_over_spans_however_long),
        cmocka_unit_test(reporter_counts_the_losses_of_its_ring),
        cmocka_unit_test(reporter_bounds_the_bytes_of_its_ring),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
