#include "wire/proof.h"

#include <nettle/hmac.h>
#include <nettle/memops.h>
#include <string.h>

#include "base/mutant.h"

/* Labels have their NUL, and numbers are big-endian: every field has its place. */
static void add_text(struct hmac_sha256_ctx *hmac, const char *text)
{
    hmac_sha256_update(hmac, strlen(text) + 1, (const uint8_t *)text);
}

static void add_u64(struct hmac_sha256_ctx *hmac, uint64_t value)
{
    uint8_t bytes[sizeof(value)];

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(value >> (56 - 8 * i));
    hmac_sha256_update(hmac, sizeof(bytes), bytes);
}

static void add_rank(struct hmac_sha256_ctx *hmac, const struct kvr_rank *rank)
{
    hmac_sha256_update(hmac, sizeof(rank->engine.bytes), rank->engine.bytes);
    add_u64(hmac, (uint64_t)rank->tp << 32 | rank->pp);
}

static void end(struct hmac_sha256_ctx *hmac, uint8_t ret_bytes[KVR_PROOF_BYTES])
{
    hmac_sha256_digest(hmac, KVR_PROOF_BYTES, ret_bytes);
    kvr_secret_wipe(hmac, sizeof(*hmac));
}

void kvr_proof_key(const struct kvr_secret *secret, const char *request, uint32_t attempt,
                   const struct kvr_rank *source, struct kvr_proof_key *ret_key)
{
    struct hmac_sha256_ctx hmac;

    hmac_sha256_set_key(&hmac, sizeof(secret->bytes), secret->bytes);
    add_text(&hmac, "kvrail request 1");
    add_text(&hmac, request);
    add_u64(&hmac, attempt);
    add_rank(&hmac, source);
    end(&hmac, ret_key->bytes);
}

void kvr_proof(const struct kvr_proof_key *key, uint64_t session, uint64_t transfer,
               const struct kvr_rank *target, struct kvr_proof *ret_proof)
{
    struct hmac_sha256_ctx hmac;

    hmac_sha256_set_key(&hmac, sizeof(key->bytes), key->bytes);
    add_text(&hmac, "kvrail want 1");
    add_u64(&hmac, KVR_MUTANT(proof_of_any_session) ? 0 : session);
    add_u64(&hmac, KVR_MUTANT(proof_of_any_transfer) ? 0 : transfer);
    add_rank(&hmac, target);
    add_u64(&hmac, target->generation);
    end(&hmac, ret_proof->bytes);
}

bool kvr_proof_key_given(const struct kvr_proof_key *key)
{
    static const struct kvr_proof_key none;

    return memeql_sec(key->bytes, none.bytes, sizeof(none.bytes)) == 0;
}

bool kvr_proof_given(const struct kvr_proof *proof)
{
    static const struct kvr_proof none;

    return !kvr_proof_equal(proof, &none);
}

bool kvr_proof_equal(const struct kvr_proof *a, const struct kvr_proof *b)
{
    return memeql_sec(a->bytes, b->bytes, sizeof(a->bytes)) != 0;
}
