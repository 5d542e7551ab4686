/* DIGEST: hashes of the posted bytes, for a target that asks. */
#ifndef PREFILL_AGENT_DIGEST_H
#define PREFILL_AGENT_DIGEST_H

#include "prefill-agent/push.h"
#include "wire/message.h"

struct outbound;
struct source_transfer;

struct source_digest {
    kvr_digest_mode mode;
    const struct push_segment
        *next;          /* its digests are sent next, once all was posted; NULL: none */
    uint32_t chunk_end; /* chunks; their digests were sent */
};

/* Every chunk of the transfer was posted once: its digests follow, where the target asked. */
void digest_posted(struct outbound *outbound, struct source_transfer *transfer,
                   const struct push_segment *segment);
/* Sends the digests that wait for room. */
void digest_send(struct outbound *outbound, struct source_transfer *transfer);

#endif
