#include "scheduler/known.h"

#include <stdlib.h>
#include <string.h>

#define KNOWN_MAX 16384 /* transfers, 20 MB */

static void drop_reported(struct known_transfer *known)
{
    for (struct reported *next, *reported = known->reported; reported != NULL; reported = next) {
        next = reported->next;
        event_pack_free(&reported->pack);
        free(reported->spans);
        free(reported->pages);
        free(reported);
    }
    known->reported = NULL;
    known->end = &known->reported;
}

static void forget(struct known *known, struct known_transfer *transfer)
{
    HASH_DEL(known->all, transfer);
    drop_reported(transfer);
    free(transfer);
}

/* An agent will say more about it. */
static bool has_news_to_come(const struct transfer *transfer)
{
    bool speaks = false;

    for (int role = 0; role < 2; role++)
        speaks |= transfer->sides[role].boot != 0 && !transfer->sides[role].ended;
    return speaks && transfer->state != STATE_LOST;
}

void known_end(struct known *known, bool committed)
{
    struct known_transfer *next, *one;

    for (one = known->touched; one != NULL; one = next) {
        next = one->next;
        one->touched = one->dirty = false;
        drop_reported(one);
        if (!committed || one->remove || one->transfer.ordinal == 0 ||
            !has_news_to_come(&one->transfer))
            forget(known, one);
    }
    known->touched = NULL;
    if (HASH_COUNT(known->all) > KNOWN_MAX)
        known_forget(known);
}

void known_forget_ended(struct known *known)
{
    struct known_transfer *one, *next;

    for (one = known->all; one != NULL; one = next) {
        next = one->hh.next;
        if (!transfer_state_live(one->transfer.state))
            forget(known, one);
    }
}

void known_forget(struct known *known)
{
    struct known_transfer *one, *next;

    for (one = known->all; one != NULL; one = next) {
        next = one->hh.next;
        forget(known, one);
    }
    known->touched = NULL;
}

static struct known_transfer *load(struct known *known, uint64_t id)
{
    struct known_transfer *loaded = calloc(1, sizeof(*loaded));
    bool found;

    if (loaded == NULL)
        return NULL;
    if (!store_get_transfer(known->store, id, &loaded->transfer, &found)) {
        free(loaded);
        return NULL;
    }
    loaded->id = id;
    loaded->transfer.id = id;
    loaded->end = &loaded->reported;
    HASH_ADD(hh, known->all, id, sizeof(loaded->id), loaded);
    return loaded;
}

struct known_transfer *known_touch(struct known *known, uint64_t id)
{
    struct known_transfer *one;

    HASH_FIND(hh, known->all, &id, sizeof(id), one);
    if (one == NULL)
        one = load(known, id);
    if (one != NULL)
        one->dirty = true;
    if (one == NULL || one->touched)
        return one;
    one->touched = true;
    one->next = known->touched;
    known->touched = one;
    one->remove = false;
    one->state_before = one->transfer.ordinal != 0 ? one->transfer.state : STATE_END;
    one->held_before = one->transfer.ordinal != 0 && transfer_held(&one->transfer);
    for (int role = 0; role < 2; role++)
        one->ended_before[role] = one->transfer.sides[role].ended;
    return one;
}

bool known_join(struct known *known, struct known_transfer *transfer,
                struct known_transfer *opening)
{
    if (opening->reported != NULL) { /* these came before */
        *opening->end = transfer->reported;
        if (transfer->reported == NULL)
            transfer->end = opening->end;
        transfer->reported = opening->reported;
        opening->reported = NULL;
        opening->end = &opening->reported;
    }
    return store_join_events(known->store, &transfer->transfer, &opening->transfer);
}

struct reported *known_reported(struct known_transfer *transfer, const struct kvr_report *report)
{
    struct reported *reported = transfer->reported;

    while (reported != NULL &&
           (reported->boot != report->boot || strcmp(reported->agent, report->agent) != 0))
        reported = reported->next;
    if (reported == NULL) {
        reported = calloc(1, sizeof(*reported));
        if (reported == NULL)
            return NULL;
        memcpy(reported->agent, report->agent, sizeof(reported->agent));
        reported->boot = report->boot;
        *transfer->end = reported;
        transfer->end = &reported->next;
    }
    return reported;
}

static bool keep(const uint8_t *packed, uint32_t bytes, uint8_t **kept, uint32_t *kept_bytes)
{
    uint8_t *own;

    if (bytes == 0)
        return true;
    own = realloc(*kept, bytes);
    if (own == NULL)
        return false;
    memcpy(own, packed, bytes);
    *kept = own;
    *kept_bytes = bytes;
    return true;
}

bool known_keep_records(struct reported *reported, const struct kvr_event *event)
{
    return event->kind != KVR_EVENT_ENDED ||
           (keep(event->spans, event->spans_bytes, &reported->spans, &reported->spans_bytes) &&
            keep(event->pages, event->pages_bytes, &reported->pages, &reported->pages_bytes));
}

static bool store_reported(struct store *store, struct known_transfer *known)
{
    bool stored = true;

    for (struct reported *reported = known->reported; reported != NULL && stored;
         reported = reported->next)
        stored = store_add_events(store, &known->transfer,
                                  &(struct event_row){
                                      .agent = reported->agent,
                                      .boot = reported->boot,
                                      .arrived_ns = known->transfer.updated_ns,
                                      .records = reported->pack.bytes,
                                      .bytes = reported->pack.count,
                                      .spans = reported->spans,
                                      .spans_bytes = reported->spans_bytes,
                                      .pages = reported->pages,
                                      .pages_bytes = reported->pages_bytes,
                                  });
    return stored;
}

bool known_flush(struct known *known)
{
    struct store *store = known->store;
    bool stored = true;

    for (struct known_transfer *one = known->touched; one != NULL && stored; one = one->next) {
        if (!one->dirty)
            continue;
        if (one->remove)
            stored = one->transfer.ordinal == 0 || store_delete_transfer(store, one->id);
        else if (one->transfer.updated_ns != 0) /* 0: looked for, not there */
            stored = store_reported(store, one) && store_put_transfer(store, &one->transfer);
        if (stored && (one->remove || !transfer_state_live(one->transfer.state)))
            stored = store_drop_orders(store, one->id);
        if (stored && one->remove)
            one->transfer.ordinal = one->transfer.last_event = 0; /* if it is opened again */
        one->dirty = false;
        drop_reported(one);
    }
    return stored;
}
