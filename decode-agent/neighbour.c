/* Pages of devices on one host: where both agents can, we move them from the source's device to
 * ours ourselves (provider local), with nothing staged at either end. */
#include "decode-agent/inbound.h"

bool transfer_may_move(const struct inbound *inbound, const struct transfer *transfer)
{
    const struct kvr_region_set *set = fetch_of(inbound, transfer)->set;
    const struct kvr_rail_groups *groups = &inbound->options.groups;
    bool mixed = groups->same_host != 0;
    uint64_t rails = mixed ? kvr_rail_groups_same_host(groups, set->locals[0]->home) : UINT64_MAX;

    return transfer->digest == KVR_DIGEST_OFF && inbound->ports->loan_take != NULL &&
           (!mixed || inbound->peers[transfer->peer].same_host) &&
           kvr_region_set_moves_on(set, rails);
}

bool transfer_move(struct transfer *transfer)
{
    if (!transfer->may_move || !transfer->scatters || transfer->segments != NULL)
        return false;
    transfer->scatters = false;
    transfer->moves = true;
    return true;
}
