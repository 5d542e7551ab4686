/* Completions: how writes end, and what arrives. */
#include <string.h>

#include "rail_group/rail_group_state.h"

#define POLL_MAX       64
#define READ_EMPTY_MAX (1u << 20)

/* Settled writes of one link that its counts still include. */
struct settled {
    struct group_link *link;
    bool failed;
    bool asks; /* one of them asked whether it came through */
    uint32_t writes;
    uint64_t bytes, waited_ns; /* waited: from post to now, of all */
};

/* What completes while its endpoint is being replaced says nothing of the next one, and over a
 * broken link only an answer counts: tcp completes writes that go nowhere. PAIR_BROKEN said whether
 * the link had carried something, and the loop mends it by that: so that stays. */
static void settled_well(struct kvr_group *group, const struct settled *settled)
{
    struct group_link *link = settled->link;

    link->proven = link->proven || link->state != LINK_BROKEN;
    link->look.through_at = group->now;
    if (!link->inserted || link->state == LINK_RETIRED ||
        (link->state == LINK_BROKEN && !settled->asks))
        return;
    if (settled->asks)
        group_silence_ends(group, link);
    if (link->slow.is) /* only a good warm-up ends its rest */
        return;
    link->doubted = false;
    if (link->warmth == LINK_COLD)
        group_link_warmed(group, link);
}

static void settled_count(struct kvr_group *group, const struct settled *settled)
{
    struct group_link *link = settled->link;
    struct group_rail *rail = link->rail;

    assert(link->writes >= settled->writes && rail->writes >= settled->writes);
    link->writes -= settled->writes;
    link->bytes -= settled->bytes;
    if (link->connection == LINK_CONNECTING) {
        link->connection = LINK_CONNECTED;
        group->peers[link->peer].connects_until = 0;
        kvr_pace_begin(&link->pace, group->now); /* the time to connect is not the link's pace */
    }
    link->carried += settled->failed ? 0 : settled->bytes;
    kvr_pace_settled(&link->pace, settled->bytes, group->now);
    kvr_pace_settled(&rail->pace, settled->bytes, group->now);
    link->progress_at = group->now;
    link->again.count = 0;
    if (!settled->failed)
        settled_well(group, settled);
    if (!settled->failed && kvr_pair_in_trouble(link->history.state))
        group_link_note(group, link);
    rail->writes -= settled->writes;
    rail->bytes -= settled->bytes;
    group->outstanding -= settled->writes;
    group_count(&rail->counters.settled, settled->writes);
    group_count(&rail->counters.completion_ns, settled->waited_ns);
    if (link->renew_by != 0 && link->writes == 0)
        group->timers.silence_at = group->now;
    if (link->state == LINK_RETIRED && link->writes == 0)
        group_link_remove(group, link);
}

/* Takes a flight out of every count, and calls the user's `written` for it. */
static void settle(struct kvr_group *group, struct group_flight *flight, kvr_status status)
{
    struct group_link *link = flight->link;
    struct settled settled = {.link = link,
                              .failed = status != KVR_OK,
                              .asks = flight->asks,
                              .writes = 1,
                              .bytes = flight->bytes,
                              .waited_ns = group->now - flight->posted_at};
    bool warm_up = flight_find(&group->flights, link->warming) == flight;

    if (warm_up)
        link->warming = 0;
    if (warm_up && link->slow.is && status == KVR_OK && link->state != LINK_RETIRED)
        group_slow_tried(group, link, settled.waited_ns);
    if (status == KVR_COPY_FAILED)
        group_link_uncopied(group, link, warm_up);
    flight_free(&group->flights, flight);
    settled_count(group, &settled);
    if (!warm_up)
        group->user.written(group->user.self, group->now, flight->token, 1, status);
}

static void failed(struct kvr_group *group, struct group_flight *flight, kvr_status status)
{
    if (status == KVR_COPY_FAILED) {
        settle(group, flight, KVR_COPY_FAILED);
        return;
    }
    group_count(&flight->link->rail->counters.failures, 1);
    if (flight->link->state == LINK_RETIRED) {
        /* The peer had replaced its endpoint or is gone: no failure of a rail. */
        settle(group, flight, KVR_EPOCH_ENDED);
        return;
    }
    group_link_break(group, flight->link, status);
    settle(group, flight, KVR_RAIL_FAILED);
}

/* An error that names no write of ours: a peer's write may be lost here. Reported once an epoch,
 * and once more where a peer's writes broke off before the endpoint was lost: only that cannot
 * wait. */
static void rail_error(struct kvr_group *group, uint32_t rail_index, kvr_status status)
{
    struct group_rail *rail = &group->rails[rail_index];
    struct kvr_group_message message = {
        .head.kind = KVR_GROUP_RAIL_ERROR,
        .rail_error = {.rail = rail_index, .epoch = rail->address.epoch, .status = status},
    };

    group_count(&rail->counters.failures, 1);
    if (status != KVR_PEER_LOST)
        rail->error_at = group->now;
    if (rail->error_told != KVR_OK &&
        (rail->error_told != KVR_PEER_LOST || status == KVR_PEER_LOST))
        return;
    rail->error_told = status;
    kvr_group_tell(group, &message);
}

