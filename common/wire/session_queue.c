#include "wire/session_queue.h"

#include <assert.h>
#include <string.h>

#define NONE            KVR_QUEUE_NONE
/* Kept for urgent messages when bulk has filled the rest. */
#define RESERVE_BYTES   65536u
#define RESERVE_ENTRIES 16u
/* A sender of patient messages waits until half is free; other messages end the session where there
 * is no room. This part is kept for them. */
#define PATIENT_PART    4u
/* Frames move to the beginning when they lie behind so many bytes, and are a part of these. */
#define GATHER_BYTES    65536u
#define GATHER_PART     4u

size_t kvr_session_queue_bytes(uint32_t byte_capacity, uint32_t entry_capacity)
{
    return (size_t)entry_capacity * sizeof(struct kvr_queue_entry) + byte_capacity;
}

void kvr_session_queue_init(struct kvr_session_queue *queue, void *memory, uint32_t byte_capacity,
                            uint32_t entry_capacity)
{
    *queue = (struct kvr_session_queue){
        .entries = memory,
        .entry_capacity = entry_capacity,
        .bytes = (uint8_t *)memory + entry_capacity * sizeof(struct kvr_queue_entry),
        .byte_capacity = byte_capacity,
        .first = NONE,
        .last = NONE,
        .unsent = NONE,
    };
}

/* ---- room in the ring ---- */

static uint32_t byte_start(const struct kvr_session_queue *queue)
{
    return queue->entries[queue->entry_first].offset;
}

static uint32_t bytes_free(const struct kvr_session_queue *queue)
{
    if (queue->entry_count == 0)
        return queue->byte_capacity;
    if (queue->byte_end > byte_start(queue))
        return queue->byte_capacity - queue->byte_end + byte_start(queue);
    return byte_start(queue) - queue->byte_end;
}

static kvr_status encode_at(struct kvr_session_queue *queue, const struct kvr_message *message,
                            uint32_t offset, uint32_t room, struct kvr_queue_entry *entry)
{
    uint32_t capacity = room < KVR_FRAME_BYTES_MAX ? room : KVR_FRAME_BYTES_MAX;
    size_t bytes = 0;
    kvr_status status;

    status = kvr_message_encode(message, queue->bytes + offset, capacity, &bytes);
    if (status == KVR_TOO_LARGE && capacity < KVR_FRAME_BYTES_MAX)
        return KVR_AGAIN;
    entry->offset = offset;
    entry->bytes = (uint32_t)bytes;
    return status;
}

/* Frames are not cut: one goes behind the newest, or, when the end of the ring is too near, to its
 * beginning. */
static kvr_status encode(struct kvr_session_queue *queue, const struct kvr_message *message,
                         struct kvr_queue_entry *entry)
{
    uint32_t start, end = queue->byte_end;
    kvr_status status;

    if (queue->entry_count == 0)
        return encode_at(queue, message, 0, queue->byte_capacity, entry);
    start = byte_start(queue);
    if (end <= start)
        return encode_at(queue, message, end, start - end, entry);
    status = encode_at(queue, message, end, queue->byte_capacity - end, entry);
    return status == KVR_AGAIN ? encode_at(queue, message, 0, start, entry) : status;
}

/* ---- the order of sending ---- */

/* Behind which entry the new one goes. */
static uint32_t place(const struct kvr_session_queue *queue, const struct kvr_queue_entry *entry)
{
    uint32_t at = queue->last;

    if (!entry->urgent)
        return at;
    while (at != NONE) {
        const struct kvr_queue_entry *other = &queue->entries[at];

        if (other->number != 0 || other->urgent || other->transfer == entry->transfer)
            break;
        at = other->previous;
    }
    return at;
}

static void link_behind(struct kvr_session_queue *queue, uint32_t index, uint32_t previous)
{
    struct kvr_queue_entry *entry = &queue->entries[index];
    uint32_t next = previous == NONE ? queue->first : queue->entries[previous].next;

    entry->previous = previous;
    entry->next = next;
    if (previous == NONE)
        queue->first = index;
    else
        queue->entries[previous].next = index;
    if (next == NONE)
        queue->last = index;
    else
        queue->entries[next].previous = index;
    if (queue->unsent == next)
        queue->unsent = index; /* everything before it has gone out */
}

