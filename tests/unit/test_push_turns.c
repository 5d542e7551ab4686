/* Goal: between transfers the deadline counts first, then the priority. Equals have a batch each in
 * turn; after a few batches they have longer turns. A transfer without room is the first to get the
 * next. A peer that takes nothing blocks no transfer to another. Method: push alone on a scripted
 * fabric, one rail, jobs of one small plan. */
#include "tests/support/check.h"

#include "prefill-agent/push.h"
#include "tests/support/fake_group.h"
#include "tests/support/small_plan.h"

#define JOBS  4
#define START (100 * KVR_S)

static struct push push;
static struct group_fixture fixture;
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
    fixture_open_as(&fixture, &(struct kvr_group_options){.rail_count = 1,
                                                          .window_writes = window,
                                                          .batch_writes = batch,
                                                          .ring_entries = 256,
                                                          .user = push_user(&push)});
    push.group = fixture.group;
    plan = small_plan_make(&source, &target, &memory);
}

static void open_push(uint32_t window)
{
    open_push_batch(window, 0);
}

static void close_push(void)
{
    kvr_plan_free(plan, &memory);
    kvr_group_close(fixture.group);
}

static void tell_push(uint32_t index, union push_message message)
{
    message.job = index;
    assert_true(kvr_group_command(fixture.group, &message.any));
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
                                    .turn.deadline = deadline,
                                    .turn.priority = priority};
    segments[index] = (struct push_segment){.plan = plan, .where = where[index]};
    tell_push(index, PUSH_MESSAGE(PUSH_OPEN, .opened = &jobs[index]));
    tell_push(index, PUSH_MESSAGE(PUSH_SEGMENT, .segment = &segments[index]));
}

#define SEGMENTS 30

/* A transfer of so many chunks, of that tenant. */
static void job_open_of(uint32_t index, uint32_t tenant, uint32_t weight, kvr_ns deadline)
{
    static struct push_segment of_tenant[JOBS][SEGMENTS];
    static uint8_t where_of[JOBS][SEGMENTS][SMALL_CHUNKS];

    jobs[index] = (struct push_job){.index = index,
                                    .transfer = index + 1,
                                    .source = &source.set,
                                    .target = &target.set,
                                    .slots = {(uint16_t)(index + 1)},
                                    .slot_count = 1,
                                    .target_rails = 1,
                                    .turn.deadline = deadline,
                                    .turn.tenant = tenant,
                                    .turn.weight = weight};
    tell_push(index, PUSH_MESSAGE(PUSH_OPEN, .opened = &jobs[index]));
    for (uint32_t i = 0; i < SEGMENTS; i++) {
        of_tenant[index][i] = (struct push_segment){
            .plan = plan, .chunk_first = i * SMALL_CHUNKS, .where = where_of[index][i]};
        tell_push(index, PUSH_MESSAGE(PUSH_SEGMENT, .segment = &of_tenant[index][i]));
    }
}

/* Writes of each job while all have some left, at the most; and the longest run of others' writes
 * between two of a job's. */
static void shares_of(uint32_t job_count, uint32_t ret_writes[JOBS], uint32_t *ret_longest)
{
    struct kvr_endpoint *endpoint = fixture.rails[0].newest;
    uint32_t writes[JOBS] = {0}, since[JOBS] = {0};
    bool all = true;

    *ret_longest = 0;
    for (unsigned round = 0; all && round < 2000; round++) {
        fixture_settle(&fixture, START + round);
        for (unsigned i = 0; all && i < endpoint->write_count; i++) {
            unsigned job = (unsigned)(endpoint->writes[i].immediate >> 16) - 1;

            writes[job]++;
            all = all && writes[job] < SEGMENTS * SMALL_CHUNKS;
            for (uint32_t k = 0; k < job_count; k++) {
                since[k] = k == job ? 0 : since[k] + 1;
                *ret_longest = since[k] > *ret_longest ? since[k] : *ret_longest;
            }
        }
        finish_all(endpoint);
    }
    memcpy(ret_writes, writes, sizeof(writes));
}

