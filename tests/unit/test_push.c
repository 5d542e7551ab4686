/* Goal: push posts what is ready, once, over whatever has room; counts what was accepted; says
 * which chunks went where; posts again only what it is told to; and gives a job back only when no
 * card can read for it any more. Method: push alone on a scripted fabric: the loop's commands,
 * readiness words and completions in, writes and messages out. */
#include "tests/support/check.h"

#include "kv/chunk_digest.h"
#include "prefill-agent/push.h"
#include "tests/support/fake_group.h"
#include "tests/support/small_plan.h"

#define TRANSFER 42
#define SLOT     7

static struct push push;
static struct bench bench;
static struct small_side source, target;
static struct kvr_buddy memory;
static struct push_job job;
static struct push_segment segment;
static uint8_t where[SMALL_CHUNKS];
static uint64_t digests[SMALL_CHUNKS];
static _Atomic uint64_t word;
static uint32_t window; /* writes; 0: what the fabric takes */
static kvr_ns now;

static int open_push(void **state)
{
    static uint8_t tables[1 << 20] __attribute__((aligned(64)));

    (void)state;
    memset(&push, 0, sizeof(push));
    memset(&job, 0, sizeof(job));
    memset(&segment, 0, sizeof(segment));
    atomic_store(&word, 0);
    now = KVR_S;
    kvr_buddy_init(&memory, tables, sizeof(tables));
    small_side_init(&source, FAKE_RAILS);
    small_side_init(&target, FAKE_RAILS);
    bench_open_as(&bench, &(struct kvr_group_options){.rail_count = 2,
                                                      .window_writes = window,
                                                      .ring_entries = 256,
                                                      .user = push_user(&push)});
    window = 0;
    push.group = bench.group;
    peer_add(&bench, 0, 2);
    segment.plan = small_plan_make(&source, &target, &memory);
    segment.where = where;
    segment.digests = digests;
    segment.word = &word;
    return 0;
}

static int close_push(void **state)
{
    (void)state;
    kvr_plan_free(segment.plan, &memory);
    kvr_group_close(bench.group);
    return 0;
}

static void step(void)
{
    bench_settle(&bench, now);
}

static void tell_push(uint32_t kind, void *pointer)
{
    bench_tell(&bench, now, &(struct kvr_group_message){.kind = kind, .pointer = pointer});
}

static bool told(uint32_t kind, struct kvr_group_message *ret_message)
{
    return bench_told(&bench, kind, ret_message);
}

static bool was_told(uint32_t kind)
{
    struct kvr_group_message message;

    return told(kind, &message);
}

static void job_open(kvr_digest_mode digest)
{
    job.transfer = TRANSFER;
    job.source = &source.set;
    job.target = &target.set;
    job.slots[0] = SLOT;
    job.slot_count = 1;
    job.target_rails = UINT32_MAX;
    job.digest = digest;
    tell_push(PUSH_OPEN, &job);
    tell_push(PUSH_SEGMENT, &segment);
}

static void layers_ready(uint64_t layers)
{
    atomic_store(&word, layers);
    step();
}

static unsigned posted(void)
{
    return bench.rails[0].newest->write_count + bench.rails[1].newest->write_count;
}

static void complete_all(void)
{
    finish_all(bench.rails[0].newest);
    finish_all(bench.rails[1].newest);
    step();
}

/* What is not ready is not read, and every chunk goes once. */
static void push_posts_layers_as_they_become_ready(void **state)
{
    struct kvr_group_message message;
    uint32_t seen = 0;

    (void)state;
    job_open(KVR_DIGEST_OFF);
    tell_push(PUSH_FINAL, NULL);
    assert_int_equal(posted(), 0);
    layers_ready(1);
    assert_true(told(PUSH_FIRST_POST, &message));
    assert_int_equal(message.a, now);
    assert_int_equal(posted(), SMALL_PLANNED);
    assert_false(was_told(PUSH_ALL_READY));
    now += KVR_MS;
    layers_ready(SMALL_LAYERS);
    assert_true(told(PUSH_ALL_READY, &message));
    assert_int_equal(message.a, now);
    assert_int_equal(posted(), SMALL_CHUNKS);
    for (uint32_t rail = 0; rail < 2; rail++) {
        const struct kvr_endpoint *endpoint = bench.rails[rail].newest;

        for (unsigned i = 0; i < endpoint->write_count; i++) {
            assert_int_equal(endpoint->writes[i].immediate >> 16, SLOT);
            seen |= 1u << (endpoint->writes[i].immediate & 0xffff);
        }
    }
    assert_int_equal(seen, (1u << SMALL_CHUNKS) - 1);
    assert_true(told(PUSH_POSTED, &message));
    assert_int_equal(message.a, 0);
    assert_int_equal(message.b, SMALL_CHUNKS);
    assert_int_equal(message.c, 0);
}

