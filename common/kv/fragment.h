/* Mappings that need small writes: their size, their number, and the way to move them. Pure.
 *
 * One side may keep the heads of a token together and the other the tokens of a head. Or ranks
 * share a page's heads in token order. Then only short runs are contiguous at both ends. Three
 * answers are possible: write every fragment; copy fragments through staging memory at one end or
 * both, so that one write carries many; or refuse the request.
 *
 * A way is assumed to take as long as its busiest station:
 *
 *   source  writes × write + runs × piece (+ gathering: pieces × copy + bytes × copy_byte)
 *   wire    bytes × wire_byte
 *   target  writes × write (+ scattering, as gathering)
 *
 * The stations work at the same time, each on one thread. Where processors are the wire (tcp,
 * shared memory), both ends do part of its work. A write's pieces that touch at an end are one run
 * there. At an end that is not copied, a write has at most as many runs as its limits allow. This
 * is the usual model of a pipeline (LogGP's o, G and two costs of a copy). It leaves out that
 * transfers wait for each other's staging memory. */
#ifndef KVR_KV_FRAGMENT_H
#define KVR_KV_FRAGMENT_H

#include "kv/plan.h"

struct kvr_fragments {
    uint64_t bytes_min; /* of the shortest piece; UINT64_MAX where both sides share nothing */
    uint64_t pieces;    /* not counting merges of neighbouring pages */
    uint64_t bytes;
    uint64_t source_runs, target_runs; /* of pieces that touch at that end */
};

/* Counts for the whole pages of so many tokens; ignores input->limits, pages and tokens. Fails as
 * kvr_layout_match does. */
KVR_MUST_CHECK kvr_status kvr_fragments_count(const struct kvr_plan_input *input, uint64_t tokens,
                                              struct kvr_fragments *ret_fragments,
                                              struct kvr_error *error);
/* Sums over all KV groups of a transfer; begins with KVR_FRAGMENTS_NONE. */
#define KVR_FRAGMENTS_NONE                                                                         \
    (struct kvr_fragments)                                                                         \
    {                                                                                              \
        .bytes_min = UINT64_MAX                                                                    \
    }
void kvr_fragments_add(struct kvr_fragments *sum, const struct kvr_fragments *fragments);

typedef enum kvr_fragment_choice {
    KVR_FRAGMENT_AUTO,  /* as an option: copied where copying saves a quarter of the time */
    KVR_FRAGMENT_WRITE, /* every piece is written as it is */
    KVR_FRAGMENT_STAGE, /* gathered at the source, scattered at the target, or both */
    KVR_FRAGMENT_REFUSE,
} kvr_fragment_choice;

/* In ns. */
struct kvr_fragment_costs {
    double write; /* of one more write of any size; 0: unknown */
    double piece; /* of one more run of a write */
    double wire_byte;
    double copy; /* of one more piece, into or out of staging memory */
    double copy_byte;
    bool processors; /* processors are the wire */
};

struct kvr_fragment_policy {
    kvr_fragment_choice option;
    uint64_t fragment_bytes_min; /* pieces at least so long are written, whatever the option is */
    uint64_t chunk_bytes_max;
    uint32_t pieces_local, pieces_remote; /* of a write, at an end that is not copied */
    bool gathers, scatters;       /* cards cannot reach those pages, so they are copied anyway */
    bool may_gather, may_scatter; /* they can be copied, but need not be */
    struct kvr_fragment_costs costs;
};

/* The decision, and the time that each way would take; for the transfer's record. */
struct kvr_fragment_verdict {
    kvr_fragment_choice choice; /* WRITE or STAGE */
    bool gathers, scatters;
    struct kvr_fragment_way {
        uint64_t writes, ns; /* ns 0: unknown, or the way is not possible */
    } direct, staged;
};

/* KVR_INCOMPATIBLE, with a reason, when the policy refuses. */
KVR_MUST_CHECK kvr_status kvr_fragments_judge(const struct kvr_fragments *fragments,
                                              const struct kvr_fragment_policy *policy,
                                              struct kvr_fragment_verdict *ret_verdict,
                                              struct kvr_error *error);

#endif
