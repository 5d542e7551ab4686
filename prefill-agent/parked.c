#include "prefill-agent/parked.h"

#include "prefill-agent/outbound.h"
#include "prefill-agent/settle.h"
#include "prefill-agent/source_transfer.h"

static uint64_t memory_bytes(const struct outbound *outbound)
{
    return (uint64_t)outbound->memory->units * KVR_BUDDY_BLOCK_BYTES;
}

static kvr_status refuse(struct outbound *outbound, struct kvr_error *error, const char *sentence)
{
    outbound->wants_refused++;
    return kvr_error_set(error, KVR_FULL, "want", "%s", sentence);
}

/* Fails one parked WANT of the target: which one does not matter to the others. */
static void drop_one(struct outbound *outbound, uint32_t peer)
{
    KVR_POOL_EACH (struct source_transfer, transfer, &outbound->transfers) {
        if (transfer->state != ST_PARKED || transfer->peer != peer)
            continue;
        outbound->wants_refused++;
        source_transfer_fail(outbound, transfer, KVR_FULL,
                             "this target wants the most requests that no engine has published, "
                             "and others need the room");
        return;
    }
}

static uint32_t peer_with_most(const struct outbound *outbound)
{
    uint32_t most = 0;

    for (uint32_t i = 1; i < KVR_PEERS_MAX; i++)
        if (outbound->peers[i].parked > outbound->peers[most].parked)
            most = i;
    return most;
}

static uint32_t peer_with_most_memory(const struct outbound *outbound)
{
    uint32_t most = 0;

    for (uint32_t i = 1; i < KVR_PEERS_MAX; i++)
        if (outbound->peers[i].parked_bytes > outbound->peers[most].parked_bytes)
            most = i;
    return most;
}

kvr_status parked_place(struct outbound *outbound, uint32_t peer, struct kvr_error *error)
{
    uint32_t parked = outbound->peers[peer].parked, most;

    if (parked >= OUTBOUND_PARKED_MAX)
        return refuse(outbound, error,
                      "this target wants too many requests that no engine has published");
    if (parked < KVR_TRANSFERS_MAX - outbound->transfers.used_count)
        return KVR_OK;
    most = peer_with_most(outbound);
    if (outbound->peers[most].parked <= parked + 1)
        return refuse(outbound, error,
                      "the source agent's table of transfers is nearly full, and no target wants "
                      "more requests that no engine has published");
    drop_one(outbound, most);
    return KVR_OK;
}

kvr_status parked_memory(struct outbound *outbound, uint32_t peer, uint64_t bytes,
                         struct kvr_error *error)
{
    uint64_t all = memory_bytes(outbound), *own = &outbound->peers[peer].parked_bytes;

    if (bytes + *own > all / OUTBOUND_PARKED_SHARE)
        return refuse(
            outbound, error,
            "the page tables of the requests that this target wants and no engine has published "
            "take too much memory");
    while (outbound->parked_bytes + bytes > all / 2) {
        uint32_t most = peer_with_most_memory(outbound);
        uint64_t before = outbound->parked_bytes;

        if (outbound->peers[most].parked_bytes > *own + bytes)
            drop_one(outbound, most);
        if (outbound->parked_bytes == before)
            return refuse(outbound, error,
                          "the page tables of the requests that targets want and no engine has "
                          "published take half of the memory");
    }
    *own += bytes;
    outbound->parked_bytes += bytes;
    return KVR_OK;
}

void parked_memory_return(struct outbound *outbound, uint32_t peer, uint64_t bytes)
{
    outbound->peers[peer].parked_bytes -= bytes;
    outbound->parked_bytes -= bytes;
}
