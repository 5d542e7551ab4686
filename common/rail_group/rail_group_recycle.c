/* Replaces the endpoint of one rail. The order of these steps proves that nothing can still land.
 */
#include <string.h>

#include "base/mutant.h"
#include "rail_group/rail_group_state.h"

/* Makes `endpoint` (NULL: none could be opened) the rail's own under this epoch. */
kvr_status group_endpoint_install(struct kvr_group *group, uint32_t rail_index,
                                  struct kvr_endpoint *endpoint, uint32_t epoch)
{
    struct group_rail *rail = &group->rails[rail_index];
    struct kvr_rail_address address = {.rail = rail_index,
                                       .epoch = epoch,
                                       .group = group->number,
                                       .same_host = rail->same_host,
                                       .needs_senders = rail->needs_senders,
                                       .tags = rail->tags};

    if (group->scratch != NULL) {
        address.scratch_bytes = (uint32_t)group->scratch->layout.bytes;
        address.scratch = group->scratch->keys[rail_index];
    }
    memcpy(address.plane, rail->plane, sizeof(address.plane));
    if (endpoint != NULL)
        group->ops->endpoint_address(endpoint, address.address, &address.bytes);
    rail->endpoint = endpoint;
    rail->unrung = false;
    rail->error_told = KVR_OK;
    pthread_mutex_lock(&group->address_lock);
    rail->address = address;
    pthread_mutex_unlock(&group->address_lock);
    return endpoint != NULL ? KVR_OK : KVR_RAIL_FAILED;
}

void group_recycle(struct kvr_group *group, uint32_t rail_index)
{
    struct group_rail *rail = &group->rails[rail_index];
    struct kvr_endpoint *old = rail->endpoint, *successor = NULL;
    uint32_t ended = rail->address.epoch;
    struct kvr_group_message answer = {
        .head.kind = KVR_GROUP_RECYCLED,
        .recycled = {.rail = rail_index, .ended = ended, .epoch = ended + 1},
    };
    struct kvr_error refused = {0};

    /* The successor first, so that its address cannot be the old one's. Without a successor the old
     * one still ends: fencing must not depend on luck. The rail then is without an endpoint until
     * it is recycled again. */
    answer.recycled.status = group->ops->endpoint_open(rail->rail, &successor, &refused);
    if (answer.recycled.status != KVR_OK) {
        successor = NULL;
        pthread_mutex_lock(&group->address_lock);
        rail->refused = refused;
        pthread_mutex_unlock(&group->address_lock);
    }
    group_links_forget_endpoint(group, rail_index);
    if (old != NULL && !KVR_MUTANT(closed_before_it_stops))
        group->ops->endpoint_stop(old);
    (void)group_endpoint_install(group, rail_index, successor, ended + 1);
    if (!KVR_MUTANT(successor_without_senders))
        group_senders_insert(group, rail_index);
    /* The loop grants for the old epoch until it hears of the end: what arrived before the stop may
     * need such a GRANT. Commands about peers are of the successor already. */
    group_commands_late(group);
    if (old != NULL) {
        group_read_empty(group, rail_index, ended, old);
        group_settle_rail(group, rail_index);
        if (!KVR_MUTANT(closed_before_it_stops))
            group->ops->endpoint_close(old);
    }
    /* Also for an epoch that never had an endpoint: the loop may wait for its end. */
    group->user.epoch_closed(group->user.self, group->now, rail_index, ended);
    group_count(&rail->counters.recycles, 1);
    kvr_group_tell(group, &answer);
    group_links_reinsert(group, rail_index); /* pairs that break here are reported after RECYCLED */
}
