/* Warm-up (rule 5): the first write of a pair goes into the peer's scratch page. A pair that has
 * failed is not warmed up: what is risked on it are writes that somebody needs, or a card that
 * cannot be reached would be recycled for nothing for ever. */
#include <string.h>

#include "base/memfd.h"
#include "fabric/rail_group_state.h"

#define SCRATCH_BYTES 4096u
#define WARM_BYTES    8u
#define WARM_A_STEP   32u
#define WARM_ROOM_NS  (2 * KVR_MS) /* a rail without room is asked again after that */

kvr_status group_scratch_open(struct kvr_group *group, const struct kvr_group_options *options,
                              struct kvr_error *error)
{
    struct kvr_region_layout layout = {.bytes = SCRATCH_BYTES};
    uint32_t rail_end = options->rail_first + options->rail_count;
    struct kvr_rail *rails[KVR_RAILS_MAX] = {NULL};
    kvr_status status;
    int fd = -1;

    if (!options->warm_up)
        return KVR_OK;
    memcpy(&rails[options->rail_first], &options->rails[options->rail_first],
           options->rail_count * sizeof(rails[0]));
    status = kvr_memfd_create("kvrail-scratch", SCRATCH_BYTES, "rail_group", &fd, error);
    if (status != KVR_OK)
        return status;
    return kvr_region_open_memfd(options->fabric, rails, rail_end, &layout, fd, 0, true, true,
                                 &group->scratch, error);
}

void group_scratch_close(struct kvr_group *group)
{
    struct kvr_fabric fabric = {.ops = group->ops};

    kvr_region_release(&fabric, group->scratch);
}

void group_link_cool(struct kvr_group *group, struct group_link *link,
                     const struct kvr_rail_address *address)
{
    link->cold = group->scratch != NULL && address->scratch_bytes >= WARM_BYTES;
    link->scratch = address->scratch;
    if (link->cold)
        group->warm_at = group->now;
}

/* A peer that is gone has links all the same, until their last write is. */
void group_peer_warmed(struct kvr_group *group, uint32_t index)
{
    struct group_peer *peer = &group->peers[index];
    struct kvr_group_message message = {
        .kind = KVR_GROUP_PEER_WARM, .index = index, .b = peer->added_at};

    if (!peer->known || peer->warm_told)
        return;
    for (uint32_t i = 0; i < peer->link_count; i++) {
        const struct group_link *link = peer->links[i];

        if (link->state != LINK_USABLE)
            continue;
        if (link->cold || link->warming != 0)
            return;
        message.a++;
    }
    if (message.a == 0)
        return;
    peer->warm_told = true;
    kvr_group_tell(group, &message);
}

/* True: nobody has written on it since it became usable, and nobody should be the first. */
static bool still_cold(struct kvr_group *group, struct group_link *link)
{
    if (link == NULL || !link->cold)
        return false;
    if (link->state == LINK_USABLE && !link->doubted && link->writes == 0)
        return true;
    link->cold = false;
    group_peer_warmed(group, link->peer);
    return false;
}

static void warm_up(struct kvr_group *group, struct group_link *link)
{
    uint32_t rail = link->pair.rail;
    struct kvr_fabric_piece piece = {
        .local = group->scratch->base,
        .memory = group->scratch->memory[rail],
        .remote = link->scratch.base,
        .key = link->scratch.key,
        .bytes = WARM_BYTES,
    };
    struct kvr_fabric_write write = {
        .pieces = &piece,
        .piece_count = 1,
        .peer = link->handle,
        .immediate = KVR_WARM_UP_IMMEDIATE,
    };

    if (group_post_alone(group, link, &write) != KVR_OK)
        return;
    link->cold = false;
    link->warming = write.context;
}

/* When the link may be tried: now, or a time to come. */
static kvr_ns may_warm_at(const struct kvr_group *group, const struct group_link *link)
{
    if (group_link_waits(group, link))
        return link->again_until;
    return link->rail->writes < link->rail->writes_max ? group->now : group->now + WARM_ROOM_NS;
}

bool group_warm(struct kvr_group *group)
{
    uint32_t tries = 0;
    kvr_ns next = KVR_NEVER;

    for (uint32_t i = 0; i < group->links.reach && tries < WARM_A_STEP; i++) {
        struct group_link *link = kvr_pool_at(&group->links, i, NULL);
        kvr_ns at;

        if (!still_cold(group, link) || group->peers[link->peer].unproven != 0)
            continue; /* PROVEN comes back to it */
        at = may_warm_at(group, link);
        if (at <= group->now) {
            tries++;
            warm_up(group, link);
            at = link->cold && link->state == LINK_USABLE ? link->again_until : KVR_NEVER;
        }
        next = at < next ? at : next;
    }
    group->warm_at = tries < WARM_A_STEP ? next : group->now;
    return tries > 0;
}
