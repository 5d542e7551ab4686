/* Goal: writes are posted as far as the window goes, shared fairly among rails and peers, and never
 * left without a doorbell. Method: as in test_rail_group.c. */
#include "tests/support/check.h"

#include "tests/support/fake_group.h"

static void group_keeps_its_window(void **state)
{
    struct bench bench;
    struct kvr_pair pair;
    unsigned accepted = 0;

    (void)state;
    bench_open(&bench, 2, 8, 64);
    peer_add(&bench, 0, 2);
    while (post(&bench, 0, &pair) == KVR_OK)
        accepted++;
    /* A single peer has three quarters of each rail's writes. */
    assert_int_equal(accepted, 12);
    assert_int_equal(kvr_group_outstanding(bench.group), 12);
    assert_int_equal(post(&bench, 0, &pair), KVR_AGAIN);
    finish(bench.rails[1].newest, 3, KVR_OK);
    assert_true(kvr_group_step(bench.group, 2));
    assert_int_equal(post(&bench, 0, &pair), KVR_OK);
    assert_int_equal(pair.rail, 1);
    assert_int_equal(post(&bench, 0, &pair), KVR_AGAIN);
    assert_int_equal(kvr_group_counters(bench.group, 1).writes, 7);
    assert_int_equal(kvr_group_counters(bench.group, 1).in_flight, 6);
    assert_int_equal(kvr_group_counters(bench.group, 1).bytes, 700);
    assert_false(kvr_group_step(bench.group, 3));
    kvr_group_close(bench.group);
}

/* What a peer holds is what the next transfer to it waits for. */
static void group_keeps_half_of_its_bytes(void **state)
{
    struct bench bench;
    struct kvr_pair pair;
    unsigned accepted[2] = {0};

    (void)state;
    bench_open_as(&bench, &(struct kvr_group_options){
                              .rail_count = 1, .window_writes = 64, .window_bytes = 24 * 4096});
    peer_add(&bench, 0, 1);
    peer_add(&bench, 1, 1);
    for (uint32_t peer = 0; peer < 2; peer++)
        while (post_bytes(&bench, peer, 4096, false, &pair) == KVR_OK)
            accepted[peer]++;
    assert_int_equal(accepted[0], 12);
    assert_int_equal(accepted[1], 6); /* half of what is left */
    kvr_group_close(bench.group);
}

static void group_gives_a_slow_rail_less(void **state)
{
    struct bench bench;
    struct kvr_pair pair;
    unsigned on[2] = {0};

    (void)state;
    bench_open(&bench, 2, 0, 64);
    peer_add(&bench, 0, 2);
    for (unsigned i = 0; i < 400; i++) {
        if (post(&bench, 0, &pair) == KVR_OK)
            on[pair.rail]++;
        finish_all(bench.rails[0].newest); /* rail 1 completes every tenth round */
        if (i % 10 == 0)
            finish_all(bench.rails[1].newest);
        kvr_group_step(bench.group, 2 + i);
    }
    assert_true(on[0] > 4 * on[1]);
    assert_true(on[1] > 10);
    kvr_group_close(bench.group);
}

