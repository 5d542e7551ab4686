/* DIGEST: what the bytes were that were posted, for a target that asks. */
#include "kv/chunk_digest.h"
#include "prefill-agent/outbound.h"

/* The digests of as many chunks as a message takes; the segment moves on with them. */
static void fill(const struct offer *offer, const struct push_segment **segment,
                 struct kvr_msg_digest *digest, uint64_t *values)
{
    digest->values = values;
    for (; *segment != NULL; *segment = (*segment)->next) {
        uint32_t count = (*segment)->plan->chunk_count;
        uint32_t i = digest->chunk_first + digest->chunk_count - (*segment)->chunk_first;

        for (; i < count; i++, digest->chunk_count++) {
            if (!kvr_digest_covers(offer->digest, offer->nonce, (*segment)->chunk_first + i))
                continue;
            if (digest->value_count == KVR_DIGESTS_PER_MESSAGE)
                return;
            values[digest->value_count++] = (*segment)->digests[i];
        }
    }
}

void offer_digests_tell(struct outbound *outbound, struct offer *offer)
{
    uint64_t *values;

    if (offer->state != O_LIVE || offer->hashed == NULL)
        return;
    values = kvr_buddy_alloc(outbound->memory, KVR_DIGESTS_PER_MESSAGE * sizeof(*values));
    if (values == NULL) { /* the target would wait for them until its deadline */
        outbound->ports->hang_up(outbound->ports->self, offer->peer, KVR_NO_MEMORY,
                                 "no memory to tell the digests of a transfer");
        return;
    }
    while (offer->hashed != NULL) {
        struct kvr_message message = {.kind = KVR_MSG_DIGEST};
        const struct push_segment *segment = offer->hashed;

        message.digest.chunk_first = offer->digest_end;
        fill(offer, &segment, &message.digest, values);
        if (outbound_send_patient(outbound, offer, &message) != KVR_OK)
            break; /* the rest waits for room */
        offer->digest_end += message.digest.chunk_count;
        offer->hashed = segment;
    }
    kvr_buddy_free(outbound->memory, values);
}

void offer_hashed(struct outbound *outbound, struct offer *offer,
                  const struct push_segment *segment)
{
    if (offer->digest == KVR_DIGEST_OFF || offer->digest_end == offer->chunk_count ||
        offer->hashed != NULL)
        return;
    offer->hashed = segment;
    offer_digests_tell(outbound, offer);
}
