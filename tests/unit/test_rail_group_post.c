/* Goal: writes are posted as far as the window goes, shared fairly among rails and peers, and never
 * left without a doorbell. Method: as in test_rail_group.c. */
#include "tests/support/check.h"

#include "tests/support/fake_group.h"

static void group_keeps_its_window(void **state)
{
    struct group_fixture fixture;
    struct kvr_pair pair;
    unsigned accepted = 0;

    (void)state;
    fixture_open(&fixture, 2, 8, 64);
    peer_add(&fixture, 0, 2);
    while (post(&fixture, 0, &pair) == KVR_OK)
        accepted++;
    /* A single peer has three quarters of each rail's writes. */
    assert_int_equal(accepted, 12);
    assert_int_equal(kvr_group_outstanding(fixture.group), 12);
    assert_int_equal(post(&fixture, 0, &pair), KVR_AGAIN);
    finish(fixture.rails[1].newest, 3, KVR_OK);
    assert_true(kvr_group_step(fixture.group, 2));
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
    assert_int_equal(pair.rail, 1);
    assert_int_equal(post(&fixture, 0, &pair), KVR_AGAIN);
    assert_int_equal(kvr_group_counters(fixture.group, 1).writes, 7);
    assert_int_equal(kvr_group_counters(fixture.group, 1).in_flight, 6);
    assert_int_equal(kvr_group_counters(fixture.group, 1).bytes, 700);
    assert_false(kvr_group_step(fixture.group, 3));
    kvr_group_close(fixture.group);
}

/* The next transfer to a peer waits for the bytes in flight to that peer. */
static void group_keeps_half_of_its_bytes(void **state)
{
    struct group_fixture fixture;
    struct kvr_pair pair;
    unsigned accepted[2] = {0};

    (void)state;
    fixture_open_as(&fixture, &(struct kvr_group_options){
                                  .rail_count = 1, .window_writes = 64, .window_bytes = 24 * 4096});
    peer_add(&fixture, 0, 1);
    peer_add(&fixture, 1, 1);
    for (uint32_t peer = 0; peer < 2; peer++)
        while (post_bytes(&fixture, peer, 4096, false, &pair) == KVR_OK)
            accepted[peer]++;
    assert_int_equal(accepted[0], 12);
    assert_int_equal(accepted[1], 6); /* half of the remaining writes */
    kvr_group_close(fixture.group);
}

static void group_gives_a_slow_rail_less(void **state)
{
    struct group_fixture fixture;
    struct kvr_pair pair;
    unsigned on[2] = {0};

    (void)state;
    fixture_open(&fixture, 2, 0, 64);
    peer_add(&fixture, 0, 2);
    for (unsigned i = 0; i < 400; i++) {
        if (post(&fixture, 0, &pair) == KVR_OK)
            on[pair.rail]++;
        finish_all(fixture.rails[0].newest); /* rail 1 completes every tenth round */
        if (i % 10 == 0)
            finish_all(fixture.rails[1].newest);
        kvr_group_step(fixture.group, 2 + i);
    }
    assert_true(on[0] > 4 * on[1]);
    assert_true(on[1] > 10);
    kvr_group_close(fixture.group);
}

