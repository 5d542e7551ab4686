#include "scheduler/stream.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread.h"

#define LINGER_NS (60 * KVR_S) /* after the last viewer has left: it may come back */

struct stream_seat {
    struct stream_seat *next, *previous;
    struct stream_viewer viewer;
    struct stream_owner owner;
    bool paused;
};

struct stream {
    struct stream_writer *writer; /* the thread's */
    struct changes *changes;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t change;
    bool stopping; /* by lock, as all below */
    struct stream_book book;
    struct stream_seat *first;
    uint32_t count;
    uint64_t refused;
    bool following;      /* deltas are made */
    kvr_ns nobody_since; /* where there is no viewer */
};

/* ---- viewers ---- */

struct stream_seat *stream_join(struct stream *stream, int64_t last_id,
                                const struct stream_owner *owner)
{
    struct stream_seat *seat = NULL;

    pthread_mutex_lock(&stream->lock);
    if (!stream->stopping && stream->count < STREAM_VIEWERS_MAX)
        seat = calloc(1, sizeof(*seat));
    if (seat == NULL) {
        stream->refused++;
    } else {
        seat->owner = *owner;
        stream_viewer_join(&stream->book, &seat->viewer, last_id, kvr_clock_now());
        seat->next = stream->first;
        if (seat->next != NULL)
            seat->next->previous = seat;
        stream->first = seat;
        stream->count++;
        pthread_cond_signal(&stream->change);
    }
    pthread_mutex_unlock(&stream->lock);
    return seat;
}

void stream_leave(struct stream *stream, struct stream_seat *seat)
{
    pthread_mutex_lock(&stream->lock);
    if (seat->next != NULL)
        seat->next->previous = seat->previous;
    if (seat->previous != NULL)
        seat->previous->next = seat->next;
    else
        stream->first = seat->next;
    stream->count--;
    stream->nobody_since = kvr_clock_now();
    stream_viewer_leave(&seat->viewer);
    pthread_mutex_unlock(&stream->lock);
    free(seat);
}

ssize_t stream_read(struct stream *stream, struct stream_seat *seat, char *buffer, size_t room)
{
    struct stream_viewer *viewer = &seat->viewer;
    kvr_ns now = kvr_clock_now();
    ssize_t size = 0;

    pthread_mutex_lock(&stream->lock);
    if (stream->stopping) {
        size = STREAM_ENDED;
    } else if (stream_viewer_next(&stream->book, viewer, now) == STREAM_SEND) {
        size_t left = viewer->text->size - viewer->sent;

        size = (ssize_t)(left < room ? left : room);
        memcpy(buffer, viewer->text->bytes + viewer->sent, (size_t)size);
        stream_viewer_sent(viewer, (size_t)size, now);
    } else {
        seat->paused = true;
        seat->owner.pause(seat->owner.self);
    }
    pthread_mutex_unlock(&stream->lock);
    return size;
}

struct stream_counts stream_counts(struct stream *stream)
{
    struct stream_counts counts;

    pthread_mutex_lock(&stream->lock);
    counts = (struct stream_counts){stream->count, stream->book.resyncs, stream->refused};
    pthread_mutex_unlock(&stream->lock);
    return counts;
}

/* By lock. */
static void wake_all(struct stream *stream)
{
    kvr_ns now = kvr_clock_now();

    for (struct stream_seat *seat = stream->first; seat != NULL; seat = seat->next) {
        if (!seat->paused ||
            (!stream->stopping && !stream_viewer_has_news(&stream->book, &seat->viewer, now)))
            continue;
        seat->paused = false;
        seat->owner.wake(seat->owner.self);
    }
}

/* ---- the thread ---- */

/* Of a delta that is made now. Where schedulers share a database, an id says up to when all that
 * they have committed is in it, so that a viewer can go on at another one. */
static int64_t next_id(struct stream *stream)
{
    int64_t until_ns = changes_until(stream->changes);

    return stream_book_id(&stream->book, until_ns != 0 ? until_ns : (int64_t)kvr_clock_wall());
}

/* Deltas are made from now on, or not any more. By lock. */
static void follow(struct stream *stream, bool following)
{
    stream->following = following;
    changes_want(stream->changes, following);
    if (following) {
        stream_writer_begin(stream->writer);
        stream->book.last = next_id(stream);
    } else {
        stream_book_end(&stream->book);
    }
}

