/* Goal: a viewer of the stream misses nothing without a resync, whatever it has seen before and
 * however slowly it reads; and what is kept for viewers is bounded.
 * Method: deltas with numbers as their text, and viewers that come, read and stay away. */
#include "tests/support/check.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/rng.h"
#include "scheduler/stream_book.h"

#define BEGIN 1000

static struct stream_book book;
static kvr_ns now;

static int setup(void **state)
{
    (void)state;
    now = 100 * KVR_S;
    stream_book_begin(&book, BEGIN);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    stream_book_end(&book);
    return 0;
}

#define IN_BOOK(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

/* A delta "<id> " with that id, or the next one. */
static int64_t put(int64_t wall_ns)
{
    int64_t id = stream_book_id(&book, wall_ns);
    char text[32];

    snprintf(text, sizeof(text), "%lld ", (long long)id);
    assert_true(stream_book_put(&book, id, strdup(text), strlen(text)));
    return id;
}

static void put_snapshot(void)
{
    char text[32];

    snprintf(text, sizeof(text), "all-%lld ", (long long)book.last);
    assert_true(stream_book_put_snapshot(&book, now, strdup(text), strlen(text)));
}

/* Everything that the viewer is sent, one letter at a time. */
static const char *read_all(struct stream_viewer *viewer)
{
    static char text[4096];
    size_t used = 0;

    while (stream_viewer_next(&book, viewer, now) == STREAM_SEND) {
        assert_true(used + 1 < sizeof(text));
        text[used++] = viewer->text->bytes[viewer->sent];
        stream_viewer_sent(viewer, 1, now);
    }
    text[used] = '\0';
    return text;
}

static void a_viewer_begins_with_a_snapshot(void **state)
{
    struct stream_viewer viewer;

    (void)state;
    stream_viewer_join(&book, &viewer, 0, now);
    assert_true(stream_viewer_waits_for_snapshot(&book, &viewer, now));
    assert_string_equal(read_all(&viewer), "");
    put(2000);
    assert_string_equal(read_all(&viewer), ""); /* a delta of it says nothing without one */
    put_snapshot();
    put(3000);
    assert_true(stream_viewer_has_news(&book, &viewer, now));
    assert_string_equal(read_all(&viewer), "all-2000 3000 ");
    assert_false(stream_viewer_has_news(&book, &viewer, now));
    put(4000);
    assert_string_equal(read_all(&viewer), "4000 ");
    assert_int_equal(book.resyncs, 0);
}

static void a_snapshot_serves_viewers_that_come_soon(void **state)
{
    struct stream_viewer viewer;

    (void)state;
    put_snapshot();
    now += STREAM_SNAPSHOT_LIFE;
    stream_viewer_join(&book, &viewer, 0, now);
    assert_string_equal(read_all(&viewer), "all-1000 ");
    now++;
    stream_viewer_join(&book, &viewer, 0, now);
    assert_true(stream_viewer_waits_for_snapshot(&book, &viewer, now));
}

static void a_viewer_that_comes_back_gets_the_gap(void **state)
{
    struct stream_viewer viewer;

    (void)state;
    put(2000), put(3000), put(4000);
    stream_viewer_join(&book, &viewer, 2000, now);
    assert_false(stream_viewer_waits_for_snapshot(&book, &viewer, now));
    assert_string_equal(read_all(&viewer), "3000 4000 ");
    stream_viewer_join(&book, &viewer, 3500, now); /* an id of another scheduler */
    assert_string_equal(read_all(&viewer), "4000 ");
    stream_viewer_join(&book, &viewer, 4000, now);
    assert_string_equal(read_all(&viewer), "");
    assert_int_equal(book.resyncs, 0);
}

/* From before the book, and from after its newest delta. */
static void a_viewer_with_another_id_is_told(void **state)
{
    struct stream_viewer viewer;

    (void)state;
    put(2000);
    put_snapshot();
    for (int i = 0; i < 2; i++) {
        stream_viewer_join(&book, &viewer, i == 0 ? BEGIN - 1 : 2001, now);
        assert_string_equal(read_all(&viewer), "event: resync\ndata: {}\n\nall-2000 ");
    }
    assert_int_equal(book.resyncs, 2);
}

static void a_viewer_that_reads_too_slowly_is_told(void **state)
{
    struct stream_viewer viewer;

    (void)state;
    put_snapshot();
    stream_viewer_join(&book, &viewer, 0, now);
    assert_int_equal(stream_viewer_next(&book, &viewer, now), STREAM_SEND);
    stream_viewer_sent(&viewer, 3, now);
    for (int i = 0; i < STREAM_DELTAS + 1; i++)
        put(0);
    put_snapshot();
    /* What was begun is ended. */
    assert_string_equal(read_all(&viewer), "-1000 event: resync\ndata: {}\n\nall-1065 ");
    assert_int_equal(book.count, STREAM_DELTAS);
    stream_viewer_leave(&viewer);
}

