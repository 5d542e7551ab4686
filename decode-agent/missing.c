/* Decides which chunks the source posts a second time (rule 3).
 *
 * The source sends RAIL_LOST with the chunks that it posted on a rail that failed. The rail thread
 * compares them with its bits. Only the chunks that are not here go into MISSING, and only MISSING
 * permits a second posting. From then on the transfer is tainted. */
#include "decode-agent/trust.h"

#include <string.h>

#include "base/mutant.h"
#include "decode-agent/sending.h"

/* Without them, a chunk that comes twice puts its pair in doubt. */
static uint64_t *again_bits(struct inbound *inbound, struct transfer *transfer)
{
    size_t bytes = (size_t)transfer->slots.count * KVR_SLOT_CHUNKS / 8;

    if (transfer->slots.again != NULL)
        return transfer->slots.again;
    transfer->slots.again = kvr_buddy_alloc(inbound->memory, bytes);
    if (transfer->slots.again != NULL)
        memset(transfer->slots.again, 0, bytes);
    return transfer->slots.again;
}

void rail_lost_received(struct inbound *inbound, struct transfer *transfer,
                        const struct kvr_msg_rail_lost *lost)
{
    struct landing_filter *filter;
    uint64_t total = 0;

    if (transfer->state != T_LIVE || lost->run_count == 0)
        return;
    for (uint32_t i = 0; i < lost->run_count; i++) {
        total += lost->runs[i].chunk_count;
        if ((uint64_t)lost->runs[i].chunk_first + lost->runs[i].chunk_count >
                transfer->intake.chunk_count ||
            total > transfer->intake.chunk_count) {
            transfer_fail(inbound, transfer, KVR_MALFORMED,
                          "the source lost chunks that the transfer does not have");
            return;
        }
    }
    filter = kvr_buddy_alloc(inbound->memory,
                             sizeof(*filter) + (total + lost->run_count) * sizeof(filter->runs[0]));
    if (filter == NULL) {
        transfer_fail(inbound, transfer, KVR_NO_MEMORY, "no memory to ask for lost chunks");
        return;
    }
    transfer_rail_lost(transfer, lost->rail, lost->epoch);
    filter->capacity = (uint32_t)total;
    filter->asked_count = lost->run_count;
    filter->rail = lost->rail;
    filter->epoch = lost->epoch;
    filter->again = again_bits(inbound, transfer);
    memcpy(&filter->runs[total], lost->runs, lost->run_count * sizeof(filter->runs[0]));
    inbound_group_command(inbound, transfer, LAND_MESSAGE(LAND_FILTER, .filter = filter));
}

void missing_send(struct inbound *inbound, struct transfer *transfer,
                  const struct landing_filter *filter)
{
    if (transfer->state != T_LIVE || filter->run_count == 0)
        return;
    trust_on(&transfer->trust.state, TRUST_ON_MISSING_SENT);
    transfer->trust.suspect_at = KVR_NEVER;
    if (!KVR_MUTANT(old_quiet_accepted))
        inbound_group_command(inbound, transfer, LAND_MESSAGE(LAND_QUIET_VOID));
    for (uint32_t i = 0; i < filter->run_count; i++)
        transfer->retries += filter->runs[i].chunk_count;
    for (uint32_t i = 0; i < filter->run_count; i += KVR_RUNS_PER_MESSAGE) {
        uint32_t left = filter->run_count - i;
        struct kvr_message message = {.kind = KVR_MSG_MISSING};

        /* A round for each message: QUIET after the first says nothing about the second. */
        message.missing = (struct kvr_msg_missing){
            .round = ++transfer->trust.round,
            .runs = filter->runs + i,
            .run_count = left < KVR_RUNS_PER_MESSAGE ? left : KVR_RUNS_PER_MESSAGE,
        };
        inbound_send_needed(inbound, transfer, &message);
    }
    transfer_report(inbound, transfer, KVR_EVENT_RETRY);
}
