/* Pages of devices on one host: where both agents can, the target moves them from our device to its
 * own itself (provider local), with nothing staged at either end. Its WANT says that it can;
 * whether its device sees our pages it is asked once for each set of them, before the first PLAN.
 */
#include "prefill-agent/outbound.h"

/* A rank has one, and another perhaps when it comes back. */
static bool same_device(const struct kvr_rank *a, const struct kvr_rank *b)
{
    return kvr_uuid_equal(&a->engine, &b->engine) && a->generation == b->generation &&
           a->tp == b->tp && a->pp == b->pp;
}

static struct outbound_sight *sight_find(struct outbound *outbound, const struct offer *offer,
                                         uint32_t engine, uint64_t version)
{
    struct outbound_peer *peer = &outbound->peers[offer->peer];
    const struct kvr_rank *source = &outbound->engines.local[engine].rank;

    for (uint32_t i = 0; i < OUTBOUND_SIGHTS; i++) {
        struct outbound_sight *sight = &peer->sights[i];

        if (sight->known && sight->version == version && same_device(&sight->source, source) &&
            same_device(&sight->target, &offer->target))
            return sight;
    }
    return NULL;
}

static uint64_t rails_of(const struct outbound *outbound, const struct publish *publish)
{
    const struct kvr_rail_groups *groups = &outbound->options.groups;

    return groups->same_host != 0 ? kvr_rail_groups_same_host(groups, publish->set->locals[0]->home)
                                  : UINT64_MAX;
}

/* False: it could not. */
static bool look_begin(struct outbound *outbound, struct offer *offer,
                       const struct publish *publish)
{
    struct push_look *look = kvr_buddy_alloc(outbound->memory, sizeof(*look));
    struct kvr_group_message message = {
        .kind = PUSH_LOOK, .pointer = look, .group = publish->set->locals[0]->home};

    if (look == NULL)
        return false;
    *look = (struct push_look){
        .offer = offer->id,
        .peer = offer->peer,
        .engine = publish->engine,
        .target_rails =
            outbound->options.groups.same_host != 0 ? outbound->peers[offer->peer].same_host : 0,
        .source = kvr_region_set_acquire(publish->set),
        .target = kvr_region_set_acquire(offer->remote),
    };
    kvr_engines_use(&outbound->engines, publish->engine);
    outbound->ports->command(outbound->ports->self, &message);
    return true;
}

bool offer_sight(struct outbound *outbound, struct offer *offer, const struct publish *publish)
{
    const struct outbound_sight *sight;

    offer->moves = false;
    if (!offer->may_move || offer->unseen || offer->digest != KVR_DIGEST_OFF ||
        !kvr_region_set_moves_on(publish->set, rails_of(outbound, publish)) ||
        offer->remote->count == 0 || !offer_lends(outbound, offer, publish))
        return false;
    sight = sight_find(outbound, offer, publish->engine, publish->set->version);
    if (sight != NULL) {
        offer->moves = sight->sees;
        return false;
    }
    offer->look_waits = look_begin(outbound, offer, publish);
    return offer->look_waits;
}

static void sight_keep(struct outbound *outbound, const struct offer *offer,
                       const struct push_look *look)
{
    struct outbound_peer *peer = &outbound->peers[look->peer];

    if (sight_find(outbound, offer, look->engine, look->source->version) != NULL)
        return; /* another offer asked, too */
    peer->sights[peer->sight_next++ % OUTBOUND_SIGHTS] = (struct outbound_sight){
        .known = true,
        .sees = look->status == KVR_OK,
        .source = outbound->engines.local[look->engine].rank,
        .version = look->source->version,
        .target = offer->target,
    };
}

void offer_looked(struct outbound *outbound, kvr_ns now, struct push_look *look)
{
    struct offer *offer = kvr_pool_get(&outbound->offers, look->offer);
    const struct publish *publish;
    struct kvr_error error;

    if (offer != NULL && !offer->peer_gone &&
        (look->status == KVR_OK || look->status == KVR_COPY_FAILED))
        sight_keep(outbound, offer, look);
    else if (offer != NULL)
        offer->unseen = true;
    kvr_engines_set_release(&outbound->engines, look->engine, look->source);
    kvr_region_set_release(look->target, outbound->memory);
    kvr_engines_unuse(&outbound->engines, look->engine);
    kvr_buddy_free(outbound->memory, look);
    if (offer == NULL)
        return;
    offer->look_waits = false;
    publish = kvr_pool_get(&outbound->publishes, offer->publish);
    if (offer->state != O_OFFERED || publish == NULL)
        return;
    if (offer_way(outbound, offer, publish, &error) != KVR_OK)
        offer_fail(outbound, now, offer, error.status, error.detail);
    else
        offer_advance(outbound, now, offer);
}