/* The light one's transfer is the most urgent: that counts among its own alone. */
static void tenants_share_by_weight(void **state)
{
    uint32_t writes[JOBS], longest;

    (void)state;
    open_push(4);
    push.shares.round_bytes = SMALL_PAGE_BYTES;
    peer_add(&fixture, 0, 1);
    job_open_of(0, 5, 3, KVR_NEVER);
    job_open_of(1, 9, 1, START + KVR_MS);
    shares_of(2, writes, &longest);
    assert_int_equal(writes[0], SEGMENTS * SMALL_CHUNKS);
    assert_in_range(writes[1], writes[0] / 3 - 3, writes[0] / 3 + 3);
    assert_true(longest <=
                16); /* four rounds: a batch is four chunks, and all its credit for that */
    close_push();
}

/* Two transfers of one tenant have its share, not two. */
static void more_transfers_are_no_larger_share(void **state)
{
    uint32_t writes[JOBS], longest;

    (void)state;
    open_push(4);
    push.shares.round_bytes = SMALL_PAGE_BYTES;
    peer_add(&fixture, 0, 1);
    job_open_of(0, 0, 1, KVR_NEVER);
    job_open_of(1, 1, 1, KVR_NEVER);
    job_open_of(2, 1, 1, KVR_NEVER);
    job_open_of(3, 1, 1, KVR_NEVER);
    shares_of(4, writes, &longest);
    assert_int_equal(writes[0], SEGMENTS * SMALL_CHUNKS);
    assert_in_range(writes[1] + writes[2] + writes[3], writes[0] - 4, writes[0] + 4);
    assert_true(writes[1] > 0 && writes[2] > 0 && writes[3] > 0);
    close_push();
}

/* The other one waits for its engine: what it does not use is not kept for it. */
static void what_one_cannot_use_is_the_others(void **state)
{
    static _Atomic uint64_t word;
    uint32_t writes[JOBS], longest;

    (void)state;
    open_push(4);
    push.shares.round_bytes = SMALL_PAGE_BYTES;
    peer_add(&fixture, 0, 1);
    job_open(1, 0, KVR_NEVER, 0);
    segments[1].word = &word;
    jobs[1].turn.tenant = 1; /* before push has read the command */
    job_open_of(0, 0, 1, KVR_NEVER);
    shares_of(1, writes, &longest);
    assert_int_equal(writes[0], SEGMENTS * SMALL_CHUNKS);
    assert_int_equal(longest, 0);
    assert_int_equal(atomic_load(&push.posted[0]), SEGMENTS * plan->bytes);
    close_push();
}