static void what_is_kept_is_bounded(void **state)
{
    size_t size = STREAM_BYTES_MAX / 4;

    (void)state;
    for (int i = 0; i < 6; i++) {
        assert_true(stream_book_put(&book, stream_book_id(&book, 0), calloc(1, size), size));
        assert_true(book.bytes <= STREAM_BYTES_MAX);
    }
    assert_int_equal(book.count, 4);
    assert_true(stream_book_put(&book, stream_book_id(&book, 0), calloc(1, 5 * size), 5 * size));
    assert_int_equal(book.count, 1); /* one that is larger is still sent */
}

static void without_memory_a_gap_is_a_gap(void **state)
{
    struct stream_viewer viewer;

    (void)state;
    put(2000);
    stream_viewer_join(&book, &viewer, 2000, now);
    assert_false(stream_book_put(&book, 3000, NULL, 9));
    assert_true(stream_viewer_waits_for_snapshot(&book, &viewer, now));
    put(4000);
    put_snapshot();
    assert_string_equal(read_all(&viewer), "event: resync\ndata: {}\n\nall-4000 ");
}

static void what_is_in_no_delta_is_told(void **state)
{
    struct stream_viewer viewer;

    (void)state;
    put(2000);
    put_snapshot();
    stream_viewer_join(&book, &viewer, 2000, now);
    stream_book_skip(&book, 3000);
    assert_true(stream_viewer_waits_for_snapshot(&book, &viewer, now));
    put_snapshot();
    assert_string_equal(read_all(&viewer), "event: resync\ndata: {}\n\nall-3000 ");
}

static void silence_is_broken_by_a_beat(void **state)
{
    struct stream_viewer viewer;

    (void)state;
    stream_viewer_join(&book, &viewer, BEGIN, now);
    now += STREAM_BEAT_NS - 1;
    assert_false(stream_viewer_has_news(&book, &viewer, now));
    now++;
    assert_true(stream_viewer_has_news(&book, &viewer, now));
    assert_string_equal(read_all(&viewer), "event: beat\ndata: {}\n\n");
    assert_string_equal(read_all(&viewer), "");
    stream_viewer_join(&book, &viewer, 0, now); /* nor is one forgotten that waits */
    now += STREAM_BEAT_NS;
    assert_string_equal(read_all(&viewer), "event: beat\ndata: {}\n\n");
}

static void ids_grow_also_when_the_clock_steps_back(void **state)
{
    (void)state;
    assert_int_equal(put(2000), 2000);
    assert_int_equal(put(1500), 2001);
    assert_int_equal(put(2001), 2002);
    assert_int_equal(put(9000), 9000);
}

/* Whatever is read when: each viewer ends with the newest state, and between two snapshots it has
 * seen every delta. */
static void no_delta_is_missed(void **state)
{
    struct stream_viewer viewers[8];
    int64_t has[8] = {0}; /* up to this delta; ids are 1000 + its number */
    struct kvr_rng rng;

    (void)state;
    kvr_rng_init(&rng, 7);
    for (int i = 0; i < 8; i++)
        stream_viewer_join(&book, &viewers[i], 0, now);
    for (int turn = 0; turn < 20000; turn++) {
        int i = (int)kvr_rng_below(&rng, 8);
        long long id;

        now += KVR_MS;
        if (kvr_rng_percent(&rng, 30))
            put(0);
        if (kvr_rng_percent(&rng, 5))
            put_snapshot();
        if (i == 0 && kvr_rng_percent(&rng, 95))
            continue; /* one is slow */
        if (kvr_rng_percent(&rng, 2)) {
            stream_viewer_leave(&viewers[i]);
            stream_viewer_join(&book, &viewers[i], has[i], now);
        }
        if (stream_viewer_next(&book, &viewers[i], now) != STREAM_SEND)
            continue;
        if (sscanf(viewers[i].text->bytes, "all-%lld", &id) == 1) {
            assert_true(id >= has[i]);
            has[i] = id;
        } else if (sscanf(viewers[i].text->bytes, "%lld", &id) == 1) {
            assert_int_equal(id, has[i] + 1);
            has[i] = id;
        }
        stream_viewer_sent(&viewers[i], viewers[i].text->size, now);
    }
    assert_true(book.resyncs > 0);
    put_snapshot();
    for (int i = 0; i < 8; i++) {
        (void)read_all(&viewers[i]);
        assert_int_equal(viewers[i].seen, book.last);
        stream_viewer_leave(&viewers[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_BOOK(a_viewer_begins_with_a_snapshot),
        IN_BOOK(a_snapshot_serves_viewers_that_come_soon),
        IN_BOOK(a_viewer_that_comes_back_gets_the_gap),
        IN_BOOK(a_viewer_with_another_id_is_told),
        IN_BOOK(a_viewer_that_reads_too_slowly_is_told),
        IN_BOOK(what_is_kept_is_bounded),
        IN_BOOK(without_memory_a_gap_is_a_gap),
        IN_BOOK(what_is_in_no_delta_is_told),
        IN_BOOK(silence_is_broken_by_a_beat),
        IN_BOOK(ids_grow_also_when_the_clock_steps_back),
        IN_BOOK(no_delta_is_missed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
