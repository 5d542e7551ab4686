/* Lost rails (rule 3): what may not have arrived is named, and what the target misses goes again;
 * what of its staging memory may be written again; and fresh endpoints of our own. */
#include "base/list.h"
#include "base/mutant.h"
#include "prefill-agent/outbound.h"

#define LOST_RUNS 4096 /* of one RAIL_LOST; more are stretched over their neighbours */

/* Asks the group thread which chunks went over a pair. */
static void list_ask(struct outbound *outbound, struct offer *offer, uint32_t rail,
                     uint32_t target_rail, uint32_t epoch)
{
    struct push_list *list =
        kvr_buddy_alloc(outbound->memory, sizeof(*list) + LOST_RUNS * sizeof(struct kvr_chunk_run));

    if (list == NULL) { /* what cannot be repaired must end */
        outbound->ports->hang_up(outbound->ports->self, offer->peer, KVR_NO_MEMORY,
                                 "no memory to list the writes of a lost rail");
        return;
    }
    *list = (struct push_list){
        .rail = rail, .target_rail = target_rail, .epoch = epoch, .run_capacity = LOST_RUNS};
    outbound_group_command(outbound, offer, PUSH_LIST, list);
}

static bool post_again(struct outbound *outbound, struct offer *offer,
                       const struct kvr_chunk_run *runs, uint32_t run_count, uint32_t round)
{
    struct push_again *again =
        kvr_buddy_alloc(outbound->memory, sizeof(*again) + run_count * sizeof(again->runs[0]));

    if (again == NULL)
        return false;
    *again = (struct push_again){.round = round, .run_count = run_count};
    if (run_count > 0) /* else there is nothing to point to */
        memcpy(again->runs, runs, run_count * sizeof(again->runs[0]));
    outbound_group_command(outbound, offer, PUSH_AGAIN, again);
    return true;
}

void offer_listed(struct outbound *outbound, struct offer *offer, struct push_list *list)
{
    if (!list->found || offer->state != O_LIVE) {
        kvr_buddy_free(outbound->memory, list);
        return;
    }
    if (KVR_MUTANT(second_posting_without_missing)) {
        post_again(outbound, offer, list->runs, list->run_count, offer->round);
        outbound_group_command(outbound, offer, PUSH_LIST, list);
        return;
    }
    KVR_LIST_APPEND(offer->lists, offer->lists_last, list, behind);
    offer_lists_tell(outbound, offer);
}

void offer_lists_tell(struct outbound *outbound, struct offer *offer)
{
    while (offer->state == O_LIVE && offer->lists != NULL) {
        struct push_list *list = offer->lists;
        struct kvr_message message = {.kind = KVR_MSG_RAIL_LOST};

        message.rail_lost = (struct kvr_msg_rail_lost){
            .rail = list->pair.target_rail,
            .epoch = list->pair.epoch,
            .runs = list->runs,
            .run_count = list->run_count,
        };
        if (outbound_send_patient(outbound, offer, &message) != KVR_OK)
            return;
        offer->lists = list->behind;
        outbound_group_command(outbound, offer, PUSH_LIST, list); /* the next pair */
    }
}

void offer_lists_drop(struct outbound *outbound, struct offer *offer)
{
    while (offer->lists != NULL) {
        struct push_list *list = offer->lists;

        offer->lists = list->behind;
        kvr_buddy_free(outbound->memory, list);
    }
}

void offer_list_lost(struct outbound *outbound, struct offer *offer)
{
    list_ask(outbound, offer, PUSH_ANY, PUSH_ANY, PUSH_ANY);
}

static void list_ask_all(struct outbound *outbound, uint32_t peer, uint32_t rail,
                         uint32_t target_rail, uint32_t epoch)
{
    for (uint32_t i = 0; i < outbound->offers.reach; i++) {
        struct offer *offer = kvr_pool_at(&outbound->offers, i, NULL);

        if (offer != NULL && offer->state == O_LIVE && (peer == PUSH_ANY || offer->peer == peer))
            list_ask(outbound, offer, rail, target_rail, epoch);
    }
}

