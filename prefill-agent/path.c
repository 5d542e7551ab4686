/* state     | PROBE   | STAGE   | DECIDED
 * ----------|---------|---------|--------
 * UNDECIDED | PROBING | OPENING | READY
 * PROBING   | =       | OPENING | READY
 * OPENING   | PROBING | =       | READY
 * READY     | -       | -       | -
 *
 * An answer decides the path once more, which may need another answer. */
#include "prefill-agent/path.h"

#include "base/types.h"
#include "prefill-agent/outbound.h"
#include "prefill-agent/publish.h"
#include "prefill-agent/source_transfer.h"

KVR_STATE_TABLE(source_path, SOURCE_PATH) = {
    /* PROBE, STAGE, DECIDED */
    [SOURCE_PATH_UNDECIDED] = {SOURCE_PATH_PROBING, SOURCE_PATH_OPENING, SOURCE_PATH_READY},
    [SOURCE_PATH_PROBING] = {SOURCE_PATH_PROBING, SOURCE_PATH_OPENING, SOURCE_PATH_READY},
    [SOURCE_PATH_OPENING] = {SOURCE_PATH_PROBING, SOURCE_PATH_OPENING, SOURCE_PATH_READY},
    [SOURCE_PATH_READY] = {NEVER, NEVER, NEVER},
};

/* What the layouts of the wanted KV groups share; *ret_groups: those groups (bits). The target
 * counts as many tokens when it makes room. */
static kvr_status fragments_of(const struct source_transfer *transfer,
                               const struct publish *publish, struct kvr_fragments *ret_fragments,
                               uint32_t *ret_groups, struct kvr_error *error)
{
    struct kvr_fragments sum = KVR_FRAGMENTS_NONE, fragments;
    kvr_status status = KVR_OK;

    *ret_groups = 0;
    for (uint32_t group = 0; status == KVR_OK && group < KVR_GROUPS_MAX; group++) {
        const struct kvr_page_table *theirs = &transfer->match.pages.groups[group];
        const struct kvr_plan_input input =
            kvr_region_sets_input(publish->set, transfer->match.remote, group);

        if (!(transfer->path.kv_groups >> group & 1) ||
            transfer->announce.token_next[group] == transfer->match.tokens)
            continue;
        *ret_groups |= 1u << group;
        status = kvr_fragments_count(&input,
                                     (uint64_t)theirs->capacity * theirs->page_tokens -
                                         transfer->announce.token_next[group] +
                                         publish->pages.groups[group].page_tokens,
                                     &fragments, error);
        if (status == KVR_OK)
            kvr_fragments_add(&sum, &fragments);
    }
    *ret_fragments = sum;
    return status;
}

static struct kvr_fragment_policy policy_of(const struct outbound *outbound,
                                            const struct source_transfer *transfer,
                                            const struct publish *publish,
                                            const struct kvr_fragments *fragments)
{
    bool gathers = kvr_region_set_is_staged(publish->set);
    bool local = outbound->options.groups.same_host != 0 &&
                 source_transfer_lends(outbound, transfer, publish);

    return (struct kvr_fragment_policy){
        .option = outbound->options.fragments,
        .fragment_bytes_min = outbound->options.fragment_bytes_min,
        .chunk_bytes_max = transfer->path.limits.chunk_bytes_max,
        .pieces_local = transfer->path.limits.pieces_local,
        .pieces_remote = transfer->path.limits.pieces_remote,
        .gathers = gathers,
        .scatters = transfer->path.scatters,
        .may_gather = kvr_region_set_can_stage(publish->set) &&
                      outbound->now >= outbound->stage_retry_at &&
                      outbound->ports->region_stage != NULL,
        .may_scatter = transfer->path.target_stage_bytes > 0 &&
                       kvr_min_u64(fragments->bytes, transfer->path.limits.chunk_bytes_max) <=
                           transfer->path.target_stage_bytes,
        .costs = local ? outbound->options.costs_local : outbound->options.costs,
    };
}

/* Short pieces are no trouble to a GPU, so they are not judged. */
static void decide_direct_copy(const struct outbound *outbound, struct source_path *path,
                               uint32_t groups)
{
    path->fragments = (struct kvr_fragment_verdict){.choice = KVR_FRAGMENT_WRITE};
    path->gathers = path->scatters = false;
    if (path->limits.chunk_bytes_max < outbound->options.groups.move_bytes)
        path->limits.chunk_bytes_max = outbound->options.groups.move_bytes;
    path->kind = groups != 0 ? KVR_PATH_LOCAL : KVR_PATH_NONE;
    source_path_on(&path->state, SOURCE_PATH_ON_DECIDED);
}

