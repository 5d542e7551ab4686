/* What an engine may still use of a fetch that failed: the tokens that are in place in every layer.
 */
#include "decode-agent/deliver.h"

#include "base/mutant.h"
#include "decode-agent/fetch.h"
#include "decode-agent/layers.h"
#include "decode-agent/transfer.h"

/* True: announced layers stay valid after this failure. A failure that puts the bytes or the plans
 * in doubt is not on the list. */
static bool leaves_bytes_right(kvr_status status)
{
    switch (status) {
    case KVR_OK:
    case KVR_CANCELLED:
    case KVR_EXPIRED:
    case KVR_NO_SOURCE:
    case KVR_FULL:
    case KVR_NO_MEMORY:
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

/* All tokens of the KV group up to here are in place. Without a segment nothing was written. The
 * page of a state that is not in place has no part in the tokens before. */
static uint64_t group_salvage(const struct fetch *fetch, const struct transfer *transfer,
                              uint32_t group)
{
    bool state = fetch->pages.groups[group].page_tokens == KVR_PAGE_ENDLESS;
    uint64_t token_end = state ? fetch->skip_tokens : fetch->skips[group];
    bool untouched = true, whole = true;

    for (const struct landing_segment *at = transfer->intake.segments; at != NULL && whole;
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

    if (transfer->failure.status == KVR_OK) /* all that its source published is in place */
        return transfer->intake.final.token_end > token_end ? transfer->intake.final.token_end
                                                            : token_end;
    if (!leaves_bytes_right(transfer->failure.status) ||
        (transfer->verification.mode != KVR_DIGEST_OFF &&
         transfer->verification.state != VERIFY_VERIFIED))
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