void epoch_ended(struct outbound *outbound, uint32_t peer, const struct kvr_msg_epoch_ended *ended)
{
    struct kvr_group_message message = {.kind = KVR_GROUP_PEER_RAIL, .index = peer};
    struct kvr_rail_address *successor[KVR_RAIL_GROUPS_MAX];

    if (ended->rail >= KVR_RAILS_MAX || ended->successor.rail != ended->rail ||
        ended->successor.epoch <= ended->epoch) {
        outbound->ports->hang_up(outbound->ports->self, peer, KVR_MALFORMED,
                                 "an epoch ended without a later one");
        return;
    }
    if (!outbound_copies_take(outbound, sizeof(*successor[0]), (void **)successor)) {
        outbound->ports->hang_up(outbound->ports->self, peer, KVR_NO_MEMORY,
                                 "no memory for a rail's new address");
        return;
    }
    for (; message.group < outbound->options.groups.count; message.group++) {
        *successor[message.group] = ended->successor;
        message.pointer = successor[message.group];
        outbound->ports->command(outbound->ports->self, &message);
    }
    list_ask_all(outbound, peer, PUSH_ANY, ended->rail, ended->epoch);
}

void pair_broken(struct outbound *outbound, kvr_ns now, const struct kvr_group_message *message)
{
    uint32_t peer = message->index, rail = (uint32_t)message->a;

    if (!outbound->peers[peer].up)
        return;
    list_ask_all(outbound, peer, rail, (uint32_t)message->b, (uint32_t)message->c);
    /* If it was the network and not the peer, a fresh endpoint of ours may reach it again. */
    if (outbound->peers[peer].repair_at[rail] == KVR_NEVER)
        outbound->peers[peer].repair_at[rail] = now + outbound->options.silence_ns;
}

/* Whether another peer is written to by the offer's group: it would lose what is on its way. */
static bool others_post(const struct outbound *outbound, const struct offer *offer)
{
    for (uint32_t i = 0; i < outbound->offers.reach; i++) {
        const struct offer *other = kvr_pool_at(&outbound->offers, i, NULL);

        if (other != NULL && other->peer != offer->peer && other->group == offer->group &&
            other->state == O_LIVE)
            return true;
    }
    return false;
}

/* When the rail gets a fresh endpoint for an offer that has no other: at once where that costs
 * nobody anything, unless the present one is fresh. */
static kvr_ns repair_soon(const struct outbound *outbound, kvr_ns now, const struct offer *offer,
                          uint32_t rail)
{
    kvr_ns patience = outbound->options.silence_ns / 4, renewed = outbound->renewed_at[rail];

    if (others_post(outbound, offer))
        return now + patience;
    return renewed != 0 && renewed + patience > now ? renewed + patience : now;
}

/* No pair to the peer is left. A peer that is dead says nothing within the heartbeat bound, and
 * that is found before this offer gives up; one that still lives may be reached by fresh endpoints
 * well before. What an earlier offer has waited for in vain this one need not. */
void offer_no_rail(struct outbound *outbound, kvr_ns now, struct offer *offer)
{
    struct outbound_peer *peer = &outbound->peers[offer->peer];
    struct outbound_lost *lost = &peer->lost[offer->group];
    const uint32_t *first = &outbound->options.groups.first[offer->group];

    if (lost->since == KVR_NEVER || lost->granted != offer->granted)
        *lost = (struct outbound_lost){.granted = offer->granted, .since = now};
    offer->no_rail_at = now + outbound->options.silence_ns + outbound->options.silence_ns / 4;
    if (offer_may_ask(outbound, offer))
        offer->ask_at = lost->since + outbound->options.silence_ns / 2;
    if (now >= offer->ask_at && offer->state == O_LIVE)
        offer_ask(outbound, offer);
    for (uint32_t rail = first[0]; rail < first[1]; rail++) {
        kvr_ns soon = repair_soon(outbound, now, offer, rail);

        if (peer->repair_at[rail] != KVR_NEVER && peer->repair_at[rail] > soon)
            peer->repair_at[rail] = soon;
    }
    outbound_repair(outbound, now, offer->peer);
}

void outbound_repair(struct outbound *outbound, kvr_ns now, uint32_t peer)
{
    struct outbound_peer *state = &outbound->peers[peer];

    for (uint32_t rail = 0; state->up && rail < outbound->options.rail_count; rail++) {
        if (now < state->repair_at[rail])
            continue;
        state->repair_at[rail] = KVR_NEVER;
        outbound_rail_recycle(outbound, rail);
    }
}