/* The write that a completion names. NULL: no write in flight on this rail. Writes of an endpoint
 * settle before its successor is polled. */
static inline struct group_flight *flight_of(struct kvr_group *group, const struct group_rail *rail,
                                             const struct kvr_completion *completion)
{
    struct group_flight *flight = flight_find(&group->flights, completion->context);

    return flight != NULL && flight->link->rail == rail ? flight : NULL;
}

/* epoch: of the endpoint that was read. */
static void complete(struct kvr_group *group, uint32_t rail_index, uint32_t epoch,
                     const struct kvr_completion *completion)
{
    struct group_rail *rail = &group->rails[rail_index];
    struct group_flight *flight;

    if (completion->kind == KVR_COMPLETION_ARRIVED) {
        group_count(&rail->counters.arrivals, 1);
        group->user.arrived(group->user.self, group->now, rail_index, epoch, completion->immediate);
        return;
    }
    if (completion->kind == KVR_COMPLETION_UNMOVED) {
        if (group->user.unmoved != NULL)
            group->user.unmoved(group->user.self, group->now, rail_index, epoch,
                                completion->immediate);
        return;
    }
    if (!completion->has_context) {
        rail_error(group, rail_index, completion->status);
        return;
    }
    flight = flight_of(group, rail, completion);
    if (flight == NULL)
        group_count(&rail->counters.stale, 1);
    else if (completion->kind == KVR_COMPLETION_FAILED)
        failed(group, flight, completion->status);
    else
        settle(group, flight, KVR_OK);
}

/* Completes the leading run of successful writes of one link, which most writes are in: as
 * complete() for each, but with one update of the counts. Returns how many. */
static unsigned complete_written(struct kvr_group *group, uint32_t rail_index,
                                 const struct kvr_completion *completions, unsigned count)
{
    const struct group_rail *rail = &group->rails[rail_index];
    const struct kvr_group_user *user = &group->user;
    const struct group_flight *first = flight_of(group, rail, &completions[0]);
    struct settled settled = {.link = first != NULL ? first->link : NULL};
    const struct kvr_completion *at = completions, *end = completions + count;
    kvr_ns now = group->now, posted_at = 0; /* of all: the sum, which may wrap */
    uint64_t token = first != NULL ? first->token : 0;
    uint32_t same = 0; /* writes of that token */

    if (first == NULL || first->link->state == LINK_RETIRED || first->link->warming != 0)
        return 0;
    for (; at < end && at->kind == KVR_COMPLETION_WRITTEN; at++) {
        struct group_flight *flight = flight_find(&group->flights, at->context);

        if (flight == NULL || flight->link != settled.link) /* which is of this rail */
            break;
        settled.bytes += flight->bytes;
        settled.asks = settled.asks || flight->asks;
        posted_at += flight->posted_at;
        flight_free(&group->flights, flight);
        if (flight->token != token) {
            user->written(user->self, now, token, same, KVR_OK);
            token = flight->token;
            same = 0;
        }
        same++;
    }
    if (same > 0)
        user->written(user->self, now, token, same, KVR_OK);
    settled.writes = (uint32_t)(at - completions);
    settled.waited_ns = settled.writes * now - posted_at;
    if (settled.writes > 0)
        settled_count(group, &settled);
    return settled.writes;
}

bool group_poll(struct kvr_group *group, uint32_t rail)
{
    struct kvr_completion completions[POLL_MAX];
    unsigned count, i = 0;

    if (group->rails[rail].endpoint == NULL)
        return false;
    count = group->ops->poll(group->rails[rail].endpoint, completions, POLL_MAX);
    if (count > 0)
        group_commands_late(group);
    while (i < count) {
        unsigned written = complete_written(group, rail, &completions[i], count - i);

        if (written == 0)
            complete(group, rail, group->rails[rail].address.epoch, &completions[i]);
        i += written > 0 ? written : 1;
    }
    return count > 0;
}

/* Reads the queue of a stopped endpoint empty. Writes that completed before the stop count as
 * written; what failed because of the stop ended with its epoch. */
void group_read_empty(struct kvr_group *group, uint32_t rail, uint32_t epoch,
                      struct kvr_endpoint *stopped)
{
    struct kvr_completion completions[POLL_MAX];
    unsigned count = POLL_MAX;

    for (uint32_t total = 0; count > 0 && total < READ_EMPTY_MAX; total += count) {
        count = group->ops->poll(stopped, completions, POLL_MAX);
        for (unsigned i = 0; i < count; i++) {
            if (completions[i].kind != KVR_COMPLETION_FAILED)
                complete(group, rail, epoch, &completions[i]);
        }
    }
}

void group_settle_rail(struct kvr_group *group, uint32_t rail)
{
    for (uint32_t i = 0; i < group->flights.count; i++) {
        struct group_flight *flight = &group->flights.slots[i];

        if ((flight->generation & 1) != 0 && flight->link->rail == &group->rails[rail])
            settle(group, flight, KVR_EPOCH_ENDED);
    }
}