/* Completes all writes until the end; returns the order of the jobs' last chunks, as digits. */
static unsigned order_of_ends(void)
{
    struct kvr_endpoint *endpoint = fixture.rails[0].newest;
    uint64_t left[JOBS + 1] = {0};
    unsigned order = 0;

    for (unsigned round = 0; round < 200; round++) {
        fixture_settle(&fixture, START + round);
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
    peer_add(&fixture, 0, 1);
    job_open(0, 0, KVR_NEVER, -1);
    job_open(1, 0, KVR_NEVER, 0);
    job_open(2, 0, START + 10 * KVR_S, -5);
    job_open(3, 0, START + KVR_S, -9);
    assert_int_equal(order_of_ends(), 4321);
    close_push();
}

/* As it comes nearer, a deadline overtakes a shorter one that was set later. */
static void what_is_overdue_is_first(void **state)
{
    (void)state;
    open_push(4);
    peer_add(&fixture, 0, 1);
    job_open(0, 0, START + 10 * KVR_S, 0);
    job_open(1, 0, START - KVR_S, 0);
    job_open(2, 0, START + KVR_S, INT32_MAX);
    job_open(3, 0, KVR_NEVER, INT32_MIN);
    assert_int_equal(order_of_ends(), 2314);
    close_push();
}

/* Deadlines that are nearly equal share the rail: none ends while another has posted nothing. */
static void equals_take_turns(void **state)
{
    uint32_t posted[2];

    (void)state;
    open_push(4);
    peer_add(&fixture, 0, 1);
    job_open(0, 0, START + 10 * KVR_S, 0);
    job_open(1, 0, START + 11 * KVR_S, 0);
    for (unsigned round = 0; round < 4; round++) {
        fixture_settle(&fixture, START + round);
        finish_all(fixture.rails[0].newest);
    }
    posted[0] = segments[0].chunk_next;
    posted[1] = segments[1].chunk_next;
    assert_true(posted[0] > 0 && posted[1] > 0);
    close_push();
}

/* Room for more than a batch: the second job has some of it, and need not wait for the next. */
static void room_is_shared_by_batches(void **state)
{
    (void)state;
    open_push_batch(16, 2); /* a peer may hold 12 */
    peer_add(&fixture, 0, 1);
    job_open(0, 0, KVR_NEVER, 0);
    job_open(1, 0, KVR_NEVER, 0);
    fixture_settle(&fixture, START);
    assert_int_equal(segments[0].chunk_next, 6);
    assert_int_equal(segments[1].chunk_next, 6);
    close_push();
}

/* Of two jobs that have had a few batches, one ends before the other goes on. A new job posts as
 * many chunks as the first one. */
static void long_ones_have_long_turns(void **state)
{
    uint32_t first, second, fresh;

    (void)state;
    open_push_batch(4, 1);
    peer_add(&fixture, 0, 1);
    for (uint32_t i = 0; i < 3; i++) {
        job_open(i, 0, KVR_NEVER, 0);
        jobs[i].turn.batches = i < 2 ? 8 : 0;
    }
    do {
        fixture_settle(&fixture, START);
        finish_all(fixture.rails[0].newest);
        first = segments[0].chunk_next > 0 ? 0 : 1;
        second = segments[1 - first].chunk_next;
        fresh = segments[2].chunk_next;
        first = segments[first].chunk_next;
        assert_true(second == 0 || first == SMALL_CHUNKS);
        assert_true(first == SMALL_CHUNKS || (fresh + 2 > first && fresh < first + 2));
    } while (second < SMALL_CHUNKS);
    close_push();
}

/* A job that has the turn and waits for its engine blocks no other. */
static void a_turn_that_is_not_used_ends(void **state)
{
    static _Atomic uint64_t word;

    (void)state;
    open_push_batch(16, 1);
    peer_add(&fixture, 0, 1);
    job_open(0, 0, KVR_NEVER, 0);
    job_open(1, 0, KVR_NEVER, 0);
    jobs[0].turn.batches = jobs[1].turn.batches = 8;
    segments[0].word = &word;
    segments[0].word_base = 0;
    word = 1; /* one layer of two */
    fixture_settle(&fixture, START);
    assert_int_equal(segments[0].chunk_next, SMALL_CHUNKS / SMALL_LAYERS);
    assert_int_equal(segments[1].chunk_next, SMALL_CHUNKS);
    close_push();
}

/* A job of a later rank waits for all chunks of an earlier one, not only for its turn. */
static void a_later_rank_waits_for_more_than_a_turn(void **state)
{
    (void)state;
    open_push_batch(16, 2);
    peer_add(&fixture, 0, 1);
    job_open(0, 0, KVR_NEVER, 0);
    job_open(1, 0, KVR_NEVER, 1);
    fixture_settle(&fixture, START);
    assert_int_equal(segments[0].chunk_next, 12 - SMALL_CHUNKS);
    assert_int_equal(segments[1].chunk_next, SMALL_CHUNKS);
    close_push();
}

/* The urgent job's peer takes nothing; the other's does. */
static void a_full_peer_holds_no_other(void **state)
{
    struct kvr_endpoint *endpoint;

    (void)state;
    open_push(16);
    endpoint = fixture.rails[0].newest;
    peer_add(&fixture, 0, 1);
    endpoint->dead_peer = endpoint->peers; /* the peer that was inserted last */
    peer_add(&fixture, 1, 1);
    job_open(0, 0, START, 0);
    job_open(1, 1, KVR_NEVER, 0);
    job_open(2, 0, KVR_NEVER, 0);
    fixture_settle(&fixture, START);
    assert_int_equal(segments[0].chunk_next, 0);
    assert_int_equal(segments[1].chunk_next, SMALL_CHUNKS);
    assert_int_equal(segments[2].chunk_next, 0);
    close_push();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tenants_share_by_weight),
        cmocka_unit_test(more_transfers_are_no_larger_share),
        cmocka_unit_test(what_one_cannot_use_is_the_others),
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
