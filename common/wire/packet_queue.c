#include "wire/packet_queue.h"

#include <string.h>

void kvr_packet_queue_init(struct kvr_packet_queue *queue, uint8_t *memory, size_t capacity)
{
    *queue = (struct kvr_packet_queue){.memory = memory, .capacity = capacity};
}

bool kvr_packet_queue_fits(const struct kvr_packet_queue *queue, size_t bytes, size_t count)
{
    return (bytes + KVR_PACKET_QUEUE_OVERHEAD) * count <= queue->capacity - queue->used;
}

static void copy_in(struct kvr_packet_queue *queue, const void *from, size_t bytes)
{
    size_t at = (queue->head + queue->used) % queue->capacity;
    size_t first = bytes < queue->capacity - at ? bytes : queue->capacity - at;

    memcpy(queue->memory + at, from, first);
    memcpy(queue->memory, (const uint8_t *)from + first, bytes - first);
    queue->used += bytes;
}

static void copy_out(const struct kvr_packet_queue *queue, size_t skip, void *to, size_t bytes)
{
    size_t at = (queue->head + skip) % queue->capacity;
    size_t first = bytes < queue->capacity - at ? bytes : queue->capacity - at;

    memcpy(to, queue->memory + at, first);
    memcpy((uint8_t *)to + first, queue->memory, bytes - first);
}

static size_t oldest_bytes(const struct kvr_packet_queue *queue)
{
    uint32_t bytes = 0;

    if (queue->used > 0)
        copy_out(queue, 0, &bytes, sizeof(bytes));
    return bytes;
}

bool kvr_packet_queue_push(struct kvr_packet_queue *queue, const uint8_t *packet, size_t bytes)
{
    uint32_t length = (uint32_t)bytes;

    if (!kvr_packet_queue_fits(queue, bytes, 1))
        return false;
    copy_in(queue, &length, sizeof(length));
    copy_in(queue, packet, bytes);
    return true;
}

size_t kvr_packet_queue_peek(const struct kvr_packet_queue *queue, uint8_t *packet, size_t capacity)
{
    size_t bytes = oldest_bytes(queue);

    if (bytes == 0 || bytes > capacity)
        return 0;
    copy_out(queue, KVR_PACKET_QUEUE_OVERHEAD, packet, bytes);
    return bytes;
}

void kvr_packet_queue_pop(struct kvr_packet_queue *queue)
{
    size_t taken;

    if (queue->used == 0)
        return;
    taken = oldest_bytes(queue) + KVR_PACKET_QUEUE_OVERHEAD;
    queue->head = (queue->head + taken) % queue->capacity;
    queue->used -= taken;
    if (queue->used == 0)
        queue->head = 0; /* a short queue keeps to the pages of memory that it has touched */
}