static kvr_status decide_writes(struct outbound *outbound, struct source_transfer *transfer,
                                const struct publish *publish,
                                const struct kvr_fragments *fragments, uint32_t groups,
                                struct kvr_error *error)
{
    struct source_path *path = &transfer->path;
    struct kvr_fragment_policy policy = policy_of(outbound, transfer, publish, fragments);
    kvr_status status = kvr_fragments_judge(fragments, &policy, &path->fragments, error);

    if (status != KVR_OK)
        return status;
    path->fragment_bytes =
        fragments->bytes_min < policy.fragment_bytes_min ? fragments->bytes_min : 0;
    path->gathers = path->fragments.gathers;
    path->scatters = path->fragments.scatters;
    if (path->gathers)
        path->limits.pieces_local = KVR_PLAN_ONE_RUN;
    if (path->scatters)
        path->limits.pieces_remote = KVR_PLAN_ONE_RUN;
    path->kind = kvr_region_set_path(publish->set, groups);
    if (path->gathers && path->kind != KVR_PATH_NONE)
        path->kind = KVR_PATH_STAGED;
    if (!path->gathers || kvr_region_set_stage(publish->set) != NULL) {
        source_path_on(&path->state, SOURCE_PATH_ON_DECIDED);
        return KVR_OK;
    }
    source_path_on(&path->state, SOURCE_PATH_ON_STAGE);
    outbound->ports->region_stage(outbound->ports->self, publish->set, transfer->id);
    return KVR_OK;
}

kvr_status path_decide(struct outbound *outbound, struct source_transfer *transfer,
                       const struct publish *publish, struct kvr_error *error)
{
    struct source_path *path = &transfer->path;
    struct kvr_fragments fragments;
    uint32_t groups;
    kvr_status status;

    path->limits =
        kvr_write_limits_agreed(&outbound->options.limits, &outbound->peers[transfer->peer].limits);
    path->kv_groups = slice_kv_groups(outbound, transfer, publish);
    status = fragments_of(transfer, publish, &fragments, &groups, error);
    if (status != KVR_OK)
        return status;
    if (direct_copy_decide(outbound, transfer, publish)) {
        source_path_on(&path->state, SOURCE_PATH_ON_PROBE);
        return KVR_OK;
    }
    if (path->direct_copy != DIRECT_COPY_CHOSEN)
        return decide_writes(outbound, transfer, publish, &fragments, groups, error);
    decide_direct_copy(outbound, path, groups);
    return KVR_OK;
}

/* The answer that the path waited for is here, and nothing was planned yet. */
static void decide_again(struct outbound *outbound, struct source_transfer *transfer,
                         const struct publish *publish)
{
    struct kvr_error error;

    if (path_decide(outbound, transfer, publish, &error) != KVR_OK)
        source_transfer_fail(outbound, transfer, error.status, error.detail);
    else
        source_transfer_advance(outbound, transfer);
}

void path_stage_opened(struct outbound *outbound, struct source_transfer *transfer,
                       kvr_status status)
{
    struct source_path *path = &transfer->path;
    const struct publish *publish = kvr_pool_get(&outbound->publishes, transfer->publish);

    if (publish == NULL || path->state != SOURCE_PATH_OPENING)
        return;
    if (status == KVR_OK && kvr_region_set_stage(publish->set) != NULL) {
        source_path_on(&path->state, SOURCE_PATH_ON_DECIDED);
        source_transfer_advance(outbound, transfer);
        return;
    }
    outbound->stage_retry_at = outbound->now + KVR_STAGE_RETRY_NS;
    path->scatters = path->scatters && path->target_stage_bytes == 0;
    decide_again(outbound, transfer, publish);
}

void path_probed(struct outbound *outbound, struct visibility_probe *probe)
{
    struct source_transfer *transfer = kvr_pool_get(&outbound->transfers, probe->transfer);
    const struct publish *publish;

    direct_copy_probed(outbound, probe);
    if (transfer == NULL || transfer->state != ST_OFFERED)
        return; /* it has ended meanwhile */
    publish = kvr_pool_get(&outbound->publishes, transfer->publish);
    if (publish != NULL)
        decide_again(outbound, transfer, publish);
}
