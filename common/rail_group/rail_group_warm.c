/* Warm-up (rule 5): the first write of a pair goes into the peer's scratch page.
 *
 * A peer is warm when every usable pair has carried a write. A pair that has failed, and has
 * carried nothing since, does not count: the other pairs do not wait for it. It is on trial: as
 * long as another pair works it gets a warm-up when a user's write could leave over it, and carries
 * such writes only after that. Each failure costs the rail its endpoint, and with it the writes to
 * other peers. Where no pair works, warm-ups are repeated at growing distances too, so that a peer
 * becomes warm after its network was repaired. */
#include <string.h>

#include "base/memfd.h"
#include "rail_group/rail_group_state.h"

#define SCRATCH_BYTES (16u << 10)
#define WARM_BYTES    SCRATCH_BYTES /* at most: a path that loses long packets is found, too */
#define WARM_LEAST    8u            /* a scratch page of fewer bytes is none */
#define WARM_A_STEP   32u
#define WARM_ROOM_NS  (2 * KVR_MS) /* until a rail without room is tried again */
#define REWARM_MIN_NS (30 * KVR_S)
#define REWARM_MAX_NS (480 * KVR_S)

kvr_status group_scratch_open(struct kvr_group *group, const struct kvr_group_options *options,
                              struct kvr_error *error)
{
    struct kvr_region_layout layout = {.bytes = SCRATCH_BYTES};
    uint32_t rail_end = options->rail_first + options->rail_count;
    struct kvr_rail *rails[KVR_RAILS_MAX] = {NULL};
    int fd = -1;

    if (!options->warm_up)
        return KVR_OK;
    memcpy(&rails[options->rail_first], &options->rails[options->rail_first],
           options->rail_count * sizeof(rails[0]));
    KVR_TRY(kvr_memfd_create("kvrail-scratch", SCRATCH_BYTES, "rail_group", &fd, error));
    return kvr_region_open_memfd(options->fabric, rails, rail_end, &layout, fd, 0, true,
                                 KVR_REMOTE_ALWAYS, &group->scratch, error);
}

void group_scratch_close(struct kvr_group *group)
{
    struct kvr_fabric fabric = {.ops = group->ops};

    kvr_region_release(&fabric, group->scratch);
}

void group_link_cool(struct kvr_group *group, struct group_link *link,
                     const struct kvr_rail_address *address)
{
    bool warms = group->scratch != NULL && address->scratch_bytes >= WARM_LEAST;

    link->warmth = warms ? LINK_COLD : LINK_UNWARMED;
    link->scratch =
        (struct group_scratch){address->scratch, kvr_min_u32(address->scratch_bytes, WARM_BYTES)};
    link->wanted = link->uncopied = false;
    if (warms)
        group->timers.warm_at = group->now;
}

void group_link_rewarm(struct kvr_group *group, struct group_link *link)
{
    if (link->warmth != LINK_WARM)
        return;
    link->warmth = LINK_COLD;
    group->timers.warm_at = group->now;
}

void group_rewarm_later(struct kvr_group *group, const struct group_link *link)
{
    struct group_peer *peer = &group->peers[link->peer];

    if (group->now < peer->rewarm_at)
        return; /* another pair failed at the same time */
    peer->rewarm_ns = peer->rewarm_ns == 0 ? REWARM_MIN_NS : 2 * peer->rewarm_ns;
    if (peer->rewarm_ns > REWARM_MAX_NS)
        peer->rewarm_ns = REWARM_MAX_NS;
    peer->rewarm_at = group->now + peer->rewarm_ns;
}

void group_link_want(struct kvr_group *group, struct group_link *link)
{
    if (link->wanted)
        return;
    link->wanted = true;
    group->timers.warm_at = group->now;
}

void group_link_warmed(struct kvr_group *group, struct group_link *link)
{
    link->warmth = LINK_WARM;
    link->wanted = false;
    group_peer_warmed(group, link->peer);
}

void group_link_uncopied(struct kvr_group *group, struct group_link *link, bool warm_up)
{
    if (link->warmth != LINK_COLD)
        return;
    group->timers.warm_at = group->now;
    if (!warm_up)
        return;
    group_link_doubt(link, KVR_COPY_FAILED);
    link->uncopied = true; /* else the warm-up would be repeated at once */
    group_rewarm_later(group, link);
    group_peer_warmed(group, link->peer);
}

/* In doubt, and its first write may still come through. */
static bool is_undecided(const struct group_link *link)
{
    return link->state == LINK_USABLE && link->doubted && link->warming != 0 && !link->spare;
}

