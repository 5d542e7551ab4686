/* Goal: between transfers the deadline counts first, then the priority; among equals each has a
 * batch in turn, those that have had a few a longer turn; who found no room is first to find the
 * next; and a peer that takes nothing holds no transfer to another. Method: push alone on a
 * scripted fabric, one rail, jobs of one small plan. */
#include "tests/support/check.h"

#include "prefill-agent/push.h"
#include "tests/support/fake_group.h"
#include "tests/support/small_plan.h"

#define JOBS  4
#define START (100 * KVR_S)

static struct push push;
static struct bench bench;
static struct small_side source, target;
static struct kvr_buddy memory;
static struct kvr_plan *plan;
static struct push_job jobs[JOBS];
static struct push_segment segments[JOBS];
static uint8_t where[JOBS][SMALL_CHUNKS];

static void open_push_batch(uint32_t window, uint32_t batch)
{
    static uint8_t tables[1 << 20] __attribute__((aligned(64)));

    memset(&push, 0, sizeof(push));
    kvr_buddy_init(&memory, tables, sizeof(tables));
    small_side_init(&source, FAKE_RAILS);
    small_side_init(&target, FAKE_RAILS);
    bench_open_as(&bench, &(struct kvr_group_options){.rail_count = 1,
                                                      .window_writes = window,
                                                      .batch_writes = batch,
                                                      .ring_entries = 256,
                                                      .user = push_user(&push)});
    push.group = bench.group;
    plan = small_plan_make(&source, &target, &memory);
}

static void open_push(uint32_t window)
{
    open_push_batch(window, 0);
}

static void close_push(void)
{
    kvr_plan_free(plan, &memory);
    kvr_group_close(bench.group);
}

/* A transfer with all of its layers ready; its slot is its index and one. */
static void job_open(uint32_t index, uint32_t peer, kvr_ns deadline, int32_t priority)
{
    jobs[index] = (struct push_job){.index = index,
                                    .peer = peer,
                                    .transfer = index + 1,
                                    .source = &source.set,
                                    .target = &target.set,
                                    .slots = {(uint16_t)(index + 1)},
                                    .slot_count = 1,
                                    .target_rails = 1,
                                    .deadline = deadline,
                                    .priority = priority};
    segments[index] = (struct push_segment){.plan = plan, .where = where[index]};
    assert_true(kvr_group_command(
        bench.group,
        &(struct kvr_group_message){.kind = PUSH_OPEN, .index = index, .pointer = &jobs[index]}));
    assert_true(kvr_group_command(
        bench.group, &(struct kvr_group_message){
                         .kind = PUSH_SEGMENT, .index = index, .pointer = &segments[index]}));
}

/* Completes all again and again; the order in which the jobs' last chunks left, as digits. */
static unsigned order_of_ends(void)
{
    struct kvr_endpoint *endpoint = bench.rails[0].newest;
    uint64_t left[JOBS + 1] = {0};
    unsigned order = 0;

    for (unsigned round = 0; round < 200; round++) {
        bench_settle(&bench, START + round);
        for (unsigned i = 0; i < endpoint->write_count; i++) {
            unsigned slot = endpoint->writes[i].immediate >> 16;

            if (++left[slot] == SMALL_CHUNKS)
                order = 10 * order + slot;
        }
        finish_all(endpoint);
    }
    return order;
}

static void deadline_first_then_priority(void **state)
{
    (void)state;
    open_push(4);
    peer_add(&bench, 0, 1);
    job_open(0, 0, KVR_NEVER, -1);
    job_open(1, 0, KVR_NEVER, 0);
    job_open(2, 0, START + 10 * KVR_S, -5);
    job_open(3, 0, START + KVR_S, -9);
    assert_int_equal(order_of_ends(), 4321);
    close_push();
}

/* As it comes nearer, a deadline overtakes one that was set later and was shorter. */
static void what_is_overdue_is_first(void **state)
{
    (void)state;
    open_push(4);
    peer_add(&bench, 0, 1);
    job_open(0, 0, START + 10 * KVR_S, 0);
    job_open(1, 0, START - KVR_S, 0);
    job_open(2, 0, START + KVR_S, INT32_MAX);
    job_open(3, 0, KVR_NEVER, INT32_MIN);
    assert_int_equal(order_of_ends(), 2314);
    close_push();
}

