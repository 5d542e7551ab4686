#include "prefill-agent/access.h"

#include "base/mutant.h"
#include "prefill-agent/outbound.h"
#include "prefill-agent/publish.h"
#include "prefill-agent/source_transfer.h"

bool access_needs_secret(const struct outbound *outbound)
{
    return !outbound->options.without_secret;
}

/* A target that has no secret is taken with --insecure alone; so is a publish that has none. */
static bool is_open(const struct outbound *outbound, const struct source_transfer *transfer,
                    const struct kvr_proof_key *key)
{
    return !access_needs_secret(outbound) &&
           (!kvr_proof_key_given(key) || !kvr_proof_given(&transfer->match.proof));
}

bool access_proven(const struct outbound *outbound, const struct source_transfer *transfer,
                   const struct kvr_proof_key *key)
{
    uint64_t session = outbound->peers[transfer->peer].session;
    struct kvr_proof right;
    bool proven;

    kvr_proof(key, session, transfer->nonce, &transfer->match.target, &right);
    proven = kvr_proof_equal(&right, &transfer->match.proof) && kvr_proof_key_given(key);
    kvr_secret_wipe(&right, sizeof(right));
    return proven || is_open(outbound, transfer, key) || KVR_MUTANT(proof_not_compared);
}

void access_refuse(struct outbound *outbound, struct source_transfer *transfer,
                   struct publish *publish)
{
    struct kvr_error error;

    if (transfer->match.refused_by == publish->id)
        return;
    transfer->match.refused_by = publish->id;
    outbound->wants_unproven++;
    kvr_error_set(&error, KVR_NOT_AUTHORIZED, "want",
                  "the target's WANT does not prove the secret of this request: give both engines "
                  "the same secret; if they have the same, a stranger asks for it");
    publish_refuse(outbound, publish, transfer->peer, &error);
}