static void group_rings_the_doorbell_at_the_end(void **state)
{
    struct group_fixture fixture;
    struct kvr_pair pair;
    unsigned unrung = 0;
    struct kvr_endpoint *endpoint;

    (void)state;
    fixture_open(&fixture, 2, 0, 64);
    peer_add(&fixture, 0, 2);
    for (unsigned i = 0; i < 40; i++)
        assert_int_equal(post_bytes(&fixture, 0, 100, i != 39, &pair), KVR_OK);
    for (unsigned r = 0; r < 2; r++) {
        endpoint = fixture.rails[r].newest;
        assert_true(endpoint->write_count > 0);
        assert_false(endpoint->writes[endpoint->write_count - 1].more);
        for (unsigned i = 0; i < endpoint->write_count; i++)
            unrung += endpoint->writes[i].more;
    }
    assert_int_equal(unrung, 38); /* one doorbell a batch of 32, one for the rest */
    /* The window's end is a batch's end. */
    while (post_bytes(&fixture, 0, 100, true, &pair) == KVR_OK)
        ;
    for (unsigned r = 0; r < 2; r++) {
        endpoint = fixture.rails[r].newest;
        assert_false(endpoint->writes[endpoint->write_count - 1].more);
    }
    kvr_group_close(fixture.group);
    /* AGAIN in the middle of a batch: tried at once without `more`. */
    fixture_open(&fixture, 1, 0, 64);
    peer_add(&fixture, 0, 1);
    assert_int_equal(post_bytes(&fixture, 0, 100, true, &pair), KVR_OK);
    endpoint = fixture.rails[0].newest;
    endpoint->again_once = 1;
    assert_int_equal(post_bytes(&fixture, 0, 100, true, &pair), KVR_OK);
    assert_int_equal(endpoint->write_count, 2);
    assert_false(endpoint->writes[1].more);
    kvr_group_close(fixture.group);
}

/* Writes that count on a later doorbell are rung before others go over another rail. */
static void group_rings_after_a_refusal(void **state)
{
    struct group_fixture fixture;
    struct kvr_pair pair;
    struct kvr_endpoint *endpoint;

    (void)state;
    fixture_open(&fixture, 2, 0, 64);
    peer_add(&fixture, 0, 2);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(post_bytes(&fixture, 0, 100, false, &pair), KVR_OK);
    assert_int_equal(post_bytes(&fixture, 0, 50, true, &pair), KVR_OK);
    endpoint = fixture.rails[pair.rail].newest;
    endpoint->again_once = 2; /* the next of the batch, and its doorbell */
    assert_int_equal(post_bytes(&fixture, 0, 50, true, &pair), KVR_AGAIN);
    assert_int_equal(endpoint->write_count, 2);
    finish(endpoint, 0, KVR_OK); /* room for one write, and no more */
    kvr_group_step(fixture.group, KVR_S);
    assert_int_equal(post_bytes(&fixture, 0, 50, true, &pair), KVR_OK);
    assert_int_equal(endpoint->write_count, 2);
    assert_false(endpoint->writes[1].more);
    kvr_group_close(fixture.group);
    /* A rail that refuses for ever does not hold the other one. */
    fixture_open(&fixture, 2, 0, 64);
    peer_add(&fixture, 0, 2);
    assert_int_equal(post_bytes(&fixture, 0, 100, true, &pair), KVR_OK);
    endpoint = fixture.rails[pair.rail].newest;
    endpoint->next_write = KVR_AGAIN;
    for (unsigned i = 0; i < 100; i++) {
        kvr_group_step(fixture.group, KVR_S + i * KVR_MS);
        (void)post_bytes(&fixture, 0, 100, true, &pair);
    }
    assert_true(fixture.rails[0].newest->write_count + fixture.rails[1].newest->write_count > 40);
    kvr_group_close(fixture.group);
}

static void group_one_dead_peer_starves_nobody(void **state)
{
    struct group_fixture fixture;
    struct kvr_pair pair;
    struct kvr_endpoint *endpoint;
    unsigned living = 0;
    uint64_t again;

    (void)state;
    fixture_open(&fixture, 1, 16, 64);
    peer_add(&fixture, 0, 1);
    peer_add(&fixture, 1, 1);
    endpoint = fixture.rails[0].newest;
    /* Peer 0 takes what it can and never completes. */
    while (post(&fixture, 0, &pair) == KVR_OK)
        ;
    for (unsigned i = 0; i < 100; i++) {
        while (post(&fixture, 1, &pair) == KVR_OK)
            living++;
        finish(endpoint, endpoint->write_count - 1, KVR_OK);
        kvr_group_step(fixture.group, 10 + i);
    }
    assert_true(living >= 100);
    /* Peer 0 answers AGAIN for ever: it is tried rarely, although others complete all the time. */
    while (endpoint->write_count > 0)
        finish(endpoint, 0, KVR_OK);
    kvr_group_step(fixture.group, 200);
    endpoint->dead_peer = 1;
    again = kvr_group_counters(fixture.group, 0).again;
    for (unsigned i = 0; i < 10000; i++) {
        assert_int_equal(post(&fixture, 0, &pair), KVR_AGAIN);
        assert_int_equal(post(&fixture, 1, &pair), KVR_OK);
        finish(endpoint, 0, KVR_OK);
        kvr_group_step(fixture.group, 300 + i * KVR_US); /* 10 ms in all */
    }
    again = kvr_group_counters(fixture.group, 0).again - again;
    assert_true(again > 5 && again < 20);
    /* And it is tried again in time, without any other work. */
    assert_true(kvr_group_wake_at(fixture.group, KVR_S, KVR_US) <= KVR_S + KVR_GROUP_IDLE_POLL_NS);
    endpoint->dead_peer = 0;
    kvr_group_step(fixture.group, 2 * KVR_S);
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
    kvr_group_close(fixture.group);
}