/* Rule 4: counts of accepted posts by (target rail, epoch), told before POSTED. */
static void push_counts_what_was_accepted(void **state)
{
    struct kvr_group_message message;
    uint64_t total = 0, on[2] = {bench.rails[0].newest->write_count, 0};

    (void)state;
    job_open(KVR_DIGEST_OFF);
    layers_ready(SMALL_LAYERS);
    on[0] = bench.rails[0].newest->write_count;
    on[1] = bench.rails[1].newest->write_count;
    tell_push(PUSH_FINAL, NULL);
    while (kvr_group_event(bench.group, &message) && message.kind != PUSH_POSTED) {
        if (message.kind != PUSH_COUNT)
            continue;
        assert_int_equal(message.b, 1);
        assert_int_equal(message.c, on[message.a]);
        total += message.c;
    }
    assert_int_equal(message.kind, PUSH_POSTED);
    assert_int_equal(total, SMALL_CHUNKS);
}

/* Rule 2: after STOP nothing is posted, and the job is given back with the last completion. */
static void push_gives_back_after_the_last_completion(void **state)
{
    struct kvr_group_message message;

    (void)state;
    job_open(KVR_DIGEST_OFF);
    layers_ready(1);
    tell_push(PUSH_STOP, NULL);
    assert_true(told(PUSH_STOPPED, &message));
    assert_int_equal(message.b, SMALL_PLANNED);
    layers_ready(SMALL_LAYERS);
    assert_int_equal(posted(), SMALL_PLANNED);
    tell_push(PUSH_CLOSE, NULL);
    assert_false(was_told(PUSH_CLOSED));
    finish(bench.rails[0].newest->write_count > 0 ? bench.rails[0].newest : bench.rails[1].newest,
           0, KVR_OK);
    step();
    assert_false(was_told(PUSH_CLOSED));
    complete_all();
    assert_true(told(PUSH_CLOSED, &message));
    assert_ptr_equal(message.pointer, &job);
}

/* A write that hangs holds the job until its endpoint is closed. */
static void push_gives_back_when_the_endpoint_closed(void **state)
{
    (void)state;
    job_open(KVR_DIGEST_OFF);
    layers_ready(1);
    finish_all(bench.rails[1].newest);
    tell_push(PUSH_STOP, NULL);
    tell_push(PUSH_CLOSE, NULL);
    assert_false(was_told(PUSH_CLOSED));
    command(&bench, KVR_GROUP_RECYCLE, 0, NULL);
    assert_true(was_told(PUSH_CLOSED));
}

/* Rule 3: what went over a broken pair is named once; it goes again only when MISSING says so. */
static void push_names_what_went_over_a_pair(void **state)
{
    struct push_list *list = malloc(sizeof(*list) + SMALL_CHUNKS * sizeof(list->runs[0]));
    unsigned on_0, named = 0;

    (void)state;
    assert_non_null(list);
    close_push(NULL);
    window = 4; /* so that both rails get some */
    open_push(NULL);
    job_open(KVR_DIGEST_OFF);
    layers_ready(SMALL_LAYERS);
    on_0 = bench.rails[0].newest->write_count;
    assert_true(on_0 > 0 && on_0 < SMALL_CHUNKS);
    finish(bench.rails[0].newest, 0, KVR_RAIL_FAILED);
    step();
    assert_true(was_told(KVR_GROUP_PAIR_BROKEN));
    *list =
        (struct push_list){.rail = 0, .target_rail = 0, .epoch = 1, .run_capacity = SMALL_CHUNKS};
    tell_push(PUSH_LIST, list);
    assert_true(was_told(PUSH_LISTED));
    assert_true(list->found);
    assert_int_equal(list->pair.rail, 0);
    for (uint32_t i = 0; i < list->run_count; i++)
        named += list->runs[i].chunk_count;
    assert_int_equal(named, on_0);
    tell_push(PUSH_LIST, list); /* the next such pair: there is none */
    assert_false(list->found);
    for (unsigned i = 0; i < 4; i++)
        complete_all();
    assert_int_equal(job.posted, SMALL_CHUNKS); /* nothing was posted again by itself */
    assert_int_equal(job.repeated, 0);
    free(list);
}

