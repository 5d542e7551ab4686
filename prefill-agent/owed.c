/* Last words: FAIL, and QUIET. An engine that ends may owe them to one target for thousands of
 * offers at once, and a full queue may cost nobody his session: they wait for room with their
 * offer, past its end. */
#include "prefill-agent/outbound.h"

static bool fail_told(struct outbound *outbound, const struct offer *offer)
{
    struct kvr_message message = {.kind = KVR_MSG_FAIL};

    message.reason.status = offer->status;
    memcpy(message.reason.detail, offer->detail, sizeof(message.reason.detail));
    return outbound_send_patient(outbound, offer, &message) == KVR_OK;
}

static bool quiet_told(struct outbound *outbound, const struct offer *offer)
{
    struct kvr_message message = {.kind = KVR_MSG_QUIET};

    message.quiet.round = offer->round;
    message.quiet.counts = offer->counts;
    message.quiet.count_count = offer->count_count;
    return outbound_send_patient(outbound, offer, &message) == KVR_OK;
}

/* In the middle of the group's counts none is right: when it has told them, all are owed again. */
void offer_owed_tell(struct outbound *outbound, struct offer *offer)
{
    if (offer->owes_fail && !fail_told(outbound, offer))
        return;
    offer->owes_fail = false;
    if (offer->owes_quiet && !offer->counting && quiet_told(outbound, offer))
        offer->owes_quiet = false;
}

void offer_fail_tell(struct outbound *outbound, struct offer *offer)
{
    offer->owes_fail = true;
    offer_owed_tell(outbound, offer);
}

void offer_quiet_tell(struct outbound *outbound, struct offer *offer)
{
    offer->owes_quiet = true;
    offer_owed_tell(outbound, offer);
}
