/* Tenants share the rails of a source's group by their weights: as long as both have something to
 * post, what one has posted divided by its weight is about what the other has.
 *
 * The ledger of a group counts while both tenants surely have the same room. In each step, from its
 * beginning to its end, both have chunks ready that were not posted. All are for the same rails of
 * one target, from pages that the cards read into pages of the target, and no rail refuses a post
 * or is missed. All chunks are as large: a large one waits for a fast pair where a small one leaves
 * over a slow pair, on loan. The ledger counts the posts of jobs, by their segments. The engines'
 * words say what is ready. Neither knows of turns. */
#include "tools/sim/sim_share.h"

#include <inttypes.h>
#include <string.h>

#include "prefill-agent/push.h"
#include "prefill-agent/source_transfer.h"
#include "tools/sim/sim_world.h"

#define BATCH_WRITES 32 /* of one turn at most */

/* The chunks of the layers that are final. */
static uint32_t ready_of(const struct push_segment *segment)
{
    uint64_t word, final;
    uint32_t ready = 0;

    if (segment->word == NULL)
        return segment->plan->chunk_count;
    word = atomic_load(segment->word);
    final = word > segment->word_base ? word - segment->word_base : 0;
    for (uint32_t i = 0; i < segment->plan->layer_count; i++) {
        struct kvr_chunk_run chunks;
        uint32_t layer = kvr_plan_layer(segment->plan, i, &chunks);

        if ((uint64_t)(layer - segment->layer_base) >= final)
            return ready;
        ready = chunks.chunk_first + chunks.chunk_count;
    }
    return segment->plan->chunk_count;
}

/* Of the request that the job is for; a job of another engine's tenant would be a mistake too. */
static uint32_t tenant_of(const struct sim_agent *agent, const struct push_job *job)
{
    const struct source_transfer *transfer =
        kvr_pool_at(&agent->outbound->transfers, job->index, NULL);
    const struct sim_world *world = agent->world;

    for (uint32_t i = 0; i < world->request_count; i++)
        if (strcmp(world->requests[i].name, transfer->match.request) == 0)
            return kvr_tenants_find(&agent->outbound->engines.tenants,
                                    sim_tenant(&world->requests[i], false));
    return KVR_TENANT_NONE;
}

/* A debt outlives the transfer that made it, and the ledger: so of every transfer. */
static void chunks_see(struct sim_group *group)
{
    const struct push *push = group->push;
    struct sim_share *share = &group->share;
    uint32_t left = push->open_count;

    for (uint32_t i = 0; left > 0 && i < KVR_TRANSFERS_MAX; i++) {
        const struct push_job *job = push->jobs[i];

        if (job == NULL)
            continue;
        left--;
        for (const struct push_segment *at = job->first; at != NULL; at = at->next) {
            uint64_t mean = at->plan->bytes / at->plan->chunk_count + 1;

            share->chunk_bytes = mean > share->chunk_bytes ? mean : share->chunk_bytes;
        }
    }
}

/* What it has posted, and whether more is ready. */
static void job_see(const struct push_job *job, struct sim_share_job *seen,
                    struct sim_share_view *view)
{
    bool plain = job->via == NULL && !job->direct_copy && job->quota.bytes == 0;
    bool more = false;

    for (const struct push_segment *at = job->first; at != NULL; at = at->next) {
        seen->bytes += at->plan->bytes * at->chunk_next / at->plan->chunk_count;
        seen->chunks += at->chunk_next;
        if (ready_of(at) <= at->chunk_next)
            continue;
        more = true;
        if (view->mean != 0 && view->mean != at->plan->bytes / at->plan->chunk_count)
            view->unclear = true;
        view->mean = at->plan->bytes / at->plan->chunk_count;
    }
    if (job->retransmit_first != NULL || job->told.no_rail || (more && !plain) ||
        (more && view->working != 0 &&
         (view->peer != job->peer || view->rails != job->target_rails)))
        view->unclear = true;
    if (!more || view->unclear)
        return;
    view->working |= UINT32_C(1) << seen->tenant;
    view->peer = job->peer;
    view->rails = job->target_rails;
}