/* Two links wait, each until its own time. The first link's time passes without an event of the
 * other. */
static void group_wakes_every_link_that_waits(void **state)
{
    struct group_fixture fixture;
    struct kvr_pair pair;
    struct kvr_endpoint *endpoint;

    (void)state;
    fixture_open(&fixture, 1, 16, 64);
    peer_add(&fixture, 0, 1);
    peer_add(&fixture, 1, 1);
    endpoint = fixture.rails[0].newest;
    kvr_group_step(fixture.group, KVR_S);
    endpoint->again_once = 2;
    assert_int_equal(post(&fixture, 0, &pair), KVR_AGAIN);
    kvr_group_step(fixture.group, KVR_S + 30 * KVR_US);
    assert_int_equal(post(&fixture, 1, &pair), KVR_AGAIN);
    assert_true(kvr_group_wake_at(fixture.group, KVR_S, KVR_S) == KVR_S + 50 * KVR_US);
    kvr_group_step(fixture.group, KVR_S + 50 * KVR_US);
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
    assert_int_equal(post(&fixture, 1, &pair), KVR_AGAIN);
    assert_true(kvr_group_wake_at(fixture.group, KVR_S + 50 * KVR_US, KVR_S) ==
                KVR_S + 80 * KVR_US);
    kvr_group_step(fixture.group, KVR_S + 80 * KVR_US);
    assert_int_equal(post(&fixture, 1, &pair), KVR_OK);
    kvr_group_close(fixture.group);
}

/* The fake card takes four runs of bytes at either end: here seven pieces make four at each. */
static void group_counts_pieces_that_touch_once(void **state)
{
    struct kvr_group_piece pieces[7];
    struct kvr_group_post post = {.pieces = pieces, .piece_count = 7};
    uint64_t local = 0, remote = 0;
    struct group_fixture fixture;
    struct kvr_pair pair;

    (void)state;
    fixture_open(&fixture, 1, 0, 64);
    peer_add(&fixture, 0, 1);
    for (unsigned i = 0; i < 7; i++) {
        pieces[i] =
            (struct kvr_group_piece){&fixture.local, &fixture.remote, local, remote, 10, NULL};
        local += i % 2 == 0 ? 20 : 10;
        remote += i % 2 == 0 ? 10 : 20;
    }
    assert_int_equal(kvr_group_post(fixture.group, &post, &pair), KVR_OK);
    pieces[6].local_offset++;
    assert_int_equal(kvr_group_post(fixture.group, &post, &pair), KVR_INVALID);
    pieces[6].local_offset--;
    pieces[5].remote_offset++;
    assert_int_equal(kvr_group_post(fixture.group, &post, &pair), KVR_INVALID);
    kvr_group_close(fixture.group);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(group_keeps_its_window),
        cmocka_unit_test(group_keeps_half_of_its_bytes),
        cmocka_unit_test(group_gives_a_slow_rail_less),
        cmocka_unit_test(group_rings_the_doorbell_at_the_end),
        cmocka_unit_test(group_rings_after_a_refusal),
        cmocka_unit_test(group_one_dead_peer_starves_nobody),
        cmocka_unit_test(group_wakes_every_link_that_waits),
        cmocka_unit_test(group_counts_pieces_that_touch_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
