#include "tools/trace/trace_hash.h"

#include <nettle/hmac.h>

uint64_t trace_hash(const uint8_t key[TRACE_KEY_BYTES], const void *bytes, size_t count)
{
    struct hmac_sha256_ctx hmac;
    uint64_t digest;

    hmac_sha256_set_key(&hmac, TRACE_KEY_BYTES, key);
    hmac_sha256_update(&hmac, count, bytes);
    hmac_sha256_digest(&hmac, sizeof(digest), (uint8_t *)&digest);
    return digest;
}