/* Deadlines that are about the same share the rail: nobody is through while another has nothing. */
static void equals_take_turns(void **state)
{
    uint32_t posted[2];

    (void)state;
    open_push(4);
    peer_add(&bench, 0, 1);
    job_open(0, 0, START + 10 * KVR_S, 0);
    job_open(1, 0, START + 11 * KVR_S, 0);
    for (unsigned round = 0; round < 4; round++) {
        bench_settle(&bench, START + round);
        finish_all(bench.rails[0].newest);
    }
    posted[0] = segments[0].chunk_next;
    posted[1] = segments[1].chunk_next;
    assert_true(posted[0] > 0 && posted[1] > 0);
    close_push();
}

/* Room for more than a batch: who comes second has some of it, and need not wait for the next. */
static void room_is_shared_by_batches(void **state)
{
    (void)state;
    open_push_batch(16, 2); /* a peer may hold 12 */
    peer_add(&bench, 0, 1);
    job_open(0, 0, KVR_NEVER, 0);
    job_open(1, 0, KVR_NEVER, 0);
    bench_settle(&bench, START);
    assert_int_equal(segments[0].chunk_next, 6);
    assert_int_equal(segments[1].chunk_next, 6);
    close_push();
}

/* Two that have had a few batches: one of them is through before the other goes on, and what is new
 * has as many as that one. */
static void long_ones_have_long_turns(void **state)
{
    uint32_t first, second, fresh;

    (void)state;
    open_push_batch(4, 1);
    peer_add(&bench, 0, 1);
    for (uint32_t i = 0; i < 3; i++) {
        job_open(i, 0, KVR_NEVER, 0);
        jobs[i].batches = i < 2 ? 8 : 0;
    }
    do {
        bench_settle(&bench, START);
        finish_all(bench.rails[0].newest);
        first = segments[0].chunk_next > 0 ? 0 : 1;
        second = segments[1 - first].chunk_next;
        fresh = segments[2].chunk_next;
        first = segments[first].chunk_next;
        assert_true(second == 0 || first == SMALL_CHUNKS);
        assert_true(first == SMALL_CHUNKS || (fresh + 2 > first && fresh < first + 2));
    } while (second < SMALL_CHUNKS);
    close_push();
}

/* Who has the turn and waits for its engine holds nobody. */
static void a_turn_that_is_not_used_ends(void **state)
{
    static _Atomic uint64_t word;

    (void)state;
    open_push_batch(16, 1);
    peer_add(&bench, 0, 1);
    job_open(0, 0, KVR_NEVER, 0);
    job_open(1, 0, KVR_NEVER, 0);
    jobs[0].batches = jobs[1].batches = 8;
    segments[0].word = &word;
    segments[0].word_base = 0;
    word = 1; /* one layer of two */
    bench_settle(&bench, START);
    assert_int_equal(segments[0].chunk_next, SMALL_CHUNKS / SMALL_LAYERS);
    assert_int_equal(segments[1].chunk_next, SMALL_CHUNKS);
    close_push();
}

/* The end of its turn is not the end of what it may have before others. */
static void a_later_rank_waits_for_more_than_a_turn(void **state)
{
    (void)state;
    open_push_batch(16, 2);
    peer_add(&bench, 0, 1);
    job_open(0, 0, KVR_NEVER, 0);
    job_open(1, 0, KVR_NEVER, 1);
    bench_settle(&bench, START);
    assert_int_equal(segments[0].chunk_next, 12 - SMALL_CHUNKS);
    assert_int_equal(segments[1].chunk_next, SMALL_CHUNKS);
    close_push();
}

/* The urgent one's peer takes nothing; the other's does. */
static void a_full_peer_holds_no_other(void **state)
{
    struct kvr_endpoint *endpoint;

    (void)state;
    open_push(16);
    endpoint = bench.rails[0].newest;
    peer_add(&bench, 0, 1);
    endpoint->dead_peer = endpoint->peers; /* the last that was inserted */
    peer_add(&bench, 1, 1);
    job_open(0, 0, START, 0);
    job_open(1, 1, KVR_NEVER, 0);
    job_open(2, 0, KVR_NEVER, 0);
    bench_settle(&bench, START);
    assert_int_equal(segments[0].chunk_next, 0);
    assert_int_equal(segments[1].chunk_next, SMALL_CHUNKS);
    assert_int_equal(segments[2].chunk_next, 0);
    close_push();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deadline_first_then_priority),
        cmocka_unit_test(what_is_overdue_is_first),
        cmocka_unit_test(equals_take_turns),
        cmocka_unit_test(room_is_shared_by_batches),
        cmocka_unit_test(long_ones_have_long_turns),
        cmocka_unit_test(a_turn_that_is_not_used_ends),
        cmocka_unit_test(a_later_rank_waits_for_more_than_a_turn),
        cmocka_unit_test(a_full_peer_holds_no_other),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
