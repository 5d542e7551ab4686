/* How WANT proves that its sender knows the secret of a request, without showing it.
 *
 *   key   = HMAC-SHA256(secret, "kvrail request 1" · request · attempt · source rank)
 *   proof = HMAC-SHA256(key, "kvrail want 1" · session · transfer · target rank)
 *
 * The key is good for one attempt of one request at one source rank. A source keeps it instead of
 * the secret. The session's number is random, so a proof is worth nothing in another session. Pure.
 */
#ifndef KVR_WIRE_PROOF_H
#define KVR_WIRE_PROOF_H

#include "base/types.h"
#include "wire/secret.h"

#define KVR_PROOF_BYTES 32

struct kvr_proof_key {
    uint8_t bytes[KVR_PROOF_BYTES]; /* all 0: none */
};

struct kvr_proof {
    uint8_t bytes[KVR_PROOF_BYTES]; /* all 0: none */
};

/* Of `source` engine, tp and pp count: a target need not know the generation. */
void kvr_proof_key(const struct kvr_secret *secret, const char *request, uint32_t attempt,
                   const struct kvr_rank *source, struct kvr_proof_key *ret_key);
/* Of `target` engine, generation, tp and pp count. */
void kvr_proof(const struct kvr_proof_key *key, uint64_t session, uint64_t transfer,
               const struct kvr_rank *target, struct kvr_proof *ret_proof);

bool kvr_proof_key_given(const struct kvr_proof_key *key);
bool kvr_proof_given(const struct kvr_proof *proof);
/* Takes the same time wherever they differ. */
bool kvr_proof_equal(const struct kvr_proof *a, const struct kvr_proof *b);

#endif
