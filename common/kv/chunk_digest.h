/* The hash of a chunk's bytes, equal on both sides when the same bytes lie on both. Pure. */
#ifndef KVR_KV_CHUNK_DIGEST_H
#define KVR_KV_CHUNK_DIGEST_H

#include "kv/plan.h"

/* Whether this chunk of this transfer is hashed. A sample's choice differs from transfer to
 * transfer, so that a region that is read wrongly is found sooner or later; its chunk 0 always is,
 * so that no transfer goes without. */
bool kvr_digest_covers(kvr_digest_mode mode, uint64_t transfer, uint32_t chunk);

/* One piece after the other: the hash of those before is the seed of the next, the first's is 0. */
uint64_t kvr_chunk_digest(const uint8_t *bytes, uint64_t byte_count, uint64_t before);

#endif
