#include "scheduler/stream_book.h"

#include <stdlib.h>
#include <string.h>

static const char resync_event[] = "event: resync\ndata: {}\n\n";
static const char beat_event[] = "event: beat\ndata: {}\n\n";

/* ---- texts ---- */

/* NULL: no memory; then bytes are freed. */
static struct stream_text *text_make(char *bytes, size_t size)
{
    struct stream_text *text = bytes != NULL ? malloc(sizeof(*text)) : NULL;

    if (text == NULL)
        free(bytes);
    else
        *text = (struct stream_text){.users = 1, .size = size, .bytes = bytes};
    return text;
}

static struct stream_text *text_share(struct stream_text *text)
{
    text->users++;
    return text;
}

static void text_drop(struct stream_text *text)
{
    if (text == NULL || --text->users > 0)
        return;
    free(text->bytes);
    free(text);
}

/* ---- the book ---- */

void stream_book_begin(struct stream_book *book, int64_t wall_ns)
{
    *book = (struct stream_book){.last = wall_ns};
}

static struct stream_delta *delta_at(const struct stream_book *book, uint32_t place)
{
    return (struct stream_delta *)&book->deltas[(book->first + place) % STREAM_DELTAS];
}

static void drop_oldest(struct stream_book *book)
{
    struct stream_delta *oldest = delta_at(book, 0);

    book->bytes -= oldest->text->size;
    text_drop(oldest->text);
    book->first = (book->first + 1) % STREAM_DELTAS;
    book->count--;
}

void stream_book_end(struct stream_book *book)
{
    while (book->count > 0)
        drop_oldest(book);
    text_drop(book->snapshot);
    book->snapshot = NULL;
}

int64_t stream_book_id(const struct stream_book *book, int64_t wall_ns)
{
    return wall_ns > book->last ? wall_ns : book->last + 1;
}

void stream_book_skip(struct stream_book *book, int64_t id)
{
    book->last = id;
    while (book->count > 0)
        drop_oldest(book);
}

bool stream_book_put(struct stream_book *book, int64_t id, char *bytes, size_t size)
{
    struct stream_text *text = text_make(bytes, size);
    int64_t before = book->last;

    if (text == NULL) {
        stream_book_skip(book, id);
        return false;
    }
    book->last = id;
    while (book->count == STREAM_DELTAS ||
           (book->count > 0 && book->bytes + size > STREAM_BYTES_MAX))
        drop_oldest(book);
    *delta_at(book, book->count++) = (struct stream_delta){id, before, text};
    book->bytes += size;
    return true;
}

bool stream_book_put_snapshot(struct stream_book *book, kvr_ns now, char *bytes, size_t size)
{
    text_drop(book->snapshot);
    book->snapshot = text_make(bytes, size);
    book->snapshot_id = book->last;
    book->snapshot_at = now;
    return book->snapshot != NULL;
}

/* All deltas behind that id are here. */
static bool follows(const struct stream_book *book, int64_t id)
{
    return book->count == 0 ? id == book->last
                            : id >= delta_at(book, 0)->before && id <= book->last;
}

/* ---- a viewer ---- */

void stream_viewer_join(const struct stream_book *book, struct stream_viewer *viewer,
                        int64_t last_id, kvr_ns now)
{
    bool follow = last_id != 0 && follows(book, last_id);

    *viewer = (struct stream_viewer){.seen = last_id,
                                     .wants_snapshot = !follow,
                                     .resync = !follow && last_id != 0,
                                     .sent_at = now};
}

static bool snapshot_serves(const struct stream_book *book, kvr_ns now)
{
    return book->snapshot != NULL && now <= book->snapshot_at + STREAM_SNAPSHOT_LIFE &&
           follows(book, book->snapshot_id);
}

static bool needs_snapshot(const struct stream_book *book, const struct stream_viewer *viewer)
{
    return viewer->wants_snapshot || !follows(book, viewer->seen);
}

bool stream_viewer_waits_for_snapshot(const struct stream_book *book,
                                      const struct stream_viewer *viewer, kvr_ns now)
{
    return viewer->text == NULL && needs_snapshot(book, viewer) && !snapshot_serves(book, now);
}

bool stream_viewer_has_news(const struct stream_book *book, const struct stream_viewer *viewer,
                            kvr_ns now)
{
    if (viewer->text != NULL || viewer->resync || now >= viewer->sent_at + STREAM_BEAT_NS)
        return true;
    return needs_snapshot(book, viewer) ? snapshot_serves(book, now) : book->last > viewer->seen;
}

static stream_step send(struct stream_viewer *viewer, struct stream_text *text)
{
    viewer->text = text;
    viewer->sent = 0;
    return text != NULL ? STREAM_SEND : STREAM_AWAIT;
}

static stream_step send_words(struct stream_viewer *viewer, const char *words)
{
    return send(viewer, text_make(strdup(words), strlen(words)));
}

static stream_step await(struct stream_viewer *viewer, kvr_ns now)
{
    return now >= viewer->sent_at + STREAM_BEAT_NS ? send_words(viewer, beat_event) : STREAM_AWAIT;
}

static stream_step next_delta(struct stream_book *book, struct stream_viewer *viewer, kvr_ns now)
{
    for (uint32_t i = 0; i < book->count; i++) {
        const struct stream_delta *delta = delta_at(book, i);

        if (delta->id <= viewer->seen)
            continue;
        viewer->seen = delta->id;
        return send(viewer, text_share(delta->text));
    }
    return await(viewer, now);
}

stream_step stream_viewer_next(struct stream_book *book, struct stream_viewer *viewer, kvr_ns now)
{
    if (viewer->text != NULL)
        return STREAM_SEND;
    if (!viewer->wants_snapshot && !follows(book, viewer->seen))
        viewer->wants_snapshot = viewer->resync = true;
    if (!viewer->wants_snapshot)
        return next_delta(book, viewer, now);
    if (viewer->resync) {
        viewer->resync = false;
        book->resyncs++;
        return send_words(viewer, resync_event);
    }
    if (!snapshot_serves(book, now))
        return await(viewer, now);
    viewer->wants_snapshot = false;
    viewer->seen = book->snapshot_id;
    return send(viewer, text_share(book->snapshot));
}

void stream_viewer_sent(struct stream_viewer *viewer, size_t bytes, kvr_ns now)
{
    viewer->sent += bytes;
    viewer->sent_at = now;
    if (viewer->sent < viewer->text->size)
        return;
    text_drop(viewer->text);
    viewer->text = NULL;
}

void stream_viewer_leave(struct stream_viewer *viewer)
{
    text_drop(viewer->text);
    viewer->text = NULL;
}
