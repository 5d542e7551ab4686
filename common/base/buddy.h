/* A buddy allocator on memory that the caller gives: where the pure state machines get what has no
 * fixed size (page tables, bitmaps), so that they never meet the heap.
 *
 * A block is a power of two, at least 64 bytes, and aligned to 64. The same calls give the same
 * offsets on every machine. Freed neighbours join again, so a long life does not fragment more than
 * the blocks that are in use make it. A byte of bookkeeping for 64 bytes lies at the memory's end.
 * One thread. */
#ifndef KVR_BASE_BUDDY_H
#define KVR_BASE_BUDDY_H

#include <stddef.h>
#include <stdint.h>

#define KVR_BUDDY_BLOCK_BYTES 64
#define KVR_BUDDY_ORDERS      32 /* the largest block is 64 bytes << 31 */

struct kvr_buddy {
    unsigned char *memory;
    uint8_t *orders;   /* of the block that begins at each unit; buddy.c knows the marks */
    uint32_t units;    /* of 64 bytes */
    size_t used_bytes; /* in allocated blocks, their rounding included */
    uint32_t free_first[KVR_BUDDY_ORDERS];
};

/* bytes (at least 256, at most 64 GiB) at memory, borrowed until the allocator is forgotten. */
void kvr_buddy_init(struct kvr_buddy *buddy, void *memory, size_t bytes);
/* NULL when no block is large enough; bytes of 0 get a block too. Contents are undefined. */
void *kvr_buddy_alloc(struct kvr_buddy *buddy, size_t bytes);
/* NULL is fine; freeing twice asserts. */
void kvr_buddy_free(struct kvr_buddy *buddy, void *block);

#endif