/* One rail of a group at a time. */
static void recycle_next(struct outbound *outbound, uint32_t rail)
{
    uint32_t group = kvr_rail_groups_of(&outbound->options.groups, rail);
    const uint32_t *first = &outbound->options.groups.first[group];

    for (uint32_t i = first[0]; i < first[1]; i++)
        if (outbound->recycling[i])
            return;
    for (uint32_t i = first[0]; i < first[1]; i++) {
        struct kvr_group_message message = {.kind = KVR_GROUP_RECYCLE, .index = i, .group = group};

        if (!outbound->recycle_wanted[i])
            continue;
        outbound->recycle_wanted[i] = false;
        outbound->recycling[i] = true;
        outbound->recycles++;
        outbound->ports->command(outbound->ports->self, &message);
        return;
    }
}

void outbound_rail_recycle(struct outbound *outbound, uint32_t rail)
{
    if (outbound->recycling[rail])
        return; /* what is under way closes what this one would */
    outbound->recycle_wanted[rail] = true;
    recycle_next(outbound, rail);
}

void outbound_rail_recycled(struct outbound *outbound, kvr_ns now,
                            const struct kvr_group_message *message)
{
    outbound->retry_at[message->index] =
        message->status == KVR_OK ? KVR_NEVER : now + OUTBOUND_RETRY_NS;
    outbound->renewed_at[message->index] = now;
    outbound->recycling[message->index] = false;
    if (message->status == KVR_OK) /* what breaks with the fresh endpoint is told after this */
        for (uint32_t peer = 0; peer < KVR_PEERS_MAX; peer++)
            outbound->peers[peer].repair_at[message->index] = KVR_NEVER;
    list_ask_all(outbound, PUSH_ANY, message->index, PUSH_ANY, PUSH_ANY);
    recycle_next(outbound, message->index);
}

/* What crossed our last QUIET: the same counts hold for this round. */
static void round_begin(struct outbound *outbound, struct offer *offer, uint32_t round)
{
    if (round > offer->round) {
        offer->round = round;
        offer->owes_quiet = false; /* of the round before */
    }
    if ((offer->state == O_CLOSING || offer->state == O_TOMB) && !offer->landed)
        offer_quiet_tell(outbound, offer);
}

void room_received(struct outbound *outbound, kvr_ns now, struct offer *offer,
                   const struct kvr_msg_room *room)
{
    struct push_again *again;

    round_begin(outbound, offer, room->round);
    if (offer->state != O_LIVE)
        return;
    if (offer->job->share_bytes == 0) {
        offer_fail(outbound, now, offer, KVR_MALFORMED,
                   "there is room in staging memory that was not granted");
        return;
    }
    again = kvr_buddy_alloc(outbound->memory, sizeof(*again));
    if (again == NULL) {
        offer_fail(outbound, now, offer, KVR_NO_MEMORY, "no memory to go on posting");
        return;
    }
    *again = (struct push_again){.round = room->round, .room = room->position_end};
    outbound_group_command(outbound, offer, PUSH_AGAIN, again);
}

void missing_received(struct outbound *outbound, kvr_ns now, struct offer *offer,
                      const struct kvr_msg_missing *missing)
{
    uint64_t total = 0;

    for (uint32_t i = 0; i < missing->run_count; i++) {
        total += missing->runs[i].chunk_count;
        if ((uint64_t)missing->runs[i].chunk_first + missing->runs[i].chunk_count >
                offer->chunk_count ||
            missing->runs[i].chunk_count == 0 || total > offer->chunk_count) {
            offer_fail(outbound, now, offer, KVR_MALFORMED,
                       "chunks are missing that were not planned");
            return;
        }
    }
    round_begin(outbound, offer, missing->round);
    if (offer->state != O_LIVE)
        return;
    if (!post_again(outbound, offer, missing->runs, missing->run_count, missing->round)) {
        offer_fail(outbound, now, offer, KVR_NO_MEMORY, "no memory to post again");
        return;
    }
    offer_event(outbound, now, offer, KVR_EVENT_RETRY);
}
