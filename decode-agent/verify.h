/* DIGEST: whether the bytes that landed are the source's (rule 6). The table of the states is in
 * verify.c. */
#ifndef DECODE_AGENT_VERIFY_H
#define DECODE_AGENT_VERIFY_H

#include "base/state.h"
#include "decode-agent/inbound.h"

struct transfer;

enum verify_state {
    VERIFY_AWAITING, /* chunks or their digests are missing, or no digest is asked for */
    VERIFY_HASHING,  /* the rail thread hashes */
    VERIFY_READING,  /* the same, and copies read the pages of device memory */
    VERIFY_VERIFIED, /* every chunk that has a digest has the right bytes */
    VERIFY_STATES
};

enum verify_event {
    VERIFY_ON_BEGUN,
    VERIFY_ON_BEGUN_STAGED, /* copies bring the bytes back from the pages */
    VERIFY_ON_READ_ENDED,   /* a copy failed, or the bytes were wrong */
    VERIFY_ON_VERIFIED,
    VERIFY_EVENTS
};

struct verification {
    enum verify_state state;
    kvr_digest_mode mode; /* the strongest that both agents and the engine ask for */
    uint32_t chunk_end;   /* end of the chunks with a digest */
};

KVR_STATE_MACHINE(verify);

void digest_received(struct inbound *inbound, struct transfer *transfer,
                     const struct kvr_msg_digest *digest);
/* True: the bytes are known to be right, or no digest is asked for. Else begins to hash them once
 * all digests have come. */
bool transfer_verified(struct inbound *inbound, struct transfer *transfer);
/* The bytes of this chunk are wrong: fails the transfer. */
void transfer_corrupt(struct inbound *inbound, struct transfer *transfer, uint32_t chunk);

#endif
