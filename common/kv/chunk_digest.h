/* The hash of a chunk's bytes. Both sides compute the same value when they hold the same bytes.
 * Pure. */
#ifndef KVR_KV_CHUNK_DIGEST_H
#define KVR_KV_CHUNK_DIGEST_H

#include "kv/plan.h"

/* True when this chunk of this transfer is hashed. The sample differs from transfer to transfer, so
 * a region that is read wrongly is found sooner or later. Chunk 0 is always hashed, so every
 * transfer has a digest. */
bool kvr_digest_covers(kvr_digest_mode mode, uint64_t transfer, uint32_t chunk);

/* Hashes one piece after the other: the hash so far is the seed of the next piece; the first seed
 * is 0. */
uint64_t kvr_chunk_digest(const uint8_t *bytes, uint64_t byte_count, uint64_t before);

#endif
