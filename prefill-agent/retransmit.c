#include "prefill-agent/retransmit.h"

#include "base/list.h"
#include "base/mutant.h"
#include "prefill-agent/outbound.h"
#include "prefill-agent/sending.h"
#include "prefill-agent/source_transfer.h"

/* Of one RAIL_LOST; a longer list is made coarser, and names more chunks. */
#define LOST_RUNS 4096

void retransmit_list(struct outbound *outbound, struct source_transfer *transfer, uint32_t rail,
                     uint32_t target_rail, uint32_t epoch)
{
    struct push_list *list =
        kvr_buddy_alloc(outbound->memory, sizeof(*list) + LOST_RUNS * sizeof(struct kvr_chunk_run));

    if (list == NULL) { /* what cannot be repaired must end */
        outbound->ports->hang_up(outbound->ports->self, transfer->peer, KVR_NO_MEMORY,
                                 "no memory to list the writes of a lost rail");
        return;
    }
    *list = (struct push_list){
        .rail = rail, .target_rail = target_rail, .epoch = epoch, .run_capacity = LOST_RUNS};
    outbound_command(outbound, transfer, PUSH_MESSAGE(PUSH_LIST, .list = list));
}

void retransmit_list_all(struct outbound *outbound, uint32_t peer, uint32_t rail,
                         uint32_t target_rail, uint32_t epoch)
{
    KVR_POOL_EACH (struct source_transfer, transfer, &outbound->transfers)
        if (transfer->state == ST_LIVE && (peer == PUSH_ANY || transfer->peer == peer))
            retransmit_list(outbound, transfer, rail, target_rail, epoch);
}

static bool post_again(struct outbound *outbound, struct source_transfer *transfer,
                       const struct kvr_chunk_run *runs, uint32_t run_count, uint32_t round)
{
    struct push_retransmit *retransmit = kvr_buddy_alloc(
        outbound->memory, sizeof(*retransmit) + run_count * sizeof(retransmit->runs[0]));

    if (retransmit == NULL)
        return false;
    *retransmit = (struct push_retransmit){.round = round, .run_count = run_count};
    if (run_count > 0) /* else there is nothing to point to */
        memcpy(retransmit->runs, runs, run_count * sizeof(retransmit->runs[0]));
    outbound_command(outbound, transfer, PUSH_MESSAGE(PUSH_RETRANSMIT, .retransmit = retransmit));
    return true;
}

/* ---- RAIL_LOST ------------------------------------------------------------------------------- */

void retransmit_listed(struct outbound *outbound, struct source_transfer *transfer,
                       struct push_list *list)
{
    if (!list->found || transfer->state != ST_LIVE) {
        kvr_buddy_free(outbound->memory, list);
        return;
    }
    if (KVR_MUTANT(second_posting_without_missing)) {
        post_again(outbound, transfer, list->runs, list->run_count, transfer->settle.round);
        outbound_command(outbound, transfer, PUSH_MESSAGE(PUSH_LIST, .list = list));
        return;
    }
    KVR_LIST_APPEND(transfer->retransmit.lists, transfer->retransmit.lists_last, list, behind);
    retransmit_lists_send(outbound, transfer);
}

void retransmit_lists_send(struct outbound *outbound, struct source_transfer *transfer)
{
    while (transfer->state == ST_LIVE && transfer->retransmit.lists != NULL) {
        struct push_list *list = transfer->retransmit.lists;
        struct kvr_message message = {.kind = KVR_MSG_RAIL_LOST};

        message.rail_lost = (struct kvr_msg_rail_lost){
            .rail = list->pair.target_rail,
            .epoch = list->pair.epoch,
            .runs = list->runs,
            .run_count = list->run_count,
        };
        if (outbound_send_patient(outbound, transfer, &message) != KVR_OK)
            return;
        transfer->retransmit.lists = list->behind;
        outbound_command(outbound, transfer,
                         PUSH_MESSAGE(PUSH_LIST, .list = list)); /* the next pair */
    }
}

void retransmit_lists_drop(struct outbound *outbound, struct source_transfer *transfer)
{
    while (transfer->retransmit.lists != NULL) {
        struct push_list *list = transfer->retransmit.lists;

        transfer->retransmit.lists = list->behind;
        kvr_buddy_free(outbound->memory, list);
    }
}

/* ---- MISSING, ROOM --------------------------------------------------------------------------- */

void retransmit_room(struct outbound *outbound, struct source_transfer *transfer,
                     const struct kvr_msg_room *room)
{
    struct push_retransmit *retransmit;

    settle_round(outbound, transfer, room->round);
    if (transfer->state != ST_LIVE)
        return;
    if (transfer->grant.staging_quota == 0) {
        source_transfer_fail(outbound, transfer, KVR_MALFORMED,
                             "there is room in staging memory that was not granted");
        return;
    }
    retransmit = kvr_buddy_alloc(outbound->memory, sizeof(*retransmit));
    if (retransmit == NULL) {
        source_transfer_fail(outbound, transfer, KVR_NO_MEMORY, "no memory to go on posting");
        return;
    }
    *retransmit = (struct push_retransmit){.round = room->round, .room = room->position_end};
    outbound_command(outbound, transfer, PUSH_MESSAGE(PUSH_RETRANSMIT, .retransmit = retransmit));
}

void retransmit_missing(struct outbound *outbound, struct source_transfer *transfer,
                        const struct kvr_msg_missing *missing)
{
    uint64_t total = 0;

    for (uint32_t i = 0; i < missing->run_count; i++) {
        total += missing->runs[i].chunk_count;
        if ((uint64_t)missing->runs[i].chunk_first + missing->runs[i].chunk_count >
                transfer->announce.chunk_count ||
            missing->runs[i].chunk_count == 0 || total > transfer->announce.chunk_count) {
            source_transfer_fail(outbound, transfer, KVR_MALFORMED,
                                 "chunks are missing that were not planned");
            return;
        }
    }
    settle_round(outbound, transfer, missing->round);
    if (transfer->state != ST_LIVE)
        return;
    if (!post_again(outbound, transfer, missing->runs, missing->run_count, missing->round)) {
        source_transfer_fail(outbound, transfer, KVR_NO_MEMORY, "no memory to post again");
        return;
    }
    source_transfer_event(outbound, transfer, KVR_EVENT_RETRY);
}
