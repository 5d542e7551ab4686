/* An engine that ends may owe FAIL and QUIET to one target for thousands of transfers at once. A
 * full queue must not end the session: both wait for room with their transfer, past its end.
 *
 * state      | FAIL_DUE   | QUIET_DUE  | FAIL_SENT | QUIET_SENT | ROUND | LANDED
 * -----------|------------|------------|-----------|------------|-------|-------
 * NONE       | FAIL       | QUIET      | -         | -          | =     | =
 * FAIL       | =          | FAIL_QUIET | NONE      | -          | =     | NONE
 * QUIET      | FAIL_QUIET | =          | -         | NONE       | NONE  | NONE
 * FAIL_QUIET | =          | =          | QUIET     | -          | FAIL  | NONE */
#include "prefill-agent/settle.h"

#include "prefill-agent/outbound.h"
#include "prefill-agent/sending.h"
#include "prefill-agent/source_transfer.h"

KVR_STATE_TABLE(source_pending, PENDING) = {
    /* FAIL_DUE, QUIET_DUE, FAIL_SENT, QUIET_SENT, ROUND, LANDED */
    [PENDING_NONE] = {PENDING_FAIL, PENDING_QUIET, NEVER, NEVER, PENDING_NONE, PENDING_NONE},
    [PENDING_FAIL] = {PENDING_FAIL, PENDING_FAIL_QUIET, PENDING_NONE, NEVER, PENDING_FAIL,
                      PENDING_NONE},
    [PENDING_QUIET] = {PENDING_FAIL_QUIET, PENDING_QUIET, NEVER, PENDING_NONE, PENDING_NONE,
                       PENDING_NONE},
    [PENDING_FAIL_QUIET] = {PENDING_FAIL_QUIET, PENDING_FAIL_QUIET, PENDING_QUIET, NEVER,
                            PENDING_FAIL, PENDING_NONE},
};

static bool fail_sent(struct outbound *outbound, const struct source_transfer *transfer)
{
    struct kvr_message message = {.kind = KVR_MSG_FAIL};

    message.reason.status = transfer->status;
    memcpy(message.reason.detail, transfer->detail, sizeof(message.reason.detail));
    return outbound_send_patient(outbound, transfer, &message) == KVR_OK;
}

static bool quiet_sent(struct outbound *outbound, const struct source_transfer *transfer)
{
    struct kvr_message message = {.kind = KVR_MSG_QUIET};

    message.quiet.round = transfer->settle.round;
    message.quiet.counts = transfer->settle.counts;
    message.quiet.count_count = transfer->settle.count_count;
    return outbound_send_patient(outbound, transfer, &message) == KVR_OK;
}

/* In the middle of the group's counts none of them is right: QUIET waits until all are reported. */
void pending_send(struct outbound *outbound, struct source_transfer *transfer)
{
    const enum source_pending_state *state = &transfer->settle.pending;

    if (*state == PENDING_FAIL || *state == PENDING_FAIL_QUIET) {
        if (!fail_sent(outbound, transfer))
            return;
        source_pending_on(&transfer->settle.pending, PENDING_ON_FAIL_SENT);
    }
    if (*state == PENDING_QUIET && transfer->settle.state != SETTLE_COUNTING &&
        quiet_sent(outbound, transfer))
        source_pending_on(&transfer->settle.pending, PENDING_ON_QUIET_SENT);
}

void pending_due(struct outbound *outbound, struct source_transfer *transfer,
                 enum source_pending_event due)
{
    source_pending_on(&transfer->settle.pending, due);
    pending_send(outbound, transfer);
}

bool pending_waits(const struct source_transfer *transfer)
{
    return transfer->settle.pending != PENDING_NONE;
}
