/* Chooses the source ranks that give a target rank its KV, and the part that each one gives. Pure.
 *
 * A rank holds *shares*: rectangles of layers × heads of a KV group. Tensor parallelism cuts the
 * heads, pipeline parallelism the layers. With fewer heads than ranks (grouped queries, or MLA's
 * single latent), several ranks hold the same share, and one of them is chosen. The request's hash
 * makes the first choice, so requests spread over the ranks. The choice then goes in turn, so the
 * target ranks of one request spread too. Both agents compute the same choice. */
#ifndef KVR_KV_RANKS_H
#define KVR_KV_RANKS_H

#include "base/status.h"
#include "base/types.h"

struct kvr_share {
    uint32_t group;
    uint32_t layer_first, layer_count;
    uint32_t head_first, head_count;
};
#define KVR_SHARES_MAX 32 /* of one rank: more than one for a KV group only where layers differ */

struct kvr_shares {
    uint32_t count;
    struct kvr_share shares[KVR_SHARES_MAX];
};

/* The shares in a rank's regions: neighbouring layers with the same heads are one share.
 * KVR_TOO_LARGE: more than KVR_SHARES_MAX. KVR_INVALID: two parts of a layer with different heads,
 * or a layer beyond the limit. The regions have passed kvr_layout_check. */
KVR_MUST_CHECK kvr_status kvr_shares_of_layouts(const struct kvr_region_layout *layouts,
                                                uint32_t layout_count,
                                                struct kvr_shares *ret_shares,
                                                struct kvr_error *error);
/* The shares of a rank by convention, where its regions are unknown. Heads are divided equally, or
 * each head lies at as many ranks. Layers are divided equally; remaining layers go one each to the
 * stages before the last (vLLM). KVR_INCOMPATIBLE where heads and tp_size do not divide. */
KVR_MUST_CHECK kvr_status kvr_share_of_rank(const struct kvr_rank *rank, uint32_t group,
                                            uint32_t layers_total, uint32_t heads_total,
                                            struct kvr_share *ret_share, struct kvr_error *error);

/* True when both have a layer and head of a KV group in common. Then the one rank could need the
 * other, and contacts it even when another rank gives everything. */
bool kvr_shares_meet(const struct kvr_shares *a, const struct kvr_shares *b);

/* The part that one source gives: a rectangle of one KV group. */
struct kvr_gift {
    uint32_t source; /* index of the source */
    struct kvr_share share;
};

struct kvr_ranks_input {
    const struct kvr_shares *target;
    uint32_t target_index; /* of the target rank among those of its engine: pp × tp_size + tp */
    const struct kvr_shares *sources;
    uint32_t source_count; /* at most KVR_SOURCES_MAX */
    uint64_t request;      /* a hash of the request's id */
};

/* Chooses gifts that together are the target's shares, each layer and head once, ordered by KV
 * group, layer and head. A source has several gifts where its part is no rectangle.
 * KVR_INCOMPATIBLE, with a sentence that names a layer and head that no source has; KVR_TOO_LARGE.
 */
KVR_MUST_CHECK kvr_status kvr_ranks_choose(const struct kvr_ranks_input *input,
                                           struct kvr_gift *ret_gifts, uint32_t capacity,
                                           uint32_t *ret_count, struct kvr_error *error);

#endif