kvr_status kvr_session_queue_add(struct kvr_session_queue *queue, const struct kvr_message *message)
{
    bool urgent = message->kind == KVR_MSG_CANCEL || message->kind == KVR_MSG_QUIET ||
                  message->kind == KVR_MSG_ROOM;
    struct kvr_queue_entry entry = {.transfer = message->transfer, .urgent = urgent};
    bool patient = kvr_message_patient(message->kind);
    uint32_t entries_kept = RESERVE_ENTRIES + (patient ? queue->entry_capacity / PATIENT_PART : 0);
    uint32_t bytes_kept = RESERVE_BYTES + (patient ? queue->byte_capacity / PATIENT_PART : 0);
    uint32_t index;

    if (!urgent && queue->entry_count + entries_kept >= queue->entry_capacity)
        return KVR_AGAIN;
    if (queue->entry_count == queue->entry_capacity)
        return KVR_AGAIN;
    KVR_TRY(encode(queue, message, &entry));
    if (!urgent && queue->entry_count > 0 && bytes_free(queue) < entry.bytes + bytes_kept)
        return KVR_AGAIN;

    index = (queue->entry_first + queue->entry_count) % queue->entry_capacity;
    queue->entries[index] = entry;
    queue->entry_count++;
    queue->byte_end = entry.offset + entry.bytes;
    link_behind(queue, index, place(queue, &entry));
    return KVR_OK;
}

bool kvr_session_queue_next(struct kvr_session_queue *queue, const uint8_t **ret_frame,
                            size_t *ret_bytes)
{
    struct kvr_queue_entry *entry;

    if (queue->unsent == NONE)
        return false;
    entry = &queue->entries[queue->unsent];
    if (entry->number == 0) {
        entry->number = ++queue->number;
        kvr_message_renumber(queue->bytes + entry->offset, entry->number);
    }
    *ret_frame = queue->bytes + entry->offset;
    *ret_bytes = entry->bytes;
    return true;
}

void kvr_session_queue_sent(struct kvr_session_queue *queue)
{
    queue->unsent = queue->entries[queue->unsent].next;
}

void kvr_session_queue_rewind(struct kvr_session_queue *queue)
{
    queue->unsent = queue->first;
}

/* ---- acknowledgement ---- */

static void drop_first(struct kvr_session_queue *queue)
{
    struct kvr_queue_entry *entry = &queue->entries[queue->first];

    if (queue->unsent == queue->first)
        queue->unsent = entry->next;
    queue->first = entry->next;
    if (queue->first == NONE)
        queue->last = NONE;
    else
        queue->entries[queue->first].previous = NONE;
    entry->acknowledged = true;
}

/* A queue that is never empty would walk through its whole memory, and take each page of it from
 * the system. */
static void gather(struct kvr_session_queue *queue)
{
    uint32_t start, used;

    if (queue->entry_count == 0) {
        queue->entry_first = queue->byte_end = 0;
        return;
    }
    start = byte_start(queue);
    if (queue->byte_end <= start || start < GATHER_BYTES)
        return;
    used = queue->byte_end - start;
    if (used > start / GATHER_PART)
        return;
    memcpy(queue->bytes, queue->bytes + start, used);
    for (uint32_t i = 0; i < queue->entry_count; i++)
        queue->entries[(queue->entry_first + i) % queue->entry_capacity].offset -= start;
    queue->byte_end = used;
}

bool kvr_session_queue_acknowledge(struct kvr_session_queue *queue, uint64_t seen)
{
    if (seen > queue->number || seen < queue->acknowledged)
        return false;
    queue->acknowledged = seen;
    while (queue->first != NONE && queue->entries[queue->first].number != 0 &&
           queue->entries[queue->first].number <= seen)
        drop_first(queue);
    while (queue->entry_count > 0 && queue->entries[queue->entry_first].acknowledged) {
        queue->entry_first = (queue->entry_first + 1) % queue->entry_capacity;
        queue->entry_count--;
    }
    gather(queue);
    return true;
}

bool kvr_session_queue_roomy(const struct kvr_session_queue *queue)
{
    return bytes_free(queue) >= queue->byte_capacity / 2 &&
           queue->entry_count <= queue->entry_capacity / 2;
}
