/* When a source can reach none of the rails that were granted, others carry on: the group's cards,
 * where we were to copy ourselves, then another group's. The landing stays where it is: what
 * arrives elsewhere is handed over to it (land_guest.c). */
#include "decode-agent/inbound.h"

static void guest_command(struct inbound *inbound, const struct transfer *transfer, uint32_t kind,
                          uint32_t group)
{
    struct kvr_group_message message = {.kind = kind,
                                        .index = kvr_pool_index(transfer->id),
                                        .id = transfer->nonce,
                                        .a = transfer->group,
                                        .pointer = transfer->landing,
                                        .group = group};

    inbound->ports->command(inbound->ports->self, &message);
}

/* Where there is no other group, or none that may carry on, the same is granted again: then the
 * source knows. */
void no_rail_received(struct inbound *inbound, struct transfer *transfer)
{
    uint32_t count = inbound->options.groups.count;
    bool stays = !inbound->options.failover || count == 1 || transfer->scatters || transfer->moves;

    if (transfer->state != T_LIVE || transfer->regranting)
        return;
    transfer->regranting = true;
    if (!stays && !transfer->local) {
        inbound->ports->region_register(inbound->ports->self, fetch_of(inbound, transfer)->set,
                                        (transfer->granted + 1) % count, transfer->id);
        return;
    }
    transfer->local = transfer->local && transfer->moves;
    transfer->registered = true;
    regrant_tell(inbound, transfer);
}

void inbound_registered(struct inbound *inbound, kvr_ns now, uint64_t id, kvr_status status)
{
    struct transfer *transfer = kvr_pool_get(&inbound->transfers, id);

    if (transfer != NULL && transfer->stage_waits) {
        transfer_stage_opened(inbound, now, transfer, status);
        return;
    }
    if (transfer == NULL || !transfer->regranting || transfer->state != T_LIVE)
        return;
    if (status == KVR_OK) {
        transfer->granted = (transfer->granted + 1) % inbound->options.groups.count;
        kvr_engines_changed(&inbound->engines, fetch_of(inbound, transfer)->engine,
                            fetch_of(inbound, transfer)->set);
    }
    transfer->registered = true;
    regrant_tell(inbound, transfer);
}

/* The GRANT is for the regions that the transfer was planned with: the source may have been told of
 * others since, or has not all keys of these. */
void regrant_tell(struct inbound *inbound, struct transfer *transfer)
{
    const struct fetch *fetch;
    kvr_status status;

    if (!transfer->registered || transfer->state != T_LIVE || transfer->peer_gone)
        return;
    fetch = fetch_of(inbound, transfer);
    status = kvr_engines_tell(&inbound->engines, fetch->engine, fetch->set, transfer->peer);
    if (status == KVR_AGAIN)
        return; /* parked: told when there is room */
    transfer->regranting = transfer->registered = false;
    if (status != KVR_OK && status != KVR_PEER_LOST)
        inbound->ports->hang_up(inbound->ports->self, transfer->peer, status,
                                "the regions of a transfer cannot be told again");
    if (status != KVR_OK)
        return;
    if (transfer->granted != transfer->group && (transfer->guests >> transfer->granted & 1) == 0) {
        transfer->guests |= UINT32_C(1) << transfer->granted;
        guest_command(inbound, transfer, LAND_GUEST, transfer->granted);
    }
    rails_grant(inbound, transfer);
}

void guests_leave(struct inbound *inbound, struct transfer *transfer)
{
    for (uint32_t group = 0; group < inbound->options.groups.count; group++) {
        if ((transfer->guests >> group & 1) == 0)
            continue;
        transfer->lands_open++;
        guest_command(inbound, transfer, LAND_GUEST_LEAVES, group);
    }
}
