/* How far a source may write into its transfer's share of staging memory, where the transfer is
 * larger than the share: the share is a ring (kvr_plan_positions), and its bytes are written again
 * once what lay there is in its pages and no write to it can still arrive. A write that was posted
 * once and has arrived does not come again; after a second posting (rule 3) that is known only when
 * every epoch is quiet. So ROOM begins a round, as MISSING does, and a source that has used up its
 * room says QUIET. */
#include "base/mutant.h"
#include "decode-agent/inbound.h"

void room_landed(struct inbound *inbound, struct transfer *transfer, uint64_t position_end)
{
    transfer->room_free = position_end;
    room_check(inbound, transfer);
}

void room_check(struct inbound *inbound, struct transfer *transfer)
{
    uint64_t room = transfer->room_free + transfer->share_bytes;
    struct kvr_message message = {.kind = KVR_MSG_ROOM};
    bool tainted = transfer->tainted && !transfer->quiet && !KVR_MUTANT(room_while_tainted);

    if (transfer->state != T_LIVE || room <= transfer->room || tainted ||
        (transfer->final_seen && transfer->position_end <= transfer->room))
        return;
    transfer->tainted &= !transfer->quiet; /* what was posted before this can land no more */
    transfer->quiet = false;
    transfer->suspect_at = KVR_NEVER;
    transfer->room = room;
    inbound_group_command(inbound, transfer, LAND_LOUD, 0, NULL);
    message.room = (struct kvr_msg_room){.round = ++transfer->round, .position_end = room};
    inbound_send_needed(inbound, transfer, &message);
}
