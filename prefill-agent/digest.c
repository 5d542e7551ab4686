/* DIGEST: hashes of the posted bytes, for a target that asks. */
#include "prefill-agent/announce.h"

#include "kv/chunk_digest.h"
#include "prefill-agent/outbound.h"
#include "prefill-agent/sending.h"
#include "prefill-agent/source_transfer.h"

/* The digests of as many chunks as a message takes; the segment moves on with them. */
static void fill(const struct source_transfer *transfer, const struct push_segment **segment,
                 struct kvr_msg_digest *digest, uint64_t *values)
{
    digest->values = values;
    for (; *segment != NULL; *segment = (*segment)->next) {
        uint32_t count = (*segment)->plan->chunk_count;
        uint32_t i = digest->chunk_first + digest->chunk_count - (*segment)->chunk_first;

        for (; i < count; i++, digest->chunk_count++) {
            if (!kvr_digest_covers(transfer->digest.mode, transfer->nonce,
                                   (*segment)->chunk_first + i))
                continue;
            if (digest->value_count == KVR_DIGESTS_PER_MESSAGE)
                return;
            values[digest->value_count++] = (*segment)->digests[i];
        }
    }
}

void digest_send(struct outbound *outbound, struct source_transfer *transfer)
{
    uint64_t *values;

    if (transfer->state != ST_LIVE || transfer->digest.next == NULL)
        return;
    values = kvr_buddy_alloc(outbound->memory, KVR_DIGESTS_PER_MESSAGE * sizeof(*values));
    if (values == NULL) { /* the target would wait for them until its deadline */
        outbound->ports->hang_up(outbound->ports->self, transfer->peer, KVR_NO_MEMORY,
                                 "no memory to tell the digests of a transfer");
        return;
    }
    while (transfer->digest.next != NULL) {
        struct kvr_message message = {.kind = KVR_MSG_DIGEST};
        const struct push_segment *segment = transfer->digest.next;

        message.digest.chunk_first = transfer->digest.chunk_end;
        fill(transfer, &segment, &message.digest, values);
        if (outbound_send_patient(outbound, transfer, &message) != KVR_OK)
            break; /* the rest waits for room */
        transfer->digest.chunk_end += message.digest.chunk_count;
        transfer->digest.next = segment;
    }
    kvr_buddy_free(outbound->memory, values);
}

void digest_posted(struct outbound *outbound, struct source_transfer *transfer,
                   const struct push_segment *segment)
{
    if (transfer->digest.mode == KVR_DIGEST_OFF ||
        transfer->digest.chunk_end == transfer->announce.chunk_count ||
        transfer->digest.next != NULL)
        return;
    transfer->digest.next = segment;
    digest_send(outbound, transfer);
}
