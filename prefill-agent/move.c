/* When none of the rails that a target granted can be reached, others carry on: the target is asked
 * to name another group's, and a group of ours that has not tried it yet posts. Which of both sides
 * is to blame nobody knows, so both go on to their next group. */
#include <stdio.h>

#include "base/list.h"
#include "prefill-agent/outbound.h"

/* ---- commands that wait ---------------------------------------------------------------------- */

/* PUSH_STOP does not wait: what the target asked to stop is never posted on an endpoint that it
 * names after that, for its pages may be given back by then. So a group is told to stop before it
 * is told that address. Only an heir is not there yet; it comes to be stopped (`late`). */
bool offer_takes(const struct offer *offer, uint32_t kind)
{
    return !offer->moving || (kind == PUSH_STOP && offer->move->heir == NULL);
}

void offer_park(struct outbound *outbound, struct offer *offer, uint32_t kind, void *pointer)
{
    struct push_again *again = pointer;

    if (kind == PUSH_LIST) /* all that was posted before is asked for anyway */
        kvr_buddy_free(outbound->memory, pointer);
    if (kind != PUSH_AGAIN) /* the offer's state and its segments say the rest */
        return;
    KVR_LIST_APPEND(offer->parked, offer->parked_last, again, next);
}

static void parked_hand(struct outbound *outbound, struct offer *offer)
{
    offer_segments_hand(outbound, offer);
    while (offer->parked != NULL) {
        struct push_again *again = offer->parked;

        offer->parked = again->next;
        outbound_group_command(outbound, offer, PUSH_AGAIN, again);
    }
    offer->parked_last = NULL;
    if (offer->state == O_LIVE)
        offer_list_lost(outbound, offer);
}

/* ---- asking ---------------------------------------------------------------------------------- */

static const struct kvr_region_set *source_set(const struct outbound *outbound,
                                               const struct offer *offer)
{
    const struct publish *publish = kvr_pool_get(&outbound->publishes, offer->publish);

    return publish != NULL ? publish->set : NULL;
}

/* Every group of either side is tried, and there is an end to it. What the target copies itself is
 * tried over cards first, in the same groups; what is gathered into a group's own memory stays with
 * that group. */
bool offer_may_ask(const struct outbound *outbound, const struct offer *offer)
{
    uint32_t ours = outbound->options.failover ? outbound->options.groups.count : 1;

    if (offer->moves)
        return false;
    return offer->local || (!offer->gathers && source_set(outbound, offer) != NULL &&
                            offer->asks < ours - 1 + outbound->peers[offer->peer].group_count - 1);
}

void offer_ask(struct outbound *outbound, struct offer *offer)
{
    struct kvr_message message = {.kind = KVR_MSG_NO_RAIL, .reason = {.status = KVR_NO_RAIL}};

    offer->ask_at = KVR_NEVER;
    if (offer->asked || offer->move != NULL)
        return;
    offer->asked = true;
    offer->asks += !offer->local;
    outbound_send_needed(outbound, offer, &message);
}

void offer_unreachable(struct outbound *outbound, kvr_ns now, struct offer *offer)
{
    char detail[KVR_DETAIL_BYTES];
    const char *why = "every other group was tried";

    offer->no_rail_at = KVR_NEVER;
    if (offer->moves) {
        offer_fail(outbound, now, offer, KVR_NO_RAIL,
                   "provider local, by which the target was moving our device's pages, is broken "
                   "between the two agents");
        return;
    }
    if (outbound->options.groups.count == 1 && outbound->peers[offer->peer].group_count == 1) {
        offer_fail(outbound, now, offer, KVR_NO_RAIL,
                   "every pair of rails between the two agents is broken");
        return;
    }
    if (!outbound->options.failover)
        why = "no other group may carry on (--group-failover is off at the source)";
    else if (offer->gathers)
        why = "its pages are staged for that group alone";
    snprintf(detail, sizeof(detail),
             "every pair of rails between group %u of the source and the group that the target "
             "named is broken, and %s",
             offer->group, why);
    offer_fail(outbound, now, offer, KVR_NO_RAIL, detail);
}

/* ---- the answer ------------------------------------------------------------------------------ */

