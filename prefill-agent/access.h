/* Whether a target may have a publish: its WANT names the publish's tenant, which its certificate
 * serves, and proves the secret of the request (rule 13). */
#ifndef PREFILL_AGENT_ACCESS_H
#define PREFILL_AGENT_ACCESS_H

#include "wire/proof.h"

struct outbound;
struct publish;
struct source_transfer;

/* A request needs a secret, unless the agent runs with --insecure. */
bool access_needs_secret(const struct outbound *outbound);

/* The WANT of the transfer proves the secret behind that key. It takes the same time for every key,
 * also for one that is all 0: no publish has that secret. */
bool access_proven(const struct outbound *outbound, const struct source_transfer *transfer,
                   const struct kvr_proof_key *key);
/* The tenant that a WANT of this peer names; KVR_TENANT_NONE: none of ours, or none that the peer's
 * certificate serves, and the metric has counted it. */
uint32_t access_tenant(struct outbound *outbound, uint32_t peer, const char *name);
/* It is that of the publish. */
bool access_same_tenant(const struct source_transfer *transfer, uint32_t tenant);
/* Both. */
bool access_allowed(const struct outbound *outbound, const struct source_transfer *transfer,
                    const struct kvr_proof_key *key, uint32_t tenant);
/* It may not. The source engine is notified, and the metric counts it, once for this WANT and this
 * publish. The target gets the answer of a request that no engine publishes. */
void access_refuse(struct outbound *outbound, struct source_transfer *transfer,
                   struct publish *publish);

#endif
