/* Keyed hashes in place of ids: the same id has the same hash, and without the key there is no way
 * back. Pure. */
#ifndef KVR_TOOLS_TRACE_HASH_H
#define KVR_TOOLS_TRACE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define TRACE_KEY_BYTES 32

/* The first 64 bits of HMAC-SHA256. */
uint64_t trace_hash(const uint8_t key[TRACE_KEY_BYTES], const void *bytes, size_t count);

#endif