static void group_rings_the_doorbell_at_the_end(void **state)
{
    struct bench bench;
    struct kvr_pair pair;
    unsigned unrung = 0;
    struct kvr_endpoint *endpoint;

    (void)state;
    bench_open(&bench, 2, 0, 64);
    peer_add(&bench, 0, 2);
    for (unsigned i = 0; i < 40; i++)
        assert_int_equal(post_bytes(&bench, 0, 100, i != 39, &pair), KVR_OK);
    for (unsigned r = 0; r < 2; r++) {
        endpoint = bench.rails[r].newest;
        assert_true(endpoint->write_count > 0);
        assert_false(endpoint->writes[endpoint->write_count - 1].more);
        for (unsigned i = 0; i < endpoint->write_count; i++)
            unrung += endpoint->writes[i].more;
    }
    assert_int_equal(unrung, 38); /* one doorbell a batch of 32, one for the rest */
    /* The window's end is a batch's end. */
    while (post_bytes(&bench, 0, 100, true, &pair) == KVR_OK)
        ;
    for (unsigned r = 0; r < 2; r++) {
        endpoint = bench.rails[r].newest;
        assert_false(endpoint->writes[endpoint->write_count - 1].more);
    }
    kvr_group_close(bench.group);
    /* AGAIN in the middle of a batch: tried at once without `more`. */
    bench_open(&bench, 1, 0, 64);
    peer_add(&bench, 0, 1);
    assert_int_equal(post_bytes(&bench, 0, 100, true, &pair), KVR_OK);
    endpoint = bench.rails[0].newest;
    endpoint->again_once = 1;
    assert_int_equal(post_bytes(&bench, 0, 100, true, &pair), KVR_OK);
    assert_int_equal(endpoint->write_count, 2);
    assert_false(endpoint->writes[1].more);
    kvr_group_close(bench.group);
}

/* What was promised to a doorbell is not left lying there while others go over another rail. */
static void group_rings_after_a_refusal(void **state)
{
    struct bench bench;
    struct kvr_pair pair;
    struct kvr_endpoint *endpoint;

    (void)state;
    bench_open(&bench, 2, 0, 64);
    peer_add(&bench, 0, 2);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(post_bytes(&bench, 0, 100, false, &pair), KVR_OK);
    assert_int_equal(post_bytes(&bench, 0, 50, true, &pair), KVR_OK);
    endpoint = bench.rails[pair.rail].newest;
    endpoint->again_once = 2; /* the next of the batch, and its doorbell */
    assert_int_equal(post_bytes(&bench, 0, 50, true, &pair), KVR_AGAIN);
    assert_int_equal(endpoint->write_count, 2);
    finish(endpoint, 0, KVR_OK); /* room for one, which is no promise of more */
    kvr_group_step(bench.group, KVR_S);
    assert_int_equal(post_bytes(&bench, 0, 50, true, &pair), KVR_OK);
    assert_int_equal(endpoint->write_count, 2);
    assert_false(endpoint->writes[1].more);
    kvr_group_close(bench.group);
    /* A rail that refuses for ever does not hold the other one. */
    bench_open(&bench, 2, 0, 64);
    peer_add(&bench, 0, 2);
    assert_int_equal(post_bytes(&bench, 0, 100, true, &pair), KVR_OK);
    endpoint = bench.rails[pair.rail].newest;
    endpoint->next_write = KVR_AGAIN;
    for (unsigned i = 0; i < 100; i++) {
        kvr_group_step(bench.group, KVR_S + i * KVR_MS);
        (void)post_bytes(&bench, 0, 100, true, &pair);
    }
    assert_true(bench.rails[0].newest->write_count + bench.rails[1].newest->write_count > 40);
    kvr_group_close(bench.group);
}