static void push_posts_again_what_is_missing(void **state)
{
    struct push_again *again = malloc(sizeof(*again) + sizeof(again->runs[0]));
    struct kvr_group_message message;

    (void)state;
    assert_non_null(again);
    job_open(KVR_DIGEST_OFF);
    layers_ready(1);
    tell_push(PUSH_FINAL, NULL);
    complete_all();
    *again = (struct push_again){.round = 3, .run_count = 1};
    /* Two that were posted, and two that are still to come: those need no second posting. */
    again->runs[0] = (struct kvr_chunk_run){SMALL_PLANNED - 2, 4};
    tell_push(PUSH_AGAIN, again);
    assert_true(told(PUSH_AGAIN_DONE, &message));
    assert_ptr_equal(message.pointer, again);
    assert_int_equal(posted(), 2);
    assert_false(was_told(PUSH_POSTED));
    layers_ready(SMALL_LAYERS);
    assert_true(told(PUSH_POSTED, &message));
    assert_int_equal(message.a, 3);
    assert_int_equal(message.b, SMALL_CHUNKS + 2);
    assert_int_equal(message.c, 2);
    free(again);
}

/* Rule 3 again: another group takes the job over, and posts only what was never posted. */
static void push_moves_what_is_left(void **state)
{
    struct push_job heir;
    struct push_move move = {.heir = &heir, .target = &target.set, .target_rails = UINT32_MAX};
    struct kvr_group_message message;

    (void)state;
    job_open(KVR_DIGEST_OFF);
    layers_ready(1);
    tell_push(PUSH_FINAL, NULL);
    tell_push(PUSH_MOVE, &move);
    assert_true(was_told(PUSH_MOVED));
    layers_ready(2);
    assert_int_equal(posted(), SMALL_PLANNED); /* it is nobody's until it is opened again */
    assert_false(was_told(PUSH_CLOSED));       /* cards still read */
    complete_all();
    assert_true(told(PUSH_CLOSED, &message));
    assert_ptr_equal(message.pointer, &job);
    tell_push(PUSH_OPEN, &heir);
    layers_ready(SMALL_LAYERS);
    assert_int_equal(posted(), SMALL_CHUNKS - SMALL_PLANNED);
    assert_true(told(PUSH_POSTED, &message));
    assert_int_equal(message.b, SMALL_CHUNKS);
    assert_int_equal(message.c, 0);
}

/* It was to stop while it moved. */
static void a_late_heir_posts_nothing(void **state)
{
    struct push_job heir;
    struct push_move move = {.heir = &heir, .target = &target.set, .target_rails = UINT32_MAX};

    (void)state;
    job_open(KVR_DIGEST_OFF);
    layers_ready(1);
    tell_push(PUSH_MOVE, &move);
    complete_all();
    heir.late = true;
    tell_push(PUSH_OPEN, &heir);
    layers_ready(SMALL_LAYERS);
    assert_int_equal(posted(), 0);
    tell_push(PUSH_STOP, NULL);
    layers_ready(SMALL_LAYERS);
    assert_int_equal(posted(), 0);
    assert_true(was_told(PUSH_STOPPED));
}

static void push_says_when_no_rail_is_left(void **state)
{
    (void)state;
    job_open(KVR_DIGEST_OFF);
    bench.rails[0].newest->next_write = bench.rails[1].newest->next_write = KVR_RAIL_FAILED;
    layers_ready(SMALL_LAYERS);
    assert_true(was_told(PUSH_NO_RAIL));
    step();
    assert_false(was_told(PUSH_NO_RAIL)); /* once */
    command(&bench, KVR_GROUP_RECYCLE, 0, NULL);
    step();
    assert_true(was_told(PUSH_RAIL_BACK));
    assert_true(posted() > 0);
}

/* Other rails of the target's were named, and they are no better: whoever waits for them hears it.
 */
static void push_says_that_other_rails_are_lost_too(void **state)
{
    struct push_move move = {.target = &target.set, .target_rails = 1};

    (void)state;
    job_open(KVR_DIGEST_OFF);
    bench.rails[0].newest->next_write = bench.rails[1].newest->next_write = KVR_RAIL_FAILED;
    layers_ready(SMALL_LAYERS);
    assert_true(was_told(PUSH_NO_RAIL));
    tell_push(PUSH_MOVE, &move);
    assert_true(was_told(PUSH_MOVED));
    step();
    assert_true(was_told(PUSH_NO_RAIL));
}

