/* What a session has to send and has sent but not seen acknowledged: encoded frames in the order in
 * which they go out. Pure; inside of session.c.
 *
 *   first ─▶ sent, numbered ─▶ … ─▶ unsent ─▶ numbered, to be sent again ─▶ not numbered yet ─▶
 * last
 *
 * A frame is numbered when it first goes out. Before that, an urgent frame (CANCEL, QUIET, ROOM) is
 * put before the frames of other transfers, but behind urgent ones and those of its own transfer.
 *
 * Messages that can wait (kvr_message_patient) leave a quarter of the room to those that cannot.
 *
 * Frames lie in one ring of bytes, in the order in which they were added. One that is acknowledged
 * out of that order leaves a hole until the older ones have gone too. A few frames far behind the
 * beginning move there, so that a queue uses no more memory than its longest backlog. */
#ifndef KVR_WIRE_SESSION_QUEUE_H
#define KVR_WIRE_SESSION_QUEUE_H

#include "wire/message.h"

#define KVR_QUEUE_NONE UINT32_MAX

struct kvr_queue_entry {
    uint64_t transfer;
    uint64_t number;           /* 0: not numbered yet */
    uint32_t offset, bytes;    /* in the ring */
    uint32_t previous, next;   /* in the order of sending */
    bool urgent, acknowledged; /* acknowledged: only waits for older ones to go */
};

struct kvr_session_queue {
    struct kvr_queue_entry *entries; /* a ring in the order of adding */
    uint32_t entry_capacity, entry_first, entry_count;
    uint8_t *bytes;
    uint32_t byte_capacity, byte_end;
    uint32_t first, last, unsent; /* order of sending; KVR_QUEUE_NONE */
    uint64_t number;              /* the last one given */
    uint64_t acknowledged;        /* up to here the peer has seen */
};

size_t kvr_session_queue_bytes(uint32_t byte_capacity, uint32_t entry_capacity);
void kvr_session_queue_init(struct kvr_session_queue *queue, void *memory, uint32_t byte_capacity,
                            uint32_t entry_capacity);
/* KVR_AGAIN: no room now. KVR_TOO_LARGE, KVR_INVALID, KVR_NO_MEMORY: from encoding. */
KVR_MUST_CHECK kvr_status kvr_session_queue_add(struct kvr_session_queue *queue,
                                                const struct kvr_message *message);
/* The next frame to send, numbered; false: none. It stays the next until sent(). */
bool kvr_session_queue_next(struct kvr_session_queue *queue, const uint8_t **ret_frame,
                            size_t *ret_bytes);
void kvr_session_queue_sent(struct kvr_session_queue *queue);
/* A new connection: everything that is not acknowledged goes out again. */
void kvr_session_queue_rewind(struct kvr_session_queue *queue);
/* The peer has seen everything up to `seen`. false: it cannot have, or said more before. */
bool kvr_session_queue_acknowledge(struct kvr_session_queue *queue, uint64_t seen);

/* A good part of it is free again: worth telling. */
bool kvr_session_queue_roomy(const struct kvr_session_queue *queue);

#endif