static void group_one_dead_peer_starves_nobody(void **state)
{
    struct bench bench;
    struct kvr_pair pair;
    struct kvr_endpoint *endpoint;
    unsigned living = 0;
    uint64_t again;

    (void)state;
    bench_open(&bench, 1, 16, 64);
    peer_add(&bench, 0, 1);
    peer_add(&bench, 1, 1);
    endpoint = bench.rails[0].newest;
    /* Peer 0 takes what it can and never completes. */
    while (post(&bench, 0, &pair) == KVR_OK)
        ;
    for (unsigned i = 0; i < 100; i++) {
        while (post(&bench, 1, &pair) == KVR_OK)
            living++;
        finish(endpoint, endpoint->write_count - 1, KVR_OK);
        kvr_group_step(bench.group, 10 + i);
    }
    assert_true(living >= 100);
    /* Peer 0 answers AGAIN for ever: it is asked seldom, although others complete all the time. */
    while (endpoint->write_count > 0)
        finish(endpoint, 0, KVR_OK);
    kvr_group_step(bench.group, 200);
    endpoint->dead_peer = 1;
    again = kvr_group_counters(bench.group, 0).again;
    for (unsigned i = 0; i < 10000; i++) {
        assert_int_equal(post(&bench, 0, &pair), KVR_AGAIN);
        assert_int_equal(post(&bench, 1, &pair), KVR_OK);
        finish(endpoint, 0, KVR_OK);
        kvr_group_step(bench.group, 300 + i * KVR_US); /* 10 ms in all */
    }
    again = kvr_group_counters(bench.group, 0).again - again;
    assert_true(again > 5 && again < 20);
    /* And it is asked again in time, with nothing else going on. */
    assert_true(kvr_group_wake_at(bench.group, KVR_S, KVR_US) <= KVR_S + KVR_GROUP_IDLE_POLL_NS);
    endpoint->dead_peer = 0;
    kvr_group_step(bench.group, 2 * KVR_S);
    assert_int_equal(post(&bench, 0, &pair), KVR_OK);
    kvr_group_close(bench.group);
}

/* Two links wait, each until its own time; the first one's goes by without a word of the other. */
static void group_wakes_every_link_that_waits(void **state)
{
    struct bench bench;
    struct kvr_pair pair;
    struct kvr_endpoint *endpoint;

    (void)state;
    bench_open(&bench, 1, 16, 64);
    peer_add(&bench, 0, 1);
    peer_add(&bench, 1, 1);
    endpoint = bench.rails[0].newest;
    kvr_group_step(bench.group, KVR_S);
    endpoint->again_once = 2;
    assert_int_equal(post(&bench, 0, &pair), KVR_AGAIN);
    kvr_group_step(bench.group, KVR_S + 30 * KVR_US);
    assert_int_equal(post(&bench, 1, &pair), KVR_AGAIN);
    assert_true(kvr_group_wake_at(bench.group, KVR_S, KVR_S) == KVR_S + 50 * KVR_US);
    kvr_group_step(bench.group, KVR_S + 50 * KVR_US);
    assert_int_equal(post(&bench, 0, &pair), KVR_OK);
    assert_int_equal(post(&bench, 1, &pair), KVR_AGAIN);
    assert_true(kvr_group_wake_at(bench.group, KVR_S + 50 * KVR_US, KVR_S) == KVR_S + 80 * KVR_US);
    kvr_group_step(bench.group, KVR_S + 80 * KVR_US);
    assert_int_equal(post(&bench, 1, &pair), KVR_OK);
    kvr_group_close(bench.group);
}

/* The fake card takes four runs of bytes at either end: here seven pieces make four at each. */
static void group_counts_pieces_that_touch_once(void **state)
{
    struct kvr_group_piece pieces[7];
    struct kvr_group_post post = {.pieces = pieces, .piece_count = 7};
    uint64_t local = 0, remote = 0;
    struct bench bench;
    struct kvr_pair pair;

    (void)state;
    bench_open(&bench, 1, 0, 64);
    peer_add(&bench, 0, 1);
    for (unsigned i = 0; i < 7; i++) {
        pieces[i] = (struct kvr_group_piece){&bench.local, &bench.remote, local, remote, 10};
        local += i % 2 == 0 ? 20 : 10;
        remote += i % 2 == 0 ? 10 : 20;
    }
    assert_int_equal(kvr_group_post(bench.group, &post, &pair), KVR_OK);
    pieces[6].local_offset++;
    assert_int_equal(kvr_group_post(bench.group, &post, &pair), KVR_INVALID);
    pieces[6].local_offset--;
    pieces[5].remote_offset++;
    assert_int_equal(kvr_group_post(bench.group, &post, &pair), KVR_INVALID);
    kvr_group_close(bench.group);
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