static void see(const struct sim_group *group, struct sim_share_view *ret_view)
{
    const struct push *push = group->push;
    uint32_t left = push->open_count, first, rails = kvr_group_rails(group->group, &first);

    if (left < SIM_TENANTS || left > SIM_SHARE_JOBS) {
        ret_view->unclear = true;
        return;
    }
    memset(ret_view, 0, sizeof(*ret_view));
    for (uint32_t i = 0; left > 0 && !ret_view->unclear && i < KVR_TRANSFERS_MAX; i++) {
        const struct push_job *job = push->jobs[i];
        struct sim_share_job *seen = &ret_view->jobs[ret_view->job_count];

        if (job == NULL)
            continue;
        left--;
        if (job->state != PUSH_JOB_POSTING)
            continue;
        *seen = (struct sim_share_job){.transfer = job->transfer,
                                       .tenant = tenant_of(group->agent, job),
                                       .repeated = job->posts.repeated};
        ret_view->job_count++;
        if (seen->tenant >= SIM_TENANTS)
            ret_view->unclear = true;
        else
            job_see(job, seen, ret_view);
    }
    for (uint32_t i = 0; i < rails; i++)
        ret_view->refused += kvr_group_counters(group->group, first + i).again;
    ret_view->unclear = ret_view->unclear || ret_view->working != (1u << SIM_TENANTS) - 1;
}

static const struct sim_share_job *job_of(const struct sim_share_view *view, uint64_t transfer)
{
    for (uint32_t i = 0; i < view->job_count; i++)
        if (view->jobs[i].transfer == transfer)
            return &view->jobs[i];
    return NULL;
}

/* Adds what was posted between both. False: it cannot be said for sure. */
static bool add(struct sim_share *share, const struct sim_share_view *now)
{
    const struct sim_share_view *before = &share->before;

    if (before->unclear || now->unclear || before->peer != now->peer ||
        before->rails != now->rails || before->refused != now->refused)
        return false;
    for (uint32_t i = 0; i < before->job_count; i++)
        if (job_of(now, before->jobs[i].transfer) == NULL)
            return false;
    for (uint32_t i = 0; i < now->job_count; i++) {
        const struct sim_share_job *job = &now->jobs[i], *old = job_of(before, job->transfer);
        struct sim_share_sum *sum = &share->sums[job->tenant];

        if (job->repeated != (old != NULL ? old->repeated : 0))
            return false;
        sum->bytes += job->bytes - (old != NULL ? old->bytes : 0);
        sum->chunks += job->chunks - (old != NULL ? old->chunks : 0);
    }
    return true;
}

/* By deficit round robin, with rounds of round_bytes for a weight of 1. At either end of the ledger
 * a tenant has up to a round of credit, or owes up to a round and its last batch. The count of a
 * batch is right to less than a byte for each of its chunks. */
static void judge(const struct sim_group *group)
{
    const struct kvr_tenant *tenants = group->agent->outbound->engines.tenants.list;
    const struct sim_share *share = &group->share;
    const struct sim_share_sum *red = &share->sums[0], *blue = &share->sums[1];
    uint64_t red_weight = tenants[0].weight, blue_weight = tenants[1].weight;
    uint64_t batch = share->chunk_bytes * share->batch_writes;
    uint64_t a = red->bytes * blue_weight, b = blue->bytes * red_weight;
    uint64_t allowed = 4 * share->round_bytes * red_weight * blue_weight +
                       (batch + red->chunks) * blue_weight + (batch + blue->chunks) * red_weight;

    if ((a > b ? a - b : b - a) > allowed)
        sim_fail(group->agent->world, -1,
                 "agent %u has posted %" PRIu64 " bytes for a tenant of weight %" PRIu64
                 " and %" PRIu64 " for one of weight %" PRIu64 ", while both had more",
                 group->agent->number, red->bytes, red_weight, blue->bytes, blue_weight);
}

void sim_share_open(struct sim_group *group, uint32_t window_writes)
{
    struct sim_share *share = &group->share;

    memset(share, 0, sizeof(*share));
    share->round_bytes = group->push->shares.round_bytes;
    share->batch_writes =
        window_writes > 0 && window_writes < BATCH_WRITES ? window_writes : BATCH_WRITES;
}

void sim_share_before(struct sim_group *group)
{
    chunks_see(group);
    see(group, &group->share.before);
}

void sim_share_after(struct sim_group *group)
{
    struct sim_share_view now;

    if (!group->share.before.unclear) {
        see(group, &now);
        if (add(&group->share, &now)) {
            judge(group);
            return;
        }
    }
    memset(group->share.sums, 0, sizeof(group->share.sums));
}
