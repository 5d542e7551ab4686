/* A queue of messages of one size, from one producer thread to one consumer thread, that is never
 * full: rings (ring.h), each linked behind one that was, and larger. A ring is never pushed into
 * again once there is another behind it; the consumer frees it when it has taken what was there.
 *
 * For messages that must not overtake each other on any way: a message pushed before another thread
 * learns of a later event is in the queue when that thread looks. Memory is taken
 * only where a bounded ring would have been full. */
#ifndef KVR_BASE_CHAIN_H
#define KVR_BASE_CHAIN_H

#include "base/ring.h"

struct kvr_chain_link {
    struct kvr_ring ring;
    _Atomic(struct kvr_chain_link *) next; /* NULL: it is the last */
};

struct kvr_chain {
    struct kvr_chain_link *first; /* consumer's own */
    unsigned char pad[KVR_RING_LINE_BYTES];
    struct kvr_chain_link *last; /* producer's own */
};

/* Before either thread uses it. capacity of the first ring: a power of two. Its memory is touched
 * here, so that it lies near the consumer, which makes it, and not near the producer. */
KVR_MUST_CHECK kvr_status kvr_chain_init(struct kvr_chain *chain, uint32_t capacity,
                                         uint32_t message_bytes);
/* After both threads have ended or forgotten it. A zeroed chain is fine. */
void kvr_chain_done(struct kvr_chain *chain);

/* Producer only. Links a larger ring behind the last, which is full. */
KVR_MUST_CHECK kvr_status kvr_chain_grow(struct kvr_chain *chain);
/* Consumer only. The first ring looked empty: true when it is worth another look, because the next
 * one is the first now, or a message came. */
bool kvr_chain_advance(struct kvr_chain *chain);
/* Consumer only. How many pops will succeed at least. */
uint32_t kvr_chain_count(struct kvr_chain *chain);

/* Producer only. Copies message_bytes; false when there is no memory for it. */
KVR_MUST_CHECK static inline bool kvr_chain_push(struct kvr_chain *chain, const void *message)
{
    return kvr_ring_push(&chain->last->ring, message) ||
           (kvr_chain_grow(chain) == KVR_OK && kvr_ring_push(&chain->last->ring, message));
}

/* Consumer only. The oldest message in its slot, valid until it is popped; NULL when empty. */
static inline void *kvr_chain_peek(struct kvr_chain *chain)
{
    void *message = kvr_ring_peek(&chain->first->ring);

    while (message == NULL && kvr_chain_advance(chain))
        message = kvr_ring_peek(&chain->first->ring);
    return message;
}

/* Consumer only. Copies the oldest message out; false when the queue is empty. */
static inline bool kvr_chain_pop(struct kvr_chain *chain, void *ret_message)
{
    return kvr_chain_peek(chain) != NULL && kvr_ring_pop(&chain->first->ring, ret_message);
}

#endif
