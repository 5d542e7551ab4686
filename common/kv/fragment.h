/* Mappings that need small writes: how small, how many, and what to do about them. Pure.
 *
 * Where one side keeps the heads of a token together and the other the tokens of a head, or ranks
 * share a page's heads in token order, what is contiguous at both ends is short. Then either every
 * fragment is written, or the source gathers into a staging buffer and the target scatters out of
 * one, or the request is refused. */
#ifndef KVR_KV_FRAGMENT_H
#define KVR_KV_FRAGMENT_H

#include "kv/plan.h"

struct kvr_fragments {
    uint64_t bytes_min; /* of the shortest piece; UINT64_MAX where nothing is shared */
    uint64_t pieces;    /* without neighbours that merge */
    uint64_t bytes;
};

/* Of the whole pages of so many tokens: input->limits, pages and tokens are not looked at. Fails as
 * kvr_layout_match does. */
KVR_MUST_CHECK kvr_status kvr_fragments_count(const struct kvr_plan_input *input, uint64_t tokens,
                                              struct kvr_fragments *ret_fragments,
                                              struct kvr_error *error);

typedef enum kvr_fragment_choice {
    KVR_FRAGMENT_AUTO,  /* as an option: whatever is faster by the measured costs */
    KVR_FRAGMENT_WRITE, /* every piece as it is */
    KVR_FRAGMENT_STAGE, /* gather at the source, scatter at the target */
    KVR_FRAGMENT_REFUSE,
} kvr_fragment_choice;

struct kvr_fragment_policy {
    kvr_fragment_choice option;
    uint64_t fragment_bytes_min; /* pieces at least so long are written whatever the option says */
    uint64_t chunk_bytes_max;
    uint32_t pieces_a_write;
    bool staged; /* both ends copy whatever it is: fragments make no writes of their own */
    /* Measured; 0: not known, and then nothing is staged. */
    double write_ns; /* of one more write, whatever its size */
    double piece_ns; /* of one more piece of a write */
    double wire_ns_per_byte;
    double copy_ns; /* of one more fragment, into or out of the staging buffer */
    double copy_ns_per_byte;
};

/* What is done, and what each way would take; for the transfer's record. */
struct kvr_fragment_verdict {
    kvr_fragment_choice choice; /* WRITE or STAGE */
    double write_ns, stage_ns;  /* 0: not known */
};

/* KVR_INCOMPATIBLE with a sentence when the policy refuses. */
KVR_MUST_CHECK kvr_status kvr_fragments_judge(const struct kvr_fragments *fragments,
                                              const struct kvr_fragment_policy *policy,
                                              struct kvr_fragment_verdict *ret_verdict,
                                              struct kvr_error *error);

#endif
