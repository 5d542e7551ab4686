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

uint32_t access_tenant(struct outbound *outbound, uint32_t peer, const char *name)
{
    uint32_t tenant = kvr_tenants_find(&outbound->engines.tenants, name);

    if (kvr_engines_peer_serves(&outbound->engines, peer, tenant))
        return tenant;
    outbound->wants_of_others++;
    return KVR_TENANT_NONE;
}

bool access_same_tenant(const struct source_transfer *transfer, uint32_t tenant)
{
    return (transfer->match.tenant == tenant && tenant != KVR_TENANT_NONE) ||
           KVR_MUTANT(tenant_not_compared);
}

bool access_allowed(const struct outbound *outbound, const struct source_transfer *transfer,
                    const struct kvr_proof_key *key, uint32_t tenant)
{
    bool proven = access_proven(outbound, transfer, key);

    return access_same_tenant(transfer, tenant) && proven;
}

static void other_tenant(struct outbound *outbound, const struct source_transfer *transfer,
                         const struct publish *publish, struct kvr_error *error)
{
    const struct kvr_tenants *tenants = &outbound->engines.tenants;
    bool named = transfer->match.tenant != KVR_TENANT_NONE; /* else it was counted when it came */

    outbound->wants_of_others += named;
    kvr_error_set(
        error, KVR_NOT_AUTHORIZED, "want",
        "the target's WANT is of %s%s, and this request of the tenant %s: give both engines "
        "the same tenant, and both agents certificates that serve it",
        named ? "the tenant " : "no tenant that this agent and the peer's certificate serve",
        named ? tenants->list[transfer->match.tenant].name : "",
        tenants->list[publish->tenant].name);
}

void access_refuse(struct outbound *outbound, struct source_transfer *transfer,
                   struct publish *publish)
{
    struct kvr_error error;

    if (transfer->match.refused_by == publish->id)
        return;
    transfer->match.refused_by = publish->id;
    if (!access_same_tenant(transfer, publish->tenant)) {
        other_tenant(outbound, transfer, publish, &error);
    } else {
        outbound->wants_unproven++;
        kvr_error_set(
            &error, KVR_NOT_AUTHORIZED, "want",
            "the target's WANT does not prove the secret of this request: give both engines "
            "the same secret; if they have the same, a stranger asks for it");
    }
    publish_refuse(outbound, publish, transfer->peer, &error);
}
