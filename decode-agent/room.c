/* How far a source may write into the staging quota of its transfer, where the quota is a ring
 * (kvr_plan_positions): more bytes come than it holds.
 *
 * Bytes of the ring are written again once two things hold: the old bytes are in the pages, and no
 * older write to them can still arrive. A write that was posted once and has arrived does not come
 * again. After a second posting (rule 3) only quiet on every epoch proves that. So ROOM begins a
 * round, as MISSING does, and a source that has used up its room sends QUIET. */
#include "decode-agent/trust.h"

#include "base/mutant.h"
#include "decode-agent/sending.h"

void room_check(struct inbound *inbound, struct transfer *transfer)
{
    uint64_t room = transfer->quota.room_free + transfer->quota.bytes;
    struct kvr_message message = {.kind = KVR_MSG_ROOM};
    bool tainted = transfer->trust.state == TRUST_TAINTED && !KVR_MUTANT(room_while_tainted);

    if (transfer->state != T_LIVE || room <= transfer->quota.room || tainted ||
        (transfer->intake.state == INTAKE_FINAL &&
         transfer->quota.position_end <= transfer->quota.room))
        return;
    trust_on(&transfer->trust.state, TRUST_ON_ROOM_SENT);
    transfer->trust.suspect_at = KVR_NEVER;
    transfer->quota.room = room;
    inbound_group_command(inbound, transfer, LAND_MESSAGE(LAND_QUIET_VOID));
    message.room = (struct kvr_msg_room){.round = ++transfer->trust.round, .position_end = room};
    inbound_send_needed(inbound, transfer, &message);
}