/* False: it is stopping. Waits for the next turn, or without viewers for one. */
static bool await_turn(struct stream *stream)
{
    kvr_ns now = kvr_clock_now(), at = now + STREAM_DELTA_NS;
    struct timespec until;

    if (stream->following && stream->count == 0 && now >= stream->nobody_since + LINGER_NS)
        follow(stream, false);
    while (!stream->stopping && stream->count == 0 && !stream->following)
        pthread_cond_wait(&stream->change, &stream->lock);
    if (!stream->following && !stream->stopping) {
        follow(stream, true);
        return true;
    }
    until = (struct timespec){.tv_sec = (time_t)(at / KVR_S), .tv_nsec = (long)(at % KVR_S)};
    while (!stream->stopping && kvr_clock_now() < at)
        pthread_cond_timedwait(&stream->change, &stream->lock, &until);
    return !stream->stopping;
}

static bool any_waits_for_snapshot(struct stream *stream, kvr_ns now)
{
    for (struct stream_seat *seat = stream->first; seat != NULL; seat = seat->next)
        if (stream_viewer_waits_for_snapshot(&stream->book, &seat->viewer, now))
            return true;
    return false;
}

/* The texts are made without the lock: only this thread changes the book. */
static void make_news(struct stream *stream)
{
    int64_t id = next_id(stream);
    size_t size = 0;
    char *text;
    bool wanted, lost = changes_were_lost(stream->changes);

    pthread_mutex_unlock(&stream->lock);
    text = stream_writer_delta(stream->writer, id, &size);
    pthread_mutex_lock(&stream->lock);
    if (lost) {
        free(text); /* a snapshot has it */
        stream_book_skip(&stream->book, id);
    } else if (text != NULL) {
        (void)stream_book_put(&stream->book, id, text, size);
    }
    wanted = any_waits_for_snapshot(stream, kvr_clock_now());
    id = stream->book.last;
    if (!wanted)
        return;
    pthread_mutex_unlock(&stream->lock);
    text = stream_writer_snapshot(stream->writer, id, &size);
    pthread_mutex_lock(&stream->lock);
    if (text != NULL)
        (void)stream_book_put_snapshot(&stream->book, kvr_clock_now(), text, size);
}

static void *stream_main(void *self)
{
    struct stream *stream = self;

    pthread_mutex_lock(&stream->lock);
    while (await_turn(stream)) {
        make_news(stream);
        wake_all(stream);
    }
    wake_all(stream);
    pthread_mutex_unlock(&stream->lock);
    return NULL;
}

/* ---- start and stop ---- */

kvr_status stream_start(const struct stream_parts *parts, struct stream **ret_stream,
                        struct kvr_error *error)
{
    struct stream *stream = calloc(1, sizeof(*stream));
    int failed;

    if (stream == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "stream", "no memory for the stream");
    pthread_mutex_init(&stream->lock, NULL);
    kvr_condition_init(&stream->change);
    stream->changes = parts->changes;
    stream_book_begin(&stream->book, (int64_t)kvr_clock_wall());
    stream->writer = stream_writer_open(parts);
    if (stream->writer == NULL) {
        stream_close(stream);
        return kvr_error_set(error, KVR_NO_MEMORY, "stream", "no memory for the stream");
    }
    failed = kvr_thread_start("stream", stream_main, stream, &stream->thread);
    if (failed != 0) {
        stream_close(stream);
        return kvr_error_system(error, "stream", failed, "no thread for the stream");
    }
    *ret_stream = stream;
    return KVR_OK;
}

void stream_stop(struct stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    stream->stopping = true;
    pthread_cond_signal(&stream->change);
    pthread_mutex_unlock(&stream->lock);
    pthread_join(stream->thread, NULL);
}

struct stream *stream_close(struct stream *stream)
{
    if (stream == NULL)
        return NULL;
    stream_book_end(&stream->book);
    stream_writer_close(stream->writer);
    pthread_cond_destroy(&stream->change);
    pthread_mutex_destroy(&stream->lock);
    free(stream);
    return NULL;
}
