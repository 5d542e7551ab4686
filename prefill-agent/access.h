/* Whether a target may have a publish: its WANT proves the secret of the request (rule 13). */
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
/* It does not. The source engine is notified, and the metric counts it, once for this WANT and this
 * publish. The target gets the answer of a request that no engine publishes. */
void access_refuse(struct outbound *outbound, struct source_transfer *transfer,
                   struct publish *publish);

#endif
