/* Live news for open pages: GET /api/v1/stream, as server-sent events.
 *
 *   event     data
 *   snapshot  {"summary":…, "agents":[…], "transfers":[…]}: the newest CHANGES_MAX transfers
 *   delta     what has changed since: "transfers", "transfers_gone" (merged into others),
 *             "transfers_left_out"; about once a second "summary", "agents", "agents_gone"
 *   resync    {}: news were lost on the way, and a snapshot follows
 *   beat      {}: nothing has happened for 5 s
 *
 * summary is /api/v1/summary without "reasons", a transfer as /api/v1/transfers has it, an agent a
 * short form of that of /api/v1/agents. The ids of snapshots and deltas are for Last-Event-ID.
 * stream_book.h decides what a viewer gets; a thread makes the texts, at most every STREAM_DELTA_NS
 * and only while there are viewers, or were a minute ago. */
#ifndef KVR_SCHEDULER_STREAM_H
#define KVR_SCHEDULER_STREAM_H

#include <sys/types.h>

#include "scheduler/stream_book.h"
#include "scheduler/stream_text.h"

#define STREAM_DELTA_NS    (250 * KVR_MS)
#define STREAM_VIEWERS_MAX 200

struct stream;
struct stream_seat; /* of one viewer */

/* `pause` is called by stream_read, `wake` by any thread afterwards, both under the stream's lock.
 */
struct stream_owner {
    void (*pause)(void *self), (*wake)(void *self);
    void *self;
};

KVR_MUST_CHECK kvr_status stream_start(const struct stream_parts *parts, struct stream **ret_stream,
                                       struct kvr_error *error);
/* Ends the thread. Viewers that are paused are woken; they and all others read STREAM_ENDED. */
void stream_stop(struct stream *stream);
struct stream *stream_close(struct stream *stream); /* after stream_stop; returns NULL */

/* last_id: that the viewer has seen; 0: none. NULL: there are STREAM_VIEWERS_MAX, it is stopping,
 * or there is no memory. */
struct stream_seat *stream_join(struct stream *stream, int64_t last_id,
                                const struct stream_owner *owner);
void stream_leave(struct stream *stream, struct stream_seat *seat);

#define STREAM_ENDED (-1)
/* Copies the next bytes. 0: nothing yet; owner->pause was called. */
ssize_t stream_read(struct stream *stream, struct stream_seat *seat, char *buffer, size_t room);

struct stream_counts {
    uint32_t viewers;
    uint64_t resyncs, refused;
};
struct stream_counts stream_counts(struct stream *stream); /* any thread */

#endif
