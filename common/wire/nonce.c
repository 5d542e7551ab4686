#include "wire/nonce.h"

#include <nettle/hmac.h>
#include <stdbool.h>
#include <string.h>

#define ROUNDS 4

static uint32_t round_of(const struct kvr_nonces *nonces, uint32_t round, uint32_t half)
{
    struct hmac_sha256_ctx hmac;
    uint32_t input[2] = {round, half}, output;

    hmac_sha256_set_key(&hmac, sizeof(nonces->key), (const uint8_t *)nonces->key);
    hmac_sha256_update(&hmac, sizeof(input), (const uint8_t *)input);
    hmac_sha256_digest(&hmac, sizeof(output), (uint8_t *)&output);
    return output;
}

static uint64_t permute(const struct kvr_nonces *nonces, uint64_t number)
{
    uint32_t left = (uint32_t)(number >> 32), right = (uint32_t)number;

    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t next = left ^ round_of(nonces, round, right);

        left = right;
        right = next;
    }
    return (uint64_t)left << 32 | right;
}

uint64_t kvr_nonce_next(struct kvr_nonces *nonces)
{
    static const uint64_t in_order[KVR_NONCE_KEY_WORDS];
    bool plain = memcmp(nonces->key, in_order, sizeof(in_order)) == 0;
    uint64_t nonce;

    do {
        nonces->given++;
        nonce = plain ? nonces->given : permute(nonces, nonces->given);
    } while (nonce == 0);
    return nonce;
}