/* Of the bytes as they were at the first posting, and never of a second one. */
static void push_hashes_what_it_posts(void **state)
{
    struct push_again *again = malloc(sizeof(*again) + sizeof(again->runs[0]));

    (void)state;
    assert_non_null(again);
    for (uint32_t chunk = 0; chunk < SMALL_CHUNKS; chunk++)
        memset(small_chunk(&source, segment.plan, chunk, true), (int)chunk + 1, SMALL_PAGE_BYTES);
    job_open(KVR_DIGEST_FULL);
    layers_ready(SMALL_LAYERS);
    for (uint32_t chunk = 0; chunk < SMALL_CHUNKS; chunk++)
        assert_int_equal(
            digests[chunk],
            kvr_chunk_digest(small_chunk(&source, segment.plan, chunk, true), SMALL_PAGE_BYTES, 0));
    complete_all();
    small_chunk(&source, segment.plan, 2, true)[5] ^= 1; /* the engine may not, and did */
    *again = (struct push_again){.round = 1, .run_count = 1};
    again->runs[0] = (struct kvr_chunk_run){2, 1};
    tell_push(PUSH_AGAIN, again);
    assert_int_equal(posted(), 1);
    assert_int_not_equal(digests[2], kvr_chunk_digest(small_chunk(&source, segment.plan, 2, true),
                                                      SMALL_PAGE_BYTES, 0));
    free(again);
}

/* What an engine's GPU stores rings nothing: the thread must look by itself, as long as a word is
 * awaited and no longer. */
static void push_looks_often_where_a_gpu_stores_words(void **state)
{
    struct kvr_group_user user = push_user(&push);
    static struct kvr_shared_page page;

    (void)state;
    push.pages[1] = &page;
    job_open(KVR_DIGEST_OFF);
    step();
    assert_false(user.copying(user.self));
    atomic_store(&page.streamed, 1);
    assert_true(user.copying(user.self));
    layers_ready(SMALL_LAYERS);
    complete_all();
    assert_false(user.copying(user.self));
}

/* All but one of the pairs that the job's table has room for are gone. */
static void pairs_fill(const struct kvr_pair *last)
{
    for (uint32_t i = 0; i < KVR_EPOCHS_PER_TRANSFER; i++)
        job.pairs[i].pair = (struct kvr_pair){.target_rail = 1, .epoch = 100 + i};
    job.pairs[KVR_EPOCHS_PER_TRANSFER - 1].pair = *last;
    job.pair_count = KVR_EPOCHS_PER_TRANSFER;
}

/* It is bounded what a transfer keeps of pairs, not how often endpoints are replaced: it stays with
 * those that it knows. */
static void push_goes_on_over_the_pairs_it_knows(void **state)
{
    struct kvr_group_message message;

    (void)state;
    job_open(KVR_DIGEST_OFF);
    tell_push(PUSH_FINAL, NULL);
    pairs_fill(&(struct kvr_pair){.rail = 1, .target_rail = 1, .epoch = 1});
    layers_ready(SMALL_LAYERS);
    assert_int_equal(bench.rails[0].newest->write_count, 0);
    assert_int_equal(bench.rails[1].newest->write_count, SMALL_CHUNKS);
    assert_int_equal(job.pairs[KVR_EPOCHS_PER_TRANSFER - 1].count, SMALL_CHUNKS);
    assert_true(told(PUSH_POSTED, &message));
}

static void push_has_no_rail_when_no_pair_that_it_knows_is_left(void **state)
{
    (void)state;
    job_open(KVR_DIGEST_OFF);
    tell_push(PUSH_FINAL, NULL);
    pairs_fill(&(struct kvr_pair){.rail = 1, .target_rail = 1, .epoch = 99});
    layers_ready(SMALL_LAYERS);
    assert_true(was_told(PUSH_NO_RAIL));
    assert_int_equal(posted(), 0);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, open_push, close_push)
    const struct CMUnitTest tests[] = {
        CASE(push_posts_layers_as_they_become_ready),
        CASE(push_counts_what_was_accepted),
        CASE(push_gives_back_after_the_last_completion),
        CASE(push_goes_on_over_the_pairs_it_knows),
        CASE(push_has_no_rail_when_no_pair_that_it_knows_is_left),
        CASE(push_gives_back_when_the_endpoint_closed),
        CASE(push_names_what_went_over_a_pair),
        CASE(push_posts_again_what_is_missing),
        CASE(push_moves_what_is_left),
        CASE(a_late_heir_posts_nothing),
        CASE(push_says_when_no_rail_is_left),
        CASE(push_says_that_other_rails_are_lost_too),
        CASE(push_hashes_what_it_posts),
        CASE(push_looks_often_where_a_gpu_stores_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
