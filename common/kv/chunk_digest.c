#include "kv/chunk_digest.h"

#include <xxhash.h>

#include "base/rng.h"

bool kvr_digest_covers(kvr_digest_mode mode, uint64_t transfer, uint32_t chunk)
{
    if (mode != KVR_DIGEST_SAMPLE || chunk == 0)
        return mode != KVR_DIGEST_OFF;
    return kvr_mix64(transfer ^ chunk) % KVR_DIGEST_SAMPLE_OF == 0;
}

uint64_t kvr_chunk_digest(const uint8_t *bytes, uint64_t byte_count, uint64_t before)
{
    return XXH3_64bits_withSeed(bytes, byte_count, before);
}
