/* In how small pieces an offer goes, and whether these are copied through staging memory, where one
 * write carries many: at the source, at the target, or at both. */
#include "prefill-agent/outbound.h"

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Of the groups that it gives and that are wanted (bits): what their layouts share. As many tokens
 * as the target counts when it makes room (decode-agent/share.c). */
static kvr_status fragments_of(const struct offer *offer, const struct publish *publish,
                               struct kvr_fragments *ret_fragments, uint32_t *ret_groups,
                               struct kvr_error *error)
{
    struct kvr_fragments sum = KVR_FRAGMENTS_NONE, fragments;
    kvr_status status = KVR_OK;

    *ret_groups = 0;
    for (uint32_t group = 0; status == KVR_OK && group < KVR_GROUPS_MAX; group++) {
        const struct kvr_page_table *theirs = &offer->pages.groups[group];
        const struct kvr_plan_input input = {
            .source_layouts = publish->set->layouts,
            .source_layout_count = publish->set->count,
            .target_layouts = offer->remote->layouts,
            .target_layout_count = offer->remote->count,
            .group = group,
        };

        if (!(offer->gives >> group & 1) || offer->token_next[group] == offer->tokens)
            continue;
        *ret_groups |= 1u << group;
        status = kvr_fragments_count(&input,
                                     (uint64_t)theirs->capacity * theirs->page_tokens -
                                         offer->token_next[group] +
                                         publish->pages.groups[group].page_tokens,
                                     &fragments, error);
        if (status == KVR_OK)
            kvr_fragments_add(&sum, &fragments);
    }
    *ret_fragments = sum;
    return status;
}

static struct kvr_fragment_policy policy_of(const struct outbound *outbound,
                                            const struct offer *offer,
                                            const struct publish *publish,
                                            const struct kvr_fragments *fragments)
{
    bool gathers = kvr_region_set_is_staged(publish->set);
    bool local = outbound->options.groups.same_host != 0 && offer_lends(outbound, offer, publish);

    return (struct kvr_fragment_policy){
        .option = outbound->options.fragments,
        .fragment_bytes_min = outbound->options.fragment_bytes_min,
        .chunk_bytes_max = offer->limits.chunk_bytes_max,
        .pieces_local = offer->limits.pieces_local,
        .pieces_remote = offer->limits.pieces_remote,
        .gathers = gathers,
        .scatters = offer->scatters,
        .may_gather = kvr_region_set_can_stage(publish->set) &&
                      outbound->awake_at >= outbound->stage_retry_at &&
                      outbound->ports->region_stage != NULL,
        .may_scatter =
            offer->stage_bytes > 0 &&
            smaller(fragments->bytes, offer->limits.chunk_bytes_max) <= offer->stage_bytes,
        .costs = local ? outbound->options.costs_local : outbound->options.costs,
    };
}

static struct kvr_write_limits limits_of(const struct outbound *outbound, const struct offer *offer)
{
    const struct kvr_write_limits *ours = &outbound->options.limits;
    const struct kvr_write_limits *theirs = &outbound->peers[offer->peer].limits;

    return (struct kvr_write_limits){
        .pieces_local = ours->pieces_local,
        .pieces_remote = (uint32_t)smaller(ours->pieces_remote, theirs->pieces_remote),
        .chunk_bytes_max = smaller(ours->chunk_bytes_max, theirs->chunk_bytes_max),
        .calibrated = ours->calibrated || theirs->calibrated,
    };
}

kvr_status offer_way(struct outbound *outbound, struct offer *offer, const struct publish *publish,
                     struct kvr_error *error)
{
    struct kvr_fragment_verdict *verdict = &offer->fragments;
    struct kvr_fragment_policy policy;
    struct kvr_fragments fragments;
    uint32_t groups;
    kvr_status status;

    offer->limits = limits_of(outbound, offer);
    offer->gives = offer_gives(outbound, offer, publish);
    status = fragments_of(offer, publish, &fragments, &groups, error);
    if (status != KVR_OK || offer_sight(outbound, offer, publish))
        return status;
    if (offer->moves) { /* by a GPU, to which short pieces are no trouble */
        *verdict = (struct kvr_fragment_verdict){.choice = KVR_FRAGMENT_WRITE};
        offer->gathers = offer->scatters = false;
        if (offer->limits.chunk_bytes_max < outbound->options.groups.move_bytes)
            offer->limits.chunk_bytes_max = outbound->options.groups.move_bytes;
        offer->path = groups != 0 ? KVR_PATH_LOCAL : KVR_PATH_NONE;
        return KVR_OK;
    }
    policy = policy_of(outbound, offer, publish, &fragments);
    status = kvr_fragments_judge(&fragments, &policy, verdict, error);
    if (status != KVR_OK)
        return status;
    offer->fragment_bytes =
        fragments.bytes_min < policy.fragment_bytes_min ? fragments.bytes_min : 0;
    offer->gathers = verdict->gathers;
    offer->scatters = verdict->scatters;
    if (offer->gathers)
        offer->limits.pieces_local = KVR_PLAN_ONE_RUN;
    if (offer->scatters)
        offer->limits.pieces_remote = KVR_PLAN_ONE_RUN;
    offer->path = kvr_region_set_path(publish->set, groups);
    if (offer->gathers && offer->path != KVR_PATH_NONE)
        offer->path = KVR_PATH_STAGED;
    offer->stage_waits = offer->gathers && kvr_region_set_stage(publish->set) == NULL;
    if (offer->stage_waits)
        outbound->ports->region_stage(outbound->ports->self, publish->set, offer->id);
    return KVR_OK;
}

/* Nothing was planned yet: without one it is judged again. */
void offer_stage_opened(struct outbound *outbound, kvr_ns now, struct offer *offer,
                        kvr_status status)
{
    const struct publish *publish = kvr_pool_get(&outbound->publishes, offer->publish);
    struct kvr_error error;

    offer->stage_waits = false;
    if (offer->state != O_OFFERED || publish == NULL)
        return;
    if (status != KVR_OK || kvr_region_set_stage(publish->set) == NULL) {
        outbound->stage_retry_at = now + KVR_STAGE_RETRY_NS;
        offer->scatters = offer->scatters && offer->stage_bytes == 0;
        if (offer_way(outbound, offer, publish, &error) != KVR_OK) {
            offer_fail(outbound, now, offer, error.status, error.detail);
            return;
        }
    }
    offer_advance(outbound, now, offer);
}
