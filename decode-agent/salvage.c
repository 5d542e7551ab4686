/* What may still be used of a fetch that failed. */
#include "base/mutant.h"
#include "decode-agent/inbound.h"

/* Whether this end leaves what was told to be in what it is. Whatever puts the contents in doubt,
 * or the plans by which they were placed, is not on the list. */
static bool leaves_bytes_right(kvr_status status)
{
    switch (status) {
    case KVR_OK:
    case KVR_CANCELLED:
    case KVR_EXPIRED:
    case KVR_NO_SOURCE:
    case KVR_FULL:
    case KVR_NO_MEMORY:
    case KVR_SIBLING:
    case KVR_DRAINING:
    case KVR_RAIL_FAILED:
    case KVR_EPOCH_ENDED:
    case KVR_NO_RAIL:
    case KVR_PEER_LOST:
    case KVR_PEER_RESTARTED:
    case KVR_ENGINE_LOST:
        return true;
    default:
        return false;
    }
}

static bool is_in(const struct landing_segment *segment)
{
    return segment->layers_in == segment->plan->layer_count ||
           (segment->layers_in > 0 && KVR_MUTANT(salvage_of_a_part));
}

/* All tokens of the group up to here are in place. What has no segment was not written to. */
static uint64_t group_salvage(const struct fetch *fetch, const struct transfer *transfer,
                              uint32_t group)
{
    uint64_t token_end = fetch->skips[group];
    bool untouched = true, whole = true;

    for (const struct landing_segment *at = transfer->segments; at != NULL && whole;
         at = at->loop_next) {
        if (at->group != group)
            continue;
        untouched = false;
        whole = is_in(at);
        if (whole)
            token_end = at->plan->token_end;
    }
    return untouched && token_end < fetch->skip_tokens ? fetch->skip_tokens : token_end;
}

uint64_t transfer_salvage(const struct inbound *inbound, const struct transfer *transfer)
{
    const struct fetch *fetch = fetch_of(inbound, transfer);
    uint64_t token_end = fetch->skip_tokens;

    if (transfer->status == KVR_OK) /* it is in, as far as its source published */
        return transfer->final.token_end > token_end ? transfer->final.token_end : token_end;
    if (!leaves_bytes_right(transfer->status) ||
        (transfer->digest != KVR_DIGEST_OFF && !transfer->verified))
        return token_end;
    token_end = fetch->tokens;
    for (uint32_t group = 0; group < KVR_GROUPS_MAX; group++) {
        uint64_t end;

        if (fetch->pages.groups[group].page_tokens == 0 || fetch->skips[group] == fetch->tokens ||
            layers_decided(fetch, transfer, group, true))
            continue;
        end = group_salvage(fetch, transfer, group);
        token_end = end < token_end ? end : token_end;
    }
    return token_end;
}
