/* Direct copy: source and target lie in device memory of one host, and both agents can reach both
 * devices. The target's agent copies (provider local). Nothing is staged at either end. */
#include "decode-agent/direct_copy.h"

#include "decode-agent/fetch.h"
#include "decode-agent/inbound.h"
#include "decode-agent/landing_path.h"
#include "decode-agent/transfer.h"

bool direct_copy_possible(const struct inbound *inbound, const struct transfer *transfer)
{
    const struct kvr_region_set *set = fetch_of(inbound, transfer)->set;
    const struct kvr_rail_groups *groups = &inbound->options.groups;
    bool mixed = groups->same_host != 0;
    uint64_t rails = mixed ? kvr_rail_groups_same_host(groups, set->locals[0]->home) : UINT64_MAX;

    return transfer->verification.mode == KVR_DIGEST_OFF &&
           inbound->ports->revocation_word_take != NULL &&
           (!mixed || inbound->peers[transfer->link.peer].same_host) &&
           kvr_region_set_direct_copy_on(set, rails);
}

bool direct_copy_take(struct transfer *transfer)
{
    if (!transfer->path.copy_offered || !landing_path_staged(&transfer->path) ||
        transfer->intake.segments != NULL)
        return false;
    landing_path_on(&transfer->path.state, PATH_ON_COPY);
    return true;
}
