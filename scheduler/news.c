#include "scheduler/news.h"

#include <stdlib.h>

struct hearing {
    const struct news_parts *parts;
    bool failed;
};

/* Its last state, while there are viewers. */
static bool show(const struct news_parts *parts, const struct store_news *news)
{
    struct transfer transfer = {.id = news->transfer};
    bool found = false;

    if (parts->changes == NULL || !changes_wanted(parts->changes))
        return true;
    if (news->to != STATE_END &&
        !store_get_transfer(parts->store, news->transfer, &transfer, &found))
        return false;
    changes_put(parts->changes, &transfer, !found);
    return true;
}

static void hear_report(const struct news_parts *parts, const struct store_news *news)
{
    struct kvr_report *report = NULL;
    kvr_ns now = kvr_clock_now();

    /* Of a newer scheduler, it may be a form that is not known here. */
    if (kvr_report_decode(news->report, news->report_bytes, &report, NULL) != KVR_OK)
        report = NULL;
    if (parts->apply != NULL)
        apply_hear(parts->apply, report, (int64_t)kvr_clock_wall());
    if (report == NULL)
        return;
    fleet_hear(parts->fleet, report, now);
    (void)fleet_update(parts->fleet, report, now, (int64_t)kvr_clock_wall());
    kvr_report_free(report);
}

static void hear_one(void *self, const struct store_news *news)
{
    struct hearing *hearing = self;

    if (news->report_bytes > 0) {
        hear_report(hearing->parts, news);
        return;
    }
    metrics_moved(hearing->parts->metrics, &(struct metrics_move){.from = news->from,
                                                                  .to = news->to,
                                                                  .held_before = news->held_before,
                                                                  .held = news->held,
                                                                  .reason = news->reason});
    hearing->failed |= !show(hearing->parts, news);
}

bool news_hear(const struct news_parts *parts)
{
    struct hearing hearing = {.parts = parts};
    bool heard = store_news_read(parts->store, hear_one, &hearing) && !hearing.failed &&
                 fleet_forget_gone(parts->fleet, parts->store, kvr_clock_now());

    if (heard && parts->changes != NULL)
        changes_set_until(parts->changes, store_news_until(parts->store));
    return heard;
}

bool news_reload(const struct news_parts *parts)
{
    uint64_t counts[STATE_END], held;

    (void)store_news_lost(parts->store); /* not any more, once this is committed */
    if (!fleet_load(parts->fleet, parts->store) || !store_count_states(parts->store, counts) ||
        !store_count_held(parts->store, &held))
        return false;
    metrics_set_states(parts->metrics, counts);
    metrics_set_held(parts->metrics, held);
    if (parts->apply != NULL)
        apply_hear(parts->apply, NULL, 0);
    if (parts->changes != NULL)
        changes_lose(parts->changes);
    return true;
}

bool news_add_move(struct store *store, uint64_t transfer, const struct metrics_move *move)
{
    return !store_news_wanted(store) ||
           store_news_add(store, &(struct store_news){.transfer = transfer,
                                                      .from = move->from,
                                                      .to = move->to,
                                                      .held_before = move->held_before,
                                                      .held = move->held,
                                                      .reason = move->reason});
}

bool news_add_report(struct store *store, const struct kvr_report *report)
{
    struct kvr_report about = *report;
    struct store_news news = {.from = STATE_END, .to = STATE_END};
    uint8_t *bytes = NULL;
    bool told;

    if (report->facts == NULL || !store_news_wanted(store))
        return true;
    about.events = NULL;
    about.event_count = 0;
    about.sequence_first = 0;
    if (kvr_report_encode(&about, &bytes, &news.report_bytes) != KVR_OK)
        return true; /* the agent reports again */
    news.report = bytes;
    told = store_news_add(store, &news);
    free(bytes);
    return told;
}
