/* What the stream sends to each of its viewers next.
 *
 * A delta is put once, as the text of one event with its id, and every viewer reads it from there.
 * The last STREAM_DELTAS are kept, of at most STREAM_BYTES_MAX. A viewer begins with a snapshot,
 * and goes on with the deltas behind its id. A viewer that comes back with the last id that it saw
 * gets the deltas since then. Where these are gone, also for a viewer that reads too slowly, it
 * gets the event `resync` and a snapshot. A viewer that would hear nothing for STREAM_BEAT_NS gets
 * the event `beat`.
 *
 * Ids are times in nanoseconds, made to grow: of the wall clock, or of the database's where several
 * schedulers share one. Another scheduler's are comparable.
 * Pure; the owner has a lock. */
#ifndef KVR_SCHEDULER_STREAM_BOOK_H
#define KVR_SCHEDULER_STREAM_BOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"

#define STREAM_DELTAS        64
#define STREAM_BYTES_MAX     ((size_t)4 << 20)
#define STREAM_BEAT_NS       (5 * KVR_S)
#define STREAM_SNAPSHOT_LIFE KVR_S /* for other viewers that come */

/* Counted by its users: the book, and each viewer that is reading it. */
struct stream_text {
    uint32_t users;
    size_t size;
    char *bytes; /* from malloc */
};

struct stream_book {
    int64_t last; /* the id of the newest delta, or where the book began */
    struct stream_delta {
        int64_t id, before; /* before: the id of the delta before it */
        struct stream_text *text;
    } deltas[STREAM_DELTAS];
    uint32_t first, count;
    size_t bytes; /* of all deltas */
    struct stream_text *snapshot;
    int64_t snapshot_id; /* deltas behind this id follow it */
    kvr_ns snapshot_at;
    uint64_t resyncs;
};

struct stream_viewer {
    int64_t seen; /* it has everything up to this id */
    bool wants_snapshot, resync;
    kvr_ns sent_at;
    struct stream_text *text; /* under way; NULL: none */
    size_t sent;              /* bytes of it */
};

typedef enum stream_step {
    STREAM_SEND,  /* viewer->text, from viewer->sent on */
    STREAM_AWAIT, /* a delta, a snapshot or a beat */
} stream_step;

void stream_book_begin(struct stream_book *book, int64_t wall_ns);
void stream_book_end(struct stream_book *book);
/* Of a delta that is made at that time. */
int64_t stream_book_id(const struct stream_book *book, int64_t wall_ns);
/* Takes bytes over: from malloc. False: no memory, and viewers get a snapshot instead. */
bool stream_book_put(struct stream_book *book, int64_t id, char *bytes, size_t size);
/* What changed up to that id is in no delta: every viewer gets `resync` and a snapshot. */
void stream_book_skip(struct stream_book *book, int64_t id);
/* A snapshot that holds everything up to the last id. */
bool stream_book_put_snapshot(struct stream_book *book, kvr_ns now, char *bytes, size_t size);

/* last_id: that the viewer saw; 0: none. */
void stream_viewer_join(const struct stream_book *book, struct stream_viewer *viewer,
                        int64_t last_id, kvr_ns now);
/* Without a snapshot that is fresh enough, it waits. */
bool stream_viewer_waits_for_snapshot(const struct stream_book *book,
                                      const struct stream_viewer *viewer, kvr_ns now);
/* A paused viewer has something to send. */
bool stream_viewer_has_news(const struct stream_book *book, const struct stream_viewer *viewer,
                            kvr_ns now);
stream_step stream_viewer_next(struct stream_book *book, struct stream_viewer *viewer, kvr_ns now);
/* So many bytes of viewer->text were sent. */
void stream_viewer_sent(struct stream_viewer *viewer, size_t bytes, kvr_ns now);
void stream_viewer_leave(struct stream_viewer *viewer);

#endif
