/* Whether the target's device can read our device's pages itself: remembered, or probed. */
#include "prefill-agent/path.h"

#include "prefill-agent/outbound.h"
#include "prefill-agent/publish.h"
#include "prefill-agent/source_transfer.h"

/* Each rank has one device, and perhaps another one after a restart. */
static bool same_device(const struct kvr_rank *a, const struct kvr_rank *b)
{
    return kvr_uuid_equal(&a->engine, &b->engine) && a->generation == b->generation &&
           a->tp == b->tp && a->pp == b->pp;
}

static struct outbound_visibility *visibility_find(struct outbound *outbound,
                                                   const struct source_transfer *transfer,
                                                   uint32_t engine, uint64_t version)
{
    struct outbound_peer *peer = &outbound->peers[transfer->peer];
    const struct kvr_rank *source = &outbound->engines.local[engine].rank;

    for (uint32_t i = 0; i < OUTBOUND_VISIBILITIES; i++) {
        struct outbound_visibility *visibility = &peer->visibilities[i];

        if (visibility->visible != VISIBILITY_UNKNOWN && visibility->version == version &&
            same_device(&visibility->source, source) &&
            same_device(&visibility->target, &transfer->match.target))
            return visibility;
    }
    return NULL;
}

static uint64_t rails_of(const struct outbound *outbound, const struct publish *publish)
{
    const struct kvr_rail_groups *groups = &outbound->options.groups;

    return groups->same_host != 0 ? kvr_rail_groups_same_host(groups, publish->set->locals[0]->home)
                                  : UINT64_MAX;
}

/* False: there is no memory for the probe. */
static bool probe_begin(struct outbound *outbound, struct source_transfer *transfer,
                        const struct publish *publish)
{
    struct visibility_probe *probe = kvr_buddy_alloc(outbound->memory, sizeof(*probe));
    const union push_message message = {
        .head = {.kind = PUSH_PROBE, .group = publish->set->locals[0]->home}, .probe = probe};

    if (probe == NULL)
        return false;
    *probe = (struct visibility_probe){
        .transfer = transfer->id,
        .peer = transfer->peer,
        .engine = publish->engine,
        .target_rails =
            outbound->options.groups.same_host != 0 ? outbound->peers[transfer->peer].same_host : 0,
        .source = kvr_region_set_acquire(publish->set),
        .target = kvr_region_set_acquire(transfer->match.remote),
    };
    kvr_engines_use(&outbound->engines, publish->engine);
    outbound->ports->command(outbound->ports->self, &message.any);
    return true;
}

bool direct_copy_decide(struct outbound *outbound, struct source_transfer *transfer,
                        const struct publish *publish)
{
    const struct outbound_visibility *visibility;

    if (transfer->path.direct_copy == DIRECT_COPY_NO || transfer->digest.mode != KVR_DIGEST_OFF ||
        !kvr_region_set_direct_copy_on(publish->set, rails_of(outbound, publish)) ||
        transfer->match.remote->count == 0 || !source_transfer_lends(outbound, transfer, publish))
        return false;
    visibility = visibility_find(outbound, transfer, publish->engine, publish->set->version);
    if (visibility == NULL)
        return probe_begin(outbound, transfer, publish);
    transfer->path.direct_copy =
        visibility->visible == VISIBILITY_YES ? DIRECT_COPY_CHOSEN : DIRECT_COPY_NO;
    return false;
}

static void visibility_keep(struct outbound *outbound, const struct source_transfer *transfer,
                            const struct visibility_probe *probe)
{
    struct outbound_peer *peer = &outbound->peers[probe->peer];

    if (visibility_find(outbound, transfer, probe->engine, probe->source->version) != NULL)
        return; /* another transfer had it probed too */
    peer->visibilities[peer->visibility_next++ % OUTBOUND_VISIBILITIES] =
        (struct outbound_visibility){
            .visible = probe->status == KVR_OK ? VISIBILITY_YES : VISIBILITY_NO,
            .source = outbound->engines.local[probe->engine].rank,
            .version = probe->source->version,
            .target = transfer->match.target,
        };
}

void direct_copy_probed(struct outbound *outbound, struct visibility_probe *probe)
{
    struct source_transfer *transfer = kvr_pool_get(&outbound->transfers, probe->transfer);

    if (transfer != NULL && !transfer->peer_gone &&
        (probe->status == KVR_OK || probe->status == KVR_COPY_FAILED))
        visibility_keep(outbound, transfer, probe);
    else if (transfer != NULL)
        transfer->path.direct_copy = DIRECT_COPY_NO;
    kvr_engines_set_release(&outbound->engines, probe->engine, probe->source);
    kvr_region_set_release(probe->target, outbound->memory);
    kvr_engines_unuse(&outbound->engines, probe->engine);
    kvr_buddy_free(outbound->memory, probe);
}