/* Where rails are lost, a group of ours that has not been used; else the same. */
static uint32_t group_next(const struct outbound *outbound, const struct offer *offer)
{
    uint32_t count = outbound->options.groups.count;

    for (uint32_t i = 1;
         i < count && outbound->options.failover && !offer->local && offer->no_rail_at != KVR_NEVER;
         i++) {
        uint32_t group = (offer->group + i) % count;

        if ((offer->groups_used >> group & 1) == 0)
            return group;
    }
    return offer->group;
}

/* Its regions are what was planned with; only their keys may be others. */
static bool same_regions(const struct kvr_region_set *a, const struct kvr_region_set *b)
{
    if (a->count != b->count)
        return false;
    for (uint32_t i = 0; i < a->count; i++)
        if (a->layouts[i].region != b->layouts[i].region ||
            a->layouts[i].bytes != b->layouts[i].bytes)
            return false;
    return true;
}

void offer_move_drop(struct outbound *outbound, struct offer *offer)
{
    if (offer->move == NULL)
        return;
    kvr_region_set_release(offer->move->target, outbound->memory);
    kvr_buddy_free(outbound->memory, offer->move->heir);
    kvr_buddy_free(outbound->memory, offer->move);
    offer->move = NULL;
}

/* Without memory for an heir it stays with its group. */
static void move_begin(struct outbound *outbound, struct offer *offer)
{
    struct push_move *move = offer->move;

    if (offer->move_group != offer->group)
        move->heir = kvr_buddy_alloc(outbound->memory, sizeof(*move->heir));
    if (move->heir == NULL)
        offer->move_group = offer->group;
    if (move->heir == NULL && move->target_rails == offer->granted) {
        offer_move_drop(outbound, offer);
        return;
    }
    outbound_group_command(outbound, offer, PUSH_MOVE, move);
    offer->moving = true;
}

void grant_again(struct outbound *outbound, kvr_ns now, struct offer *offer,
                 const struct kvr_msg_grant *grant)
{
    const struct kvr_remote_engine *remote =
        kvr_engines_remote(&outbound->engines, offer->peer, &offer->target);
    uint64_t rails = granted_rails(outbound, offer, grant);
    uint32_t group = group_next(outbound, offer);

    if (!offer->asked || offer->move != NULL)
        return;
    offer->asked = false;
    if (remote == NULL || !same_regions(offer->remote, remote->set)) {
        offer_fail(outbound, now, offer, KVR_MALFORMED,
                   "the target grants other rails for other regions");
        return;
    }
    if (group == offer->group && rails == offer->granted)
        return; /* nothing changes: it is awaited, and given up in time */
    offer->move = kvr_buddy_alloc(outbound->memory, sizeof(*offer->move));
    if (offer->move == NULL)
        return;
    *offer->move =
        (struct push_move){.target = kvr_region_set_acquire(remote->set), .target_rails = rails};
    offer->move_group = group;
    if (group == offer->group)
        move_begin(outbound, offer);
    else
        outbound->ports->region_register(outbound->ports->self, source_set(outbound, offer), group,
                                         offer->id);
}

void outbound_registered(struct outbound *outbound, kvr_ns now, uint64_t id, kvr_status status)
{
    struct offer *offer = kvr_pool_get(&outbound->offers, id);

    if (offer != NULL && offer->stage_waits) {
        offer_stage_opened(outbound, now, offer, status);
        return;
    }
    if (offer == NULL || offer->move == NULL || offer->moving || offer->state != O_LIVE)
        return; /* it has ended, or is about to */
    if (status != KVR_OK)
        offer->move_group = offer->group;
    move_begin(outbound, offer);
}

void offer_moved(struct outbound *outbound, struct offer *offer, struct push_move *move)
{
    struct kvr_region_set *before = offer->remote;

    offer->moving = false;
    offer->move = NULL;
    offer->remote = move->target;
    offer_granted(outbound, offer, move->target_rails);
    offer->ask_at = offer->no_rail_at = KVR_NEVER;
    kvr_region_set_release(before, outbound->memory);
    if (move->heir != NULL) {
        offer->husks++;
        offer->job = move->heir;
        offer->group = offer->move_group;
        offer->groups_used |= UINT32_C(1) << offer->group;
        offer->job->late = offer->state == O_STOPPING;
        outbound_group_command(outbound, offer, PUSH_OPEN, offer->job);
        if (offer->state == O_STOPPING)
            outbound_group_command(outbound, offer, PUSH_STOP, NULL);
    }
    kvr_buddy_free(outbound->memory, move);
    parked_hand(outbound, offer);
}
