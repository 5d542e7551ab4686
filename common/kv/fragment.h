/* Mappings that need small writes: how small, how many, and what to do about them. Pure.
 *
 * Where one side keeps the heads of a token together and the other the tokens of a head, or ranks
 * share a page's heads in token order, what is contiguous at both ends is short. Then either every
 * fragment is written, or it is copied through staging memory at one end or both, so that one write
 * carries many, or the request is refused.
 *
 * What a way takes is taken to be what its busiest station takes:
 *
 *   source  writes × write + runs × piece (+ gathering: pieces × copy + bytes × copy_byte)
 *   wire    bytes × wire_byte
 *   target  writes × write (+ scattering, as gathering)
 *
 * since they work at the same time, each on one thread. Where processors are the wire (tcp, shared
 * memory), it is a part of what both ends do. A write's pieces that touch at an end are one run
 * there, and a write has as many runs as its limits say at an end that is not copied. It is the
 * usual model of a pipeline (LogGP's o, G and a copy's two); what it leaves out is that transfers
 * wait for each other's staging memory. */
#ifndef KVR_KV_FRAGMENT_H
#define KVR_KV_FRAGMENT_H

#include "kv/plan.h"

struct kvr_fragments {
    uint64_t bytes_min; /* of the shortest piece; UINT64_MAX where nothing is shared */
    uint64_t pieces;    /* without neighbouring pages that merge */
    uint64_t bytes;
    uint64_t source_runs, target_runs; /* of pieces that touch there */
};

/* Of the whole pages of so many tokens: input->limits, pages and tokens are not looked at. Fails as
 * kvr_layout_match does. */
KVR_MUST_CHECK kvr_status kvr_fragments_count(const struct kvr_plan_input *input, uint64_t tokens,
                                              struct kvr_fragments *ret_fragments,
                                              struct kvr_error *error);
/* All groups of a transfer; begins with KVR_FRAGMENTS_NONE. */
#define KVR_FRAGMENTS_NONE                                                                         \
    (struct kvr_fragments)                                                                         \
    {                                                                                              \
        .bytes_min = UINT64_MAX                                                                    \
    }
void kvr_fragments_add(struct kvr_fragments *sum, const struct kvr_fragments *fragments);

typedef enum kvr_fragment_choice {
    KVR_FRAGMENT_AUTO,  /* as an option: copied where that saves a quarter of the time */
    KVR_FRAGMENT_WRITE, /* every piece as it is */
    KVR_FRAGMENT_STAGE, /* gathered at the source, scattered at the target, or one of both */
    KVR_FRAGMENT_REFUSE,
} kvr_fragment_choice;

/* In ns. */
struct kvr_fragment_costs {
    double write; /* of one more write, whatever its size; 0: nothing is known */
    double piece; /* of one more run of a write */
    double wire_byte;
    double copy; /* of one more piece, into or out of staging memory */
    double copy_byte;
    bool processors; /* are the wire */
};

struct kvr_fragment_policy {
    kvr_fragment_choice option;
    uint64_t fragment_bytes_min; /* pieces at least so long are written whatever the option says */
    uint64_t chunk_bytes_max;
    uint32_t pieces_local, pieces_remote; /* of a write, where that end is not copied */
    bool gathers, scatters;       /* cards cannot reach those pages: they are copied anyway */
    bool may_gather, may_scatter; /* they can be copied, though they need not */
    struct kvr_fragment_costs costs;
};

/* What is done, and what each way would take; for the transfer's record. */
struct kvr_fragment_verdict {
    kvr_fragment_choice choice; /* WRITE or STAGE */
    bool gathers, scatters;
    struct kvr_fragment_way {
        uint64_t writes, ns; /* ns 0: not known, or it is no way to go */
    } direct, staged;
};

/* KVR_INCOMPATIBLE with a sentence when the policy refuses. */
KVR_MUST_CHECK kvr_status kvr_fragments_judge(const struct kvr_fragments *fragments,
                                              const struct kvr_fragment_policy *policy,
                                              struct kvr_fragment_verdict *ret_verdict,
                                              struct kvr_error *error);

#endif