/* A peer that is gone still has links until their last write ends. */
void group_peer_warmed(struct kvr_group *group, uint32_t index)
{
    struct group_peer *peer = &group->peers[index];
    struct kvr_group_message message = {
        .head.kind = KVR_GROUP_PEER_WARM,
        .peer_warm = {.peer = index, .added_at = peer->added_at},
    };
    bool undecided = false;

    if (group->scratch == NULL || !peer->known || peer->warmth == PEER_WARM)
        return;
    for (uint32_t i = 0; i < peer->link_count; i++) {
        const struct group_link *link = peer->links[i];

        undecided = undecided || is_undecided(link);
        if (link->state != LINK_USABLE || link->doubted || !group_link_may_warm(group, link))
            continue;
        if (link->warmth != LINK_WARM)
            return;
        message.peer_warm.pairs++;
    }
    if (message.peer_warm.pairs == 0 && (undecided || peer->warmth == PEER_FAILED))
        return;
    peer->warmth = message.peer_warm.pairs > 0 ? PEER_WARM : PEER_FAILED;
    kvr_group_tell(group, &message);
}

/* No write is on its way that would warm the link up. */
static bool needs_warm_up(const struct kvr_group *group, const struct group_link *link)
{
    if (link == NULL || link->warmth != LINK_COLD || link->state != LINK_USABLE || link->unknown ||
        link->writes != 0 || !group_link_may_warm(group, link))
        return false;
    return !link->doubted || link->wanted || group->peers[link->peer].warmth != PEER_WARM;
}

void group_link_probe(struct kvr_group *group, struct group_link *link)
{
    uint32_t rail = link->pair.rail;
    struct kvr_fabric_piece piece = {
        .local = group->scratch->base,
        .memory = group->scratch->memory[rail],
        .remote = link->scratch.key.base,
        .key = link->scratch.key.key,
        .bytes = link->scratch.bytes,
    };
    struct kvr_fabric_write write = {
        .pieces = &piece,
        .piece_count = 1,
        .peer = link->handle,
        .immediate = KVR_WARM_UP_IMMEDIATE,
        .acknowledged = true, /* else a wrong key, or a stranger's port, would look warm */
    };

    if (group_post_alone(group, link, &write) != KVR_OK)
        return;
    link->warming = write.context;
}

/* When the link may be tried: now, or a time to come. */
static kvr_ns may_warm_at(struct kvr_group *group, const struct group_link *link)
{
    kvr_ns connects_at = group_rail_connects_at(group, link->rail);
    kvr_ns rewarm_at = link->doubted && !link->wanted ? group->peers[link->peer].rewarm_at : 0;

    if (link->slow.is && link->slow.trial_at > rewarm_at && group_link_has_sibling(group, link))
        rewarm_at = link->slow.trial_at;
    if (group->now < rewarm_at)
        return rewarm_at;
    if (group_link_waits(group, link))
        return link->again.until;
    if (link->connection == LINK_UNCONNECTED && connects_at > group->now)
        return connects_at;
    return link->rail->writes < link->rail->writes_max ? group->now : group->now + WARM_ROOM_NS;
}

/* Returns when one of these links is to be tried next. */
static kvr_ns warm_links(struct kvr_group *group, bool doubted, uint32_t *tries)
{
    kvr_ns next = KVR_NEVER;

    for (uint32_t i = 0; i < group->links.reach && *tries < WARM_A_STEP; i++) {
        struct group_link *link = kvr_pool_at(&group->links, i, NULL);
        kvr_ns at;

        if (!needs_warm_up(group, link) || link->doubted != doubted ||
            group->peers[link->peer].unconfirmed != 0)
            continue; /* tried again after CONFIRMED */
        at = may_warm_at(group, link);
        if (at <= group->now) {
            ++*tries;
            group_link_probe(group, link);
            at = needs_warm_up(group, link) ? link->again.until : KVR_NEVER;
        }
        next = at < next ? at : next;
    }
    return next;
}

/* Pairs that have failed come last: in a narrow window, they would hold the room of the others. */
bool group_warm(struct kvr_group *group)
{
    uint32_t tries = 0;
    kvr_ns next, later;

    group_spares_make(group);
    group->timers.warm_at = KVR_NEVER;
    next = warm_links(group, false, &tries);
    later = warm_links(group, true, &tries);
    next = later < next ? later : next;
    if (tries == WARM_A_STEP)
        next = group->now;
    if (next < group->timers.warm_at) /* which may be now: a pair broke */
        group->timers.warm_at = next;
    return tries > 0;
}
