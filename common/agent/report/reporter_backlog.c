/* What the scheduler has not acknowledged: gathered, sealed into batches, in memory and, past its
 * bound, in the spool. */
#include <stdlib.h>

#include "agent/report/reporter_state.h"

static void batch_free(struct batch *batch)
{
    free(batch->report);
    free(batch);
}

static struct batch *take_oldest(struct kvr_reporter *reporter)
{
    struct batch *batch = reporter->oldest;

    reporter->oldest = batch->next;
    if (reporter->oldest == NULL)
        reporter->newest = NULL;
    reporter->memory_bytes -= batch->record.bytes;
    return batch;
}

void reporter_spill(struct kvr_reporter *reporter, size_t memory_bytes_max)
{
    if (reporter->memory_bytes <= memory_bytes_max)
        return;
    while (reporter->memory_bytes > memory_bytes_max) {
        struct batch *batch = take_oldest(reporter);
        uint64_t dropped = 0;

        if (reporter->spool == NULL ||
            kvr_spool_append(reporter->spool, &batch->record, batch->report, &dropped) != KVR_OK)
            dropped += batch->record.event_count;
        reporter->dropped += dropped;
        batch_free(batch);
    }
    if (reporter->spool != NULL)
        kvr_spool_sync(reporter->spool);
}

/* They are in a batch, or lost. */
static void forget_gathered(struct kvr_reporter *reporter)
{
    for (uint32_t i = 0; i < reporter->gathered_count; i++)
        reporter_event_done(&reporter->gathered[i]);
    reporter->gathered_count = 0;
    reporter->gathered_packed = 0;
}

/* Makes a batch of the gathered events. */
static void seal(struct kvr_reporter *reporter)
{
    struct kvr_report report = {.boot = reporter->options.boot,
                                .sequence_first = reporter->sequence_next,
                                .anchor_at = kvr_clock_now(),
                                .anchor_wall = kvr_clock_wall(),
                                .events = reporter->gathered,
                                .event_count = reporter->gathered_count};
    struct batch *batch = calloc(1, sizeof(*batch));
    size_t bytes;
    bool encoded;

    memcpy(report.agent, reporter->agent, sizeof(report.agent));
    reporter->sequence_next += report.event_count;
    encoded = batch != NULL && kvr_report_encode(&report, &batch->report, &bytes) == KVR_OK;
    forget_gathered(reporter);
    if (!encoded) {
        reporter->dropped += report.event_count;
        free(batch);
        return;
    }
    batch->record = (struct kvr_spool_record){report.boot, report.sequence_first,
                                              report.event_count, (uint32_t)bytes};
    if (reporter->newest != NULL)
        reporter->newest->next = batch;
    else
        reporter->oldest = batch;
    reporter->newest = batch;
    reporter->memory_bytes += bytes;
    reporter_spill(reporter, reporter->options.memory_bytes_max);
}

void reporter_gather(struct kvr_reporter *reporter, kvr_ns now, bool now_or_never)
{
    struct kvr_event *room = &reporter->gathered[reporter->gathered_count];

    while (kvr_ring_pop(&reporter->ring, room)) {
        if (reporter->gathered_count++ == 0)
            reporter->gathered_since = now;
        reporter->gathered_packed += reporter_event_popped(reporter, room);
        if (reporter->gathered_count == KVR_REPORT_EVENTS_MAX ||
            reporter->gathered_packed > PACKED_BYTES_MAX)
            seal(reporter);
        room = &reporter->gathered[reporter->gathered_count];
    }
    if (reporter->gathered_count > 0 &&
        (now_or_never || now - reporter->gathered_since >= BATCH_NS))
        seal(reporter);
}

bool reporter_front(struct kvr_reporter *reporter, struct kvr_spool_record *ret_record)
{
    if (reporter->spool != NULL && kvr_spool_front(reporter->spool, ret_record))
        return true;
    if (reporter->oldest == NULL)
        return false;
    *ret_record = reporter->oldest->record;
    return true;
}

void reporter_drop_front(struct kvr_reporter *reporter)
{
    struct kvr_spool_record record;

    if (reporter->spool != NULL && kvr_spool_front(reporter->spool, &record))
        kvr_spool_drop(reporter->spool);
    else if (reporter->oldest != NULL)
        batch_free(take_oldest(reporter));
}

bool reporter_read_front(struct kvr_reporter *reporter, const struct kvr_spool_record *record,
                         uint8_t *report)
{
    struct kvr_spool_record spooled;

    if (reporter->spool != NULL && kvr_spool_front(reporter->spool, &spooled))
        return kvr_spool_read(reporter->spool, record, report);
    memcpy(report, reporter->oldest->report, record->bytes);
    return true;
}

void reporter_look_for_losses(struct kvr_reporter *reporter)
{
    struct kvr_spool_loss loss;

    if (reporter->spool == NULL || !kvr_spool_take_loss(reporter->spool, &loss))
        return;
    reporter->dropped += loss.events;
    pthread_mutex_lock(&reporter->facts_lock);
    loss.events += reporter->lost.events;
    reporter->lost = loss;
    pthread_mutex_unlock(&reporter->facts_lock);
}

void reporter_backlog_done(struct kvr_reporter *reporter)
{
    struct kvr_event event;

    while (kvr_ring_pop(&reporter->ring, &event))
        reporter_event_done(&event);
    forget_gathered(reporter);
    while (reporter->oldest != NULL)
        batch_free(take_oldest(reporter));
}
