#include "scheduler/expect.h"

#include <stdlib.h>
#include <string.h>

/* The transfer in memory, or NULL: then it is asked for. */
static const struct known_transfer *find(struct expect *expect, const struct known *known,
                                         uint64_t id)
{
    const struct known_transfer *one;

    HASH_FIND(hh, known->all, &id, sizeof(id), one);
    if (one == NULL && expect->id_count < EXPECT_MAX)
        expect->ids[expect->id_count++] = id;
    return one;
}

/* An event with the number of its transfer may end the opening that had none yet. Neighbours are
 * often of one transfer. */
static void add_events(struct expect *expect, const struct known *known,
                       const struct kvr_report *report)
{
    uint64_t before = 0;

    for (uint32_t i = 0; i < report->event_count; i++) {
        const struct kvr_event *event = &report->events[i];

        const struct known_transfer *one = NULL;

        if (event->kind == KVR_EVENT_KIND_END ||
            (event->transfer != 0 && event->transfer == before))
            continue;
        before = event->transfer;
        if (event->transfer != 0)
            one = find(expect, known, event->transfer);
        if (one == NULL || one->transfer.sides[event->role].boot == 0)
            (void)find(expect, known, transfer_opening_id(report->agent, report->boot, event));
    }
}

static bool make_room(struct expect *expect, size_t count)
{
    if (count <= expect->start_room)
        return true;
    free(expect->starts);
    expect->starts = malloc(count * sizeof(expect->starts[0]));
    expect->start_room = expect->starts != NULL ? count : 0;
    return expect->starts != NULL;
}

bool expect_reports(struct expect *expect, const struct known *known,
                    const struct kvr_report *const reports[], size_t count)
{
    if (count == 0 || !store_expects(known->store))
        return true;
    if (!make_room(expect, count))
        return false;
    expect->id_count = expect->start_count = 0;
    for (size_t i = 0; i < count; i++) {
        add_events(expect, known, reports[i]);
        expect->starts[expect->start_count++] =
            (struct store_start){reports[i]->agent, reports[i]->boot};
    }
    return store_expect(known->store, &(struct store_expected){.ids = expect->ids,
                                                               .id_count = expect->id_count,
                                                               .starts = expect->starts,
                                                               .start_count = expect->start_count});
}

void expect_done(struct expect *expect)
{
    free(expect->starts);
}
