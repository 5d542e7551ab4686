/* DIGEST: what the bytes were that were posted, for a target that asks. */
#include "kv/chunk_digest.h"
#include "prefill-agent/outbound.h"

static void tell(struct outbound *outbound, const struct offer *offer,
                 struct kvr_msg_digest *digest, uint32_t chunk_end)
{
    struct kvr_message message = {.kind = KVR_MSG_DIGEST};

    digest->chunk_count = chunk_end - digest->chunk_first;
    message.digest = *digest;
    outbound_send_needed(outbound, offer, &message);
    digest->chunk_first = chunk_end;
    digest->value_count = 0;
}

void offer_digests_tell(struct outbound *outbound, struct offer *offer,
                        const struct push_segment *segment)
{
    uint64_t *values;
    struct kvr_msg_digest digest = {0};
    uint32_t chunk = 0;

    if (offer->state != O_LIVE || offer->digest == KVR_DIGEST_OFF || offer->digests_told)
        return;
    offer->digests_told = true;
    values = kvr_buddy_alloc(outbound->memory, KVR_DIGESTS_PER_MESSAGE * sizeof(*values));
    if (values == NULL) { /* the target would wait for them until its deadline */
        outbound->ports->hang_up(outbound->ports->self, offer->peer, KVR_NO_MEMORY,
                                 "no memory to tell the digests of a transfer");
        return;
    }
    digest.values = values;
    for (; segment != NULL; segment = segment->next) {
        for (uint32_t i = 0; i < segment->plan->chunk_count; i++, chunk++) {
            if (!kvr_digest_covers(offer->digest, offer->nonce, chunk))
                continue;
            if (digest.value_count == KVR_DIGESTS_PER_MESSAGE)
                tell(outbound, offer, &digest, chunk);
            values[digest.value_count++] = segment->digests[i];
        }
    }
    if (chunk > digest.chunk_first)
        tell(outbound, offer, &digest, chunk);
    kvr_buddy_free(outbound->memory, values);
}
