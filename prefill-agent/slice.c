/* An agent knows the regions of its own engine and of the target rank that asks. What the other
 * ranks hold follows from the two by symmetry. Tensor ranks of a stage hold the same layers; they
 * hold the same heads where a region is replicated or where there are fewer heads than ranks.
 * Stages hold what kvr_share_of_rank computes. Every source rank decides alike without asking the
 * others; at the end the target checks that it was given everything. */
#include "prefill-agent/publish.h"

#include "kv/ranks.h"
#include "prefill-agent/outbound.h"
#include "prefill-agent/source_transfer.h"

#define RANKS_MAX 1024 /* of one engine: more are nonsense */

struct holding {
    struct kvr_rank rank;
    struct kvr_shares shares;
    uint32_t replicated; /* bit g: every tensor rank holds the same of group g */
    uint32_t heads_total;
};

static bool holding_of(const struct kvr_region_set *set, const struct kvr_rank *rank,
                       const struct kvr_compat *compat, struct holding *ret_holding)
{
    struct holding holding = {.rank = *rank, .heads_total = compat->kv_heads_total};

    for (uint32_t i = 0; i < set->count; i++)
        holding.replicated |= (uint32_t)set->layouts[i].replicated << set->layouts[i].group;
    if (kvr_shares_of_layouts(set->layouts, set->count, &holding.shares, NULL) != KVR_OK)
        return false;
    *ret_holding = holding;
    return true;
}

/* The heads that tensor rank tp of the same stage holds in place of this rank's. False: this rank's
 * own follow no rule, and so nothing is known of others. */
static bool beside(const struct holding *holding, const struct kvr_share *mine, uint32_t tp,
                   struct kvr_share *ret_share)
{
    const struct kvr_rank *rank = &holding->rank;
    uint32_t heads = holding->heads_total;

    *ret_share = *mine;
    if (holding->replicated >> mine->group & 1 || tp == rank->tp)
        return true;
    if (heads > 0 && heads < rank->tp_size && rank->tp_size % heads == 0 && mine->head_count == 1 &&
        mine->head_first == rank->tp / (rank->tp_size / heads))
        ret_share->head_first = tp / (rank->tp_size / heads);
    else if (mine->head_first == rank->tp * mine->head_count)
        ret_share->head_first = tp * mine->head_count;
    else
        return false;
    return true;
}

/* The shares of another rank of that engine; what is not known is taken to be like this one's, so
 * that rather too many are waited for. */
static void shares_of(const struct holding *holding, uint32_t layers_total,
                      const struct kvr_rank *rank, struct kvr_shares *ret_shares)
{
    struct kvr_share stage = {.layer_count = 0};

    ret_shares->count = holding->shares.count;
    if (rank->pp != holding->rank.pp && /* heads are not asked for: any number that divides */
        kvr_share_of_rank(rank, 0, layers_total, rank->tp_size, &stage, NULL) != KVR_OK)
        ret_shares->count = 0;
    for (uint32_t i = 0; i < ret_shares->count; i++) {
        (void)beside(holding, &holding->shares.shares[i], rank->tp, &ret_shares->shares[i]);
        if (rank->pp == holding->rank.pp)
            continue;
        ret_shares->shares[i].layer_first = stage.layer_first;
        ret_shares->shares[i].layer_count = stage.layer_count;
    }
}

static struct kvr_rank sibling(const struct source_transfer *transfer, const struct holding *source,
                               uint32_t i)
{
    struct kvr_rank rank = source->rank;

    rank.tp = transfer->match.siblings[i] & 0xffff;
    rank.pp = transfer->match.siblings[i] >> 16;
    return rank;
}

/* The target asks a rank that has nothing for it: it asks all, and so will its other ranks. */
static bool asks_all(const struct source_transfer *transfer, const struct holding *source,
                     uint32_t layers_total, const struct holding *target)
{
    for (uint32_t i = 0; i < transfer->match.sibling_count; i++) {
        struct kvr_rank rank = sibling(transfer, source, i);
        struct kvr_shares shares;

        shares_of(source, layers_total, &rank, &shares);
        if (!kvr_shares_meet(&shares, &target->shares))
            return true;
    }
    return false;
}

