/* A bounded ring of messages of one size, from one producer thread to one consumer thread.
 *
 * Nothing here waits: a push into a full ring and a pop from an empty one answer false, and the
 * caller decides. Order is kept. A message is copied in and out; what was written before a push is
 * seen after its pop. The indices run freely over 32 bits and are cut by the mask, so every slot is
 * usable. Each side keeps the last index of the other that it saw, and so reads the other's cache
 * line only when the ring looks full or empty.
 *
 * Written with C11 atomics, so that ThreadSanitizer checks what really happens. */
#ifndef KVR_BASE_RING_H
#define KVR_BASE_RING_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

#define KVR_RING_LINE_BYTES 64

/* Padding rather than alignment: a ring may lie in any memory, also inside a malloc. */
struct kvr_ring {
    unsigned char *slots;
    uint32_t mask;
    uint32_t message_bytes; /* of one slot */
    bool owned;             /* slots were allocated by init */
    unsigned char pad_before[KVR_RING_LINE_BYTES];
    _Atomic uint32_t tail; /* messages pushed so far */
    uint32_t head_seen;    /* producer's own */
    unsigned char pad_between[KVR_RING_LINE_BYTES];
    _Atomic uint32_t head; /* messages popped so far */
    uint32_t tail_seen;    /* consumer's own */
    unsigned char pad_behind[KVR_RING_LINE_BYTES];
};

/* Memory that a ring needs. */
static inline size_t kvr_ring_bytes(uint32_t capacity, uint32_t message_bytes)
{
    return (size_t)capacity * message_bytes;
}

/* Before either thread uses it. capacity: a power of two. memory: kvr_ring_bytes() that outlive the
 * ring, or NULL to allocate (KVR_NO_MEMORY when that fails). */
KVR_MUST_CHECK static inline kvr_status kvr_ring_init(struct kvr_ring *ring, void *memory,
                                                      uint32_t capacity, uint32_t message_bytes)
{
    assert(capacity > 0 && (capacity & (capacity - 1)) == 0 && message_bytes > 0);
    memset(ring, 0, sizeof(*ring));
    ring->slots = memory != NULL ? memory : malloc(kvr_ring_bytes(capacity, message_bytes));
    ring->owned = memory == NULL;
    ring->mask = capacity - 1;
    ring->message_bytes = message_bytes;
    return ring->slots != NULL ? KVR_OK : KVR_NO_MEMORY;
}

/* After both threads have ended or forgotten it. A zeroed ring is fine. */
static inline void kvr_ring_done(struct kvr_ring *ring)
{
    if (ring->owned)
        free(ring->slots);
    memset(ring, 0, sizeof(*ring));
}

/* Producer only. How many pushes will succeed at least. */
static inline uint32_t kvr_ring_room(struct kvr_ring *ring)
{
    uint32_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);

    ring->head_seen = atomic_load_explicit(&ring->head, memory_order_acquire);
    return ring->mask + 1 - (tail - ring->head_seen);
}

/* Producer only. Copies message_bytes; false when the ring is full. */
static inline bool kvr_ring_push(struct kvr_ring *ring, const void *message)
{
    uint32_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);

    if (tail - ring->head_seen > ring->mask && kvr_ring_room(ring) == 0)
        return false;
    memcpy(ring->slots + (size_t)(tail & ring->mask) * ring->message_bytes, message,
           ring->message_bytes);
    atomic_store_explicit(&ring->tail, tail + 1, memory_order_release);
    return true;
}

/* Consumer only. How many pops will succeed at least. */
static inline uint32_t kvr_ring_count(struct kvr_ring *ring)
{
    uint32_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);

    ring->tail_seen = atomic_load_explicit(&ring->tail, memory_order_acquire);
    return ring->tail_seen - head;
}

/* Consumer only. The oldest message in its slot, valid until kvr_ring_drop(); NULL when empty. For
 * a consumer that must know what a message asks before it can take it. Slots are aligned only as
 * message_bytes and the memory allow. */
static inline void *kvr_ring_peek(struct kvr_ring *ring)
{
    uint32_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);

    if (head == ring->tail_seen && kvr_ring_count(ring) == 0)
        return NULL;
    return ring->slots + (size_t)(head & ring->mask) * ring->message_bytes;
}

/* Consumer only. Takes away what kvr_ring_peek() showed. */
static inline void kvr_ring_drop(struct kvr_ring *ring)
{
    uint32_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);

    assert(head != ring->tail_seen);
    atomic_store_explicit(&ring->head, head + 1, memory_order_release);
}

/* Consumer only. Copies the oldest message out; false when the ring is empty. */
static inline bool kvr_ring_pop(struct kvr_ring *ring, void *ret_message)
{
    const void *message = kvr_ring_peek(ring);

    if (message == NULL)
        return false;
    memcpy(ret_message, message, ring->message_bytes);
    kvr_ring_drop(ring);
    return true;
}

#endif
