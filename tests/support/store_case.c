#include "tests/support/store_case.h"

#include <stdio.h>

#include "scheduler/embedded.h"
#include "tests/support/check.h"

int store_setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));

    folder_make(fixture->folder);
    assert_int_equal(store_open_writer(fixture->folder, &fixture->store, NULL), KVR_OK);
    fixture->fleet = fleet_open();
    fixture->metrics = metrics_open();
    fixture->apply = apply_open(fixture->store, fixture->fleet);
    *state = fixture;
    return 0;
}

int store_teardown(void **state)
{
    struct fixture *fixture = *state;

    apply_close(fixture->apply);
    store_close(fixture->store);
    fleet_close(fixture->fleet);
    metrics_close(fixture->metrics);
    folder_remove(fixture->folder);
    free(fixture);
    return 0;
}

struct kvr_event event_of(kvr_event_kind kind, kvr_role role, uint64_t transfer, kvr_ns at)
{
    struct kvr_event event = {.kind = kind,
                              .role = role,
                              .at = at,
                              .transfer = transfer,
                              .request = "request-1",
                              .attempt = 1,
                              .tokens = 100};

    strcpy(event.peer, role == KVR_ROLE_SOURCE ? "decode-0" : "prefill-0");
    if (kind == KVR_EVENT_ENDED)
        event.bytes = 4096;
    return event;
}

struct kvr_report report_of(const char *agent, uint64_t first, const struct kvr_event *events,
                            uint32_t count)
{
    struct kvr_report report = {.boot = 7,
                                .sequence_first = first,
                                .sequence_held = first,
                                .anchor_wall = (kvr_ns)WALL,
                                .events = events,
                                .event_count = count};

    strcpy(report.agent, agent);
    return report;
}

kvr_status apply_one(struct fixture *fixture, const struct kvr_report *report,
                     uint64_t *ret_acknowledged)
{
    struct kvr_error error;
    kvr_status status;

    assert_true(store_begin(fixture->store));
    status = apply_report(fixture->apply, report, WALL, ret_acknowledged, &error);
    if (status == KVR_OK)
        status = apply_flush(fixture->apply, WALL, &error);
    if (status == KVR_OK) {
        assert_true(store_commit(fixture->store));
        apply_count(fixture->apply, fixture->metrics, NULL, WALL);
        (void)fleet_update(fixture->fleet, report, kvr_clock_now(), WALL);
    } else {
        store_rollback(fixture->store);
    }
    apply_reset(fixture->apply);
    return status;
}

struct transfer get_transfer(struct fixture *fixture, uint64_t id)
{
    struct transfer transfer = {0};
    bool found;

    assert_true(store_get_transfer(fixture->store, id, &transfer, &found));
    assert_true(found);
    return transfer;
}

void store_count_one(void *self, const struct transfer *transfer)
{
    (void)transfer;
    ++*(int *)self;
}

int store_count_transfers(struct fixture *fixture)
{
    struct transfer_filter filter = {.limit = 500};
    int count = 0;

    assert_true(store_list_transfers(fixture->store, &filter, store_count_one, &count));
    return count;
}

void store_lists(const struct fixture *fixture, const struct transfer_filter *filter, int wanted)
{
    int count = 0;

    assert_true(store_list_transfers(fixture->store, filter, store_count_one, &count));
    assert_int_equal(count, wanted);
}
