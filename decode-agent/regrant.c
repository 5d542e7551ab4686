/* When a source can reach none of the rails that were granted, others carry on: first the cards of
 * the rail group, where this agent was to copy, then another rail group.
 *
 * state       | GROUP_LOST  | RAILS_LOST | REGISTERED | OPENED     | SENT
 * ------------|-------------|------------|------------|------------|-----
 * NONE        | REGISTERING | OPENING    | -          | -          | -
 * REGISTERING | -           | -          | OPENING    | -          | -
 * OPENING     | -           | -          | -          | ANNOUNCING | -
 * ANNOUNCING  | -           | -          | -          | -          | NONE
 *
 * The landing stays with its rail group. Other groups hand over to it what arrives on their rails
 * (land_forward.c). */
#include "decode-agent/grant.h"

#include "decode-agent/fetch.h"
#include "decode-agent/transfer.h"

KVR_STATE_TABLE(regrant, REGRANT) = {
    /* GROUP_LOST, RAILS_LOST, REGISTERED, OPENED, SENT */
    [REGRANT_NONE] = {REGRANT_REGISTERING, REGRANT_OPENING, NEVER, NEVER, NEVER},
    [REGRANT_REGISTERING] = {NEVER, NEVER, REGRANT_OPENING, NEVER, NEVER},
    [REGRANT_OPENING] = {NEVER, NEVER, NEVER, REGRANT_ANNOUNCING, NEVER},
    [REGRANT_ANNOUNCING] = {NEVER, NEVER, NEVER, NEVER, REGRANT_NONE},
};

/* The keys of the rails that are granted next are opened, where they have any. */
static void keys_open(struct inbound *inbound, struct transfer *transfer)
{
    if (grant_keys_open(inbound, transfer))
        regrant_opened(inbound, transfer);
}

void regrant_opened(struct inbound *inbound, struct transfer *transfer)
{
    regrant_on(&transfer->regrant.state, REGRANT_ON_OPENED);
    regrant_announce(inbound, transfer);
}

static void forward_command(struct inbound *inbound, const struct transfer *transfer,
                            enum land_kind kind, uint32_t group)
{
    union land_message message =
        LAND_MESSAGE(kind, .forward = {transfer->grant.landing, transfer->grant.rail_group});

    message.head.group = group;
    message.landing = kvr_pool_index(transfer->id);
    message.transfer = transfer->nonce;
    inbound->ports->command(inbound->ports->self, &message.any);
}

/* Without another group that may carry on, the same group is granted again: then the source knows
 * that there is no other. */
void no_rail_received(struct inbound *inbound, struct transfer *transfer)
{
    uint32_t count = inbound->options.groups.count;
    bool stays = !inbound->options.failover || count == 1 || landing_path_staged(&transfer->path) ||
                 transfer->path.state == PATH_DIRECT_COPY;

    if (transfer->state != T_LIVE || !transfer->grant.sent ||
        transfer->regrant.state != REGRANT_NONE)
        return;
    if (!stays && !transfer->grant.same_host) {
        regrant_on(&transfer->regrant.state, REGRANT_ON_GROUP_LOST);
        inbound->ports->region_register(inbound->ports->self, fetch_of(inbound, transfer)->set,
                                        (transfer->grant.granted_group + 1) % count, transfer->id);
        return;
    }
    transfer->grant.same_host =
        transfer->grant.same_host && transfer->path.state == PATH_DIRECT_COPY;
    regrant_on(&transfer->regrant.state, REGRANT_ON_RAILS_LOST);
    keys_open(inbound, transfer);
}

void inbound_registered(struct inbound *inbound, kvr_ns now, uint64_t id, kvr_status status)
{
    struct transfer *transfer = kvr_pool_get(&inbound->transfers, id);

    inbound->now = now;
    if (transfer != NULL && transfer->path.state == PATH_OPENING) {
        landing_path_opened(inbound, transfer, status);
        return;
    }
    if (transfer == NULL || transfer->regrant.state != REGRANT_REGISTERING ||
        transfer->state != T_LIVE)
        return;
    if (status == KVR_OK) {
        transfer->grant.granted_group =
            (transfer->grant.granted_group + 1) % inbound->options.groups.count;
        kvr_engines_changed(&inbound->engines, fetch_of(inbound, transfer)->engine,
                            fetch_of(inbound, transfer)->set);
    }
    regrant_on(&transfer->regrant.state, REGRANT_ON_REGISTERED);
    keys_open(inbound, transfer);
}

/* GRANT is for the regions that the transfer was planned with. The source may know others by now,
 * or may lack keys of these: REGIONS goes first. */
void regrant_announce(struct inbound *inbound, struct transfer *transfer)
{
    const struct fetch *fetch;
    kvr_status status;

    if (transfer->regrant.state != REGRANT_ANNOUNCING || transfer->state != T_LIVE ||
        source_link_gone(&transfer->link))
        return;
    fetch = fetch_of(inbound, transfer);
    status = kvr_engines_tell(&inbound->engines, fetch->engine, fetch->set, transfer->link.peer);
    if (status == KVR_AGAIN)
        return; /* the queue is full: sent when there is room */
    regrant_on(&transfer->regrant.state, REGRANT_ON_SENT);
    if (status != KVR_OK && status != KVR_PEER_LOST)
        inbound->ports->hang_up(inbound->ports->self, transfer->link.peer, status,
                                "the regions of a transfer cannot be sent again");
    if (status != KVR_OK)
        return;
    if (transfer->grant.granted_group != transfer->grant.rail_group &&
        (transfer->regrant.forwarding >> transfer->grant.granted_group & 1) == 0) {
        transfer->regrant.forwarding |= UINT32_C(1) << transfer->grant.granted_group;
        forward_command(inbound, transfer, LAND_FORWARD, transfer->grant.granted_group);
    }
    grant_send(inbound, transfer);
}

void forwarding_end(struct inbound *inbound, struct transfer *transfer)
{
    for (uint32_t group = 0; group < inbound->options.groups.count; group++) {
        if ((transfer->regrant.forwarding >> group & 1) == 0)
            continue;
        transfer->regrant.landings_open++;
        forward_command(inbound, transfer, LAND_FORWARD_END, group);
    }
}
