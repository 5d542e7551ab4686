/* Packets that wait for room on a socket: first in, first out, over memory that is given once. A
 * packet is kept whole. One thread. */
#ifndef KVR_WIRE_PACKET_QUEUE_H
#define KVR_WIRE_PACKET_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kvr_packet_queue {
    uint8_t *memory; /* a ring: 4 bytes of length and the packet, again and again */
    size_t capacity, head, used;
};

#define KVR_PACKET_QUEUE_OVERHEAD 4 /* bytes that a packet takes beside its own */

/* `memory` stays the caller's and outlives the queue. */
void kvr_packet_queue_init(struct kvr_packet_queue *queue, uint8_t *memory, size_t capacity);

static inline bool kvr_packet_queue_empty(const struct kvr_packet_queue *queue)
{
    return queue->used == 0;
}

/* Whether `count` packets of `bytes` each fit now. */
bool kvr_packet_queue_fits(const struct kvr_packet_queue *queue, size_t bytes, size_t count);

/* false: no room, nothing was changed. */
bool kvr_packet_queue_push(struct kvr_packet_queue *queue, const uint8_t *packet, size_t bytes);

/* Copies the oldest packet out and leaves it there. Returns its length; 0 when there is none, or it
 * is longer than capacity. */
size_t kvr_packet_queue_peek(const struct kvr_packet_queue *queue, uint8_t *packet,
                             size_t capacity);

/* Forgets the oldest packet, if there is one. */
void kvr_packet_queue_pop(struct kvr_packet_queue *queue);

#endif