uint32_t slice_consumers(const struct outbound *outbound, const struct publish *publish,
                         const struct source_transfer *transfer)
{
    const struct kvr_engine *engine = &outbound->engines.local[publish->engine];
    struct kvr_rank rank = transfer->match.target;
    struct holding source, target;
    uint32_t layers = engine->compat.layers_total, count = 0;

    if (!holding_of(publish->set, &engine->rank, &engine->compat, &source) ||
        !holding_of(transfer->match.remote, &transfer->match.target, &engine->compat, &target))
        return 1;
    if (rank.tp_size > RANKS_MAX || rank.pp_size > RANKS_MAX ||
        rank.tp_size * rank.pp_size > RANKS_MAX)
        return UINT32_MAX;
    if (asks_all(transfer, &source, layers, &target))
        return rank.tp_size * rank.pp_size;
    for (rank.pp = 0; rank.pp < rank.pp_size; rank.pp++) {
        for (rank.tp = 0; rank.tp < rank.tp_size; rank.tp++) {
            struct kvr_shares shares;

            shares_of(&target, layers, &rank, &shares);
            count += kvr_shares_meet(&source.shares, &shares);
        }
    }
    return count > 0 ? count : 1;
}

/* Whether this rank is the one of its siblings that gives the share to the transfer's target. */
static bool chosen(const struct holding *source, const struct source_transfer *transfer,
                   const struct kvr_share *mine)
{
    const struct kvr_shares wanted = {.count = 1, .shares = {*mine}};
    struct kvr_shares siblings[KVR_SOURCES_MAX];
    struct kvr_gift gift;
    struct kvr_ranks_input input = {
        .target = &wanted,
        .target_index =
            transfer->match.target.pp * transfer->match.target.tp_size + transfer->match.target.tp,
        .sources = siblings,
        .request =
            match_key(transfer->match.request, transfer->match.attempt,
                      &transfer->match.source_engine, transfer->match.source_generation, 0, 0),
    };
    uint32_t self = UINT32_MAX, count;

    for (uint32_t i = 0; i < transfer->match.sibling_count; i++) {
        struct kvr_rank rank = sibling(transfer, source, i);

        if (rank.pp != source->rank.pp)
            continue; /* another stage has other layers */
        if (rank.tp == source->rank.tp)
            self = input.source_count;
        siblings[input.source_count].count =
            beside(source, mine, rank.tp, &siblings[input.source_count].shares[0]);
        input.source_count++;
    }
    /* What ranks hold in part alike is no rectangle of one rank: each gives what it has. */
    return self == UINT32_MAX || kvr_ranks_choose(&input, &gift, 1, &count, NULL) != KVR_OK ||
           gift.source == self;
}

/* Whether source and target have anything of the share in common. */
static bool needed(const struct kvr_share *mine, const struct holding *target)
{
    const struct kvr_shares one = {.count = 1, .shares = {*mine}};

    return kvr_shares_meet(&one, &target->shares);
}

uint32_t slice_kv_groups(const struct outbound *outbound, const struct source_transfer *transfer,
                         const struct publish *publish)
{
    const struct kvr_engine *engine = &outbound->engines.local[publish->engine];
    struct holding source, target;
    uint32_t both = 0, gives = 0;

    for (uint32_t group = 0; group < KVR_GROUPS_MAX; group++)
        if (publish->pages.groups[group].page_tokens > 0 &&
            transfer->match.pages.groups[group].page_tokens > 0)
            both |= 1u << group;
    if (!holding_of(publish->set, &engine->rank, &engine->compat, &source) ||
        !holding_of(transfer->match.remote, &transfer->match.target, &engine->compat, &target))
        return both;
    for (uint32_t i = 0; i < source.shares.count; i++) {
        const struct kvr_share *mine = &source.shares.shares[i];

        if (needed(mine, &target) && chosen(&source, transfer, mine))
            gives |= 1u << mine->group;
    }
    return both & gives;
}
