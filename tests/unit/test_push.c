/* Goal: push posts each ready chunk once, over any rail with room. It counts accepted posts and
 * reports which chunks went where. It posts a chunk again only on command, and gives a job back
 * only when no card can read for it any more. Method: push alone on a scripted fabric: the loop's
 * commands, readiness words and completions in, writes and messages out. */
#include "tests/support/check.h"

#include "kv/chunk_digest.h"
#include "prefill-agent/push.h"
#include "tests/support/fake_group.h"
#include "tests/support/small_plan.h"

#define TRANSFER 42
#define SLOT     7
#define TAG      0xfeedface

static struct push push;
static struct group_fixture fixture;
static struct small_side source, target;
static struct kvr_buddy memory;
static struct push_job job;
static struct push_segment segment;
static uint8_t where[SMALL_CHUNKS];
static uint64_t digests[SMALL_CHUNKS];
static _Atomic uint64_t word;
static uint32_t window; /* writes; 0: the fabric's default */
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
    fixture_open_as(&fixture, &(struct kvr_group_options){.rail_count = 2,
                                                          .window_writes = window,
                                                          .ring_entries = 256,
                                                          .user = push_user(&push)});
    window = 0;
    push.group = fixture.group;
    peer_add(&fixture, 0, 2);
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
    kvr_group_close(fixture.group);
    return 0;
}

static void step(void)
{
    fixture_settle(&fixture, now);
}

static void tell_push(union push_message message)
{
    fixture_tell(&fixture, now, &message.any);
}

static bool told(uint32_t kind, union push_message *ret_message)
{
    return fixture_told(&fixture, kind, &ret_message->any);
}

static bool was_told(uint32_t kind)
{
    union push_message message;

    return told(kind, &message);
}

static void job_open(kvr_digest_mode digest)
{
    job.transfer = TRANSFER;
    job.source = &source.set;
    job.target = &target.set;
    job.slots[0] = SLOT;
    job.slot_count = 1;
    job.tag = TAG;
    job.target_rails = UINT32_MAX;
    job.digest = digest;
    tell_push(PUSH_MESSAGE(PUSH_OPEN, .opened = &job));
    tell_push(PUSH_MESSAGE(PUSH_SEGMENT, .segment = &segment));
}

/* Where each write of that rail is to land, and with which key. */
static bool all_written_with(uint32_t rail, uint64_t key, uint64_t base)
{
    const struct kvr_endpoint *endpoint = fixture.rails[rail].newest;

    for (unsigned i = 0; i < endpoint->write_count; i++) {
        const struct kvr_fabric_piece *piece = &endpoint->writes[i].first;

        if (piece->key != key || piece->remote - base >= target.region.layout.bytes)
            return false;
    }
    return true;
}

static void layers_ready(uint64_t layers)
{
    atomic_store(&word, layers);
    step();
}

static unsigned posted(void)
{
    return fixture.rails[0].newest->write_count + fixture.rails[1].newest->write_count;
}

static void complete_all(void)
{
    finish_all(fixture.rails[0].newest);
    finish_all(fixture.rails[1].newest);
    step();
}

/* Layers that are not ready are not read, and every chunk is posted once. */
static void push_posts_layers_as_they_become_ready(void **state)
{
    union push_message message;
    uint32_t seen = 0;

    (void)state;
    job_open(KVR_DIGEST_OFF);
    tell_push(PUSH_MESSAGE(PUSH_FINAL));
    assert_int_equal(posted(), 0);
    layers_ready(1);
    assert_true(told(PUSH_FIRST_POST, &message));
    assert_int_equal(message.ready_at, now);
    assert_int_equal(posted(), SMALL_PLANNED);
    assert_false(was_told(PUSH_ALL_READY));
    now += KVR_MS;
    layers_ready(SMALL_LAYERS);
    assert_true(told(PUSH_ALL_READY, &message));
    assert_int_equal(message.ready_at, now);
    assert_int_equal(posted(), SMALL_CHUNKS);
    for (uint32_t rail = 0; rail < 2; rail++) {
        const struct kvr_endpoint *endpoint = fixture.rails[rail].newest;

        for (unsigned i = 0; i < endpoint->write_count; i++) {
            assert_int_equal(endpoint->writes[i].immediate >> 16, (uint64_t)TAG << 16 | SLOT);
            seen |= 1u << (endpoint->writes[i].immediate & 0xffff);
        }
    }
    assert_int_equal(seen, (1u << SMALL_CHUNKS) - 1);
    assert_true(told(PUSH_POSTED, &message));
    assert_int_equal(message.sum.round, 0);
    assert_int_equal(message.sum.posted, SMALL_CHUNKS);
    assert_int_equal(message.sum.repeated, 0);
}

static union {
    struct kvr_span_book book;
    uint8_t room[sizeof(struct kvr_span_book) + SMALL_LAYERS * sizeof(struct kvr_layer_span)];
} notes;

static kvr_ns begins(uint32_t layer)
{
    return notes.book.layers[layer].begins;
}

static kvr_ns ends(uint32_t layer)
{
    return notes.book.layers[layer].ends;
}

static int open_narrow(void **state)
{
    window = 1;
    return open_push(state);
}

/* A layer is posted with its last chunk: two have room at a time. */
static void push_notes_when_layers_pass(void **state)
{
    uint64_t writes = 0, bytes = 0;
    kvr_ns seen;

    (void)state;
    kvr_span_book_open(&notes.book, now, 0, SMALL_LAYERS);
    job.posts.spans = &notes.book;
    job_open(KVR_DIGEST_OFF);
    tell_push(PUSH_MESSAGE(PUSH_FINAL));
    now += KVR_MS;
    layers_ready(1);
    seen = now;
    assert_int_equal(begins(0), seen);
    assert_int_equal(ends(0) + begins(1) + ends(1), 0);
    now += KVR_MS;
    complete_all();
    assert_int_equal(job.posts.accepted, SMALL_PLANNED);
    assert_int_equal(begins(0), seen);
    assert_int_equal(ends(0), now);
    assert_int_equal(begins(1) + ends(1), 0);
    seen = now += KVR_MS;
    for (layers_ready(SMALL_LAYERS); job.posts.accepted < SMALL_CHUNKS; now += KVR_MS) {
        assert_int_equal(ends(1), 0);
        complete_all();
    }
    assert_int_equal(begins(1), seen);
    assert_true(ends(1) > seen && ends(1) < now);
    for (uint32_t i = 0; i < job.posts.pair_count; i++) {
        writes += job.posts.pairs[i].count;
        bytes += job.posts.pairs[i].bytes;
        assert_int_equal(job.posts.pairs[i].repeated, 0);
    }
    assert_int_equal(writes, SMALL_CHUNKS);
    assert_int_equal(bytes, SMALL_CHUNKS * SMALL_PAGE_BYTES);
}

/* Rule 4: counts of accepted posts by (target rail, epoch), sent before POSTED. */
static void push_counts_what_was_accepted(void **state)
{
    union push_message message;
    uint64_t total = 0, on[2] = {fixture.rails[0].newest->write_count, 0};

    (void)state;
    job_open(KVR_DIGEST_OFF);
    layers_ready(SMALL_LAYERS);
    on[0] = fixture.rails[0].newest->write_count;
    on[1] = fixture.rails[1].newest->write_count;
    tell_push(PUSH_MESSAGE(PUSH_FINAL));
    while (kvr_group_event(fixture.group, &message.any) && message.head.kind != PUSH_POSTED) {
        if (message.head.kind != PUSH_COUNT)
            continue;
        assert_int_equal(message.count.epoch, 1);
        assert_int_equal(message.count.count, on[message.count.rail]);
        total += message.count.count;
    }
    assert_int_equal(message.head.kind, PUSH_POSTED);
    assert_int_equal(total, SMALL_CHUNKS);
}

/* Rule 2: after STOP nothing is posted, and the job is given back with the last completion. */
static void push_gives_back_after_the_last_completion(void **state)
{
    union push_message message;

    (void)state;
    job_open(KVR_DIGEST_OFF);
    layers_ready(1);
    tell_push(PUSH_MESSAGE(PUSH_STOP));
    assert_true(told(PUSH_STOPPED, &message));
    assert_int_equal(message.sum.posted, SMALL_PLANNED);
    layers_ready(SMALL_LAYERS);
    assert_int_equal(posted(), SMALL_PLANNED);
    tell_push(PUSH_MESSAGE(PUSH_CLOSE));
    assert_false(was_told(PUSH_CLOSED));
    finish(fixture.rails[0].newest->write_count > 0 ? fixture.rails[0].newest
                                                    : fixture.rails[1].newest,
           0, KVR_OK);
    step();
    assert_false(was_told(PUSH_CLOSED));
    complete_all();
    assert_true(told(PUSH_CLOSED, &message));
    assert_ptr_equal(message.closed, &job);
}

/* A write that hangs holds the job until its endpoint is closed. */
static void push_gives_back_when_the_endpoint_closed(void **state)
{
    (void)state;
    job_open(KVR_DIGEST_OFF);
    layers_ready(1);
    finish_all(fixture.rails[1].newest);
    tell_push(PUSH_MESSAGE(PUSH_STOP));
    tell_push(PUSH_MESSAGE(PUSH_CLOSE));
    assert_false(was_told(PUSH_CLOSED));
    command(&fixture, KVR_GROUP_RECYCLE, 0, NULL);
    assert_true(was_told(PUSH_CLOSED));
}

/* Rule 3: chunks that went over a broken pair are named once; they go again only when MISSING asks
 * for them. */
static void push_names_what_went_over_a_pair(void **state)
{
    struct push_list *list = malloc(sizeof(*list) + SMALL_CHUNKS * sizeof(list->runs[0]));
    unsigned on_0, named = 0;

    (void)state;
    assert_non_null(list);
    close_push(NULL);
    window = 4; /* so both rails get some */
    open_push(NULL);
    job_open(KVR_DIGEST_OFF);
    layers_ready(SMALL_LAYERS);
    on_0 = fixture.rails[0].newest->write_count;
    assert_true(on_0 > 0 && on_0 < SMALL_CHUNKS);
    finish(fixture.rails[0].newest, 0, KVR_RAIL_FAILED);
    step();
    assert_true(was_told(KVR_GROUP_PAIR_BROKEN));
    *list =
        (struct push_list){.rail = 0, .target_rail = 0, .epoch = 1, .run_capacity = SMALL_CHUNKS};
    tell_push(PUSH_MESSAGE(PUSH_LIST, .list = list));
    assert_true(was_told(PUSH_LISTED));
    assert_true(list->found);
    assert_int_equal(list->pair.rail, 0);
    for (uint32_t i = 0; i < list->run_count; i++)
        named += list->runs[i].chunk_count;
    assert_int_equal(named, on_0);
    tell_push(PUSH_MESSAGE(PUSH_LIST, .list = list)); /* for the next such pair: there is none */
    assert_false(list->found);
    for (unsigned i = 0; i < 4; i++)
        complete_all();
    assert_int_equal(job.posts.accepted, SMALL_CHUNKS); /* nothing was posted again by itself */
    assert_int_equal(job.posts.repeated, 0);
    free(list);
}

static void push_posts_again_what_is_missing(void **state)
{
    struct push_retransmit *retransmit = malloc(sizeof(*retransmit) + sizeof(retransmit->runs[0]));
    union push_message message;

    (void)state;
    assert_non_null(retransmit);
    job_open(KVR_DIGEST_OFF);
    layers_ready(1);
    tell_push(PUSH_MESSAGE(PUSH_FINAL));
    complete_all();
    *retransmit = (struct push_retransmit){.round = 3, .run_count = 1};
    /* Two were posted, and two are still to come: the latter need no second posting. */
    retransmit->runs[0] = (struct kvr_chunk_run){SMALL_PLANNED - 2, 4};
    tell_push(PUSH_MESSAGE(PUSH_RETRANSMIT, .retransmit = retransmit));
    assert_true(told(PUSH_RETRANSMIT_DONE, &message));
    assert_ptr_equal(message.retransmit, retransmit);
    assert_int_equal(posted(), 2);
    assert_false(was_told(PUSH_POSTED));
    layers_ready(SMALL_LAYERS);
    assert_true(told(PUSH_POSTED, &message));
    assert_int_equal(message.sum.round, 3);
    assert_int_equal(message.sum.posted, SMALL_CHUNKS + 2);
    assert_int_equal(message.sum.repeated, 2);
    assert_int_equal(job.posts.pairs[0].repeated + job.posts.pairs[1].repeated, 2);
    free(retransmit);
}

/* Rule 3 again: another group takes the job over, and posts only what was never posted. */
static void push_moves_what_is_left(void **state)
{
    struct push_job successor;
    struct push_failover failover = {
        .successor = &successor, .target = &target.set, .target_rails = UINT32_MAX};
    union push_message message;

    (void)state;
    job_open(KVR_DIGEST_OFF);
    layers_ready(1);
    tell_push(PUSH_MESSAGE(PUSH_FINAL));
    tell_push(PUSH_MESSAGE(PUSH_FAILOVER, .failover = &failover));
    assert_true(was_told(PUSH_FAILED_OVER));
    layers_ready(2);
    assert_int_equal(posted(), SMALL_PLANNED); /* the job has no owner until it is opened again */
    assert_false(was_told(PUSH_CLOSED));       /* cards still read */
    complete_all();
    assert_true(told(PUSH_CLOSED, &message));
    assert_ptr_equal(message.closed, &job);
    tell_push(PUSH_MESSAGE(PUSH_OPEN, .opened = &successor));
    layers_ready(SMALL_LAYERS);
    assert_int_equal(posted(), SMALL_CHUNKS - SMALL_PLANNED);
    assert_true(told(PUSH_POSTED, &message));
    assert_int_equal(message.sum.posted, SMALL_CHUNKS);
    assert_int_equal(message.sum.repeated, 0);
}

/* It was stopped during its failover. */
static void a_late_heir_posts_nothing(void **state)
{
    struct push_job successor;
    struct push_failover failover = {
        .successor = &successor, .target = &target.set, .target_rails = UINT32_MAX};

    (void)state;
    job_open(KVR_DIGEST_OFF);
    layers_ready(1);
    tell_push(PUSH_MESSAGE(PUSH_FAILOVER, .failover = &failover));
    complete_all();
    successor.state = PUSH_JOB_AWAITING_STOP;
    tell_push(PUSH_MESSAGE(PUSH_OPEN, .opened = &successor));
    layers_ready(SMALL_LAYERS);
    assert_int_equal(posted(), 0);
    tell_push(PUSH_MESSAGE(PUSH_STOP));
    layers_ready(SMALL_LAYERS);
    assert_int_equal(posted(), 0);
    assert_true(was_told(PUSH_STOPPED));
}

static void push_says_when_no_rail_is_left(void **state)
{
    (void)state;
    job_open(KVR_DIGEST_OFF);
    fixture.rails[0].newest->next_write = fixture.rails[1].newest->next_write = KVR_RAIL_FAILED;
    layers_ready(SMALL_LAYERS);
    assert_true(was_told(PUSH_NO_RAIL));
    step();
    assert_false(was_told(PUSH_NO_RAIL)); /* once */
    command(&fixture, KVR_GROUP_RECYCLE, 0, NULL);
    step();
    assert_true(was_told(PUSH_RAIL_BACK));
    assert_true(posted() > 0);
}

/* The target named other rails, and they are lost too: another NO_RAIL goes to the loop. */
static void push_says_that_other_rails_are_lost_too(void **state)
{
    struct push_failover failover = {.target = &target.set, .target_rails = 1};

    (void)state;
    job_open(KVR_DIGEST_OFF);
    fixture.rails[0].newest->next_write = fixture.rails[1].newest->next_write = KVR_RAIL_FAILED;
    layers_ready(SMALL_LAYERS);
    assert_true(was_told(PUSH_NO_RAIL));
    tell_push(PUSH_MESSAGE(PUSH_FAILOVER, .failover = &failover));
    assert_true(was_told(PUSH_FAILED_OVER));
    step();
    assert_true(was_told(PUSH_NO_RAIL));
}

/* Hashes the bytes of the first posting, never of a second one. */
static void push_hashes_what_it_posts(void **state)
{
    struct push_retransmit *retransmit = malloc(sizeof(*retransmit) + sizeof(retransmit->runs[0]));

    (void)state;
    assert_non_null(retransmit);
    for (uint32_t chunk = 0; chunk < SMALL_CHUNKS; chunk++)
        memset(small_chunk(&source, segment.plan, chunk, true), (int)chunk + 1, SMALL_PAGE_BYTES);
    job_open(KVR_DIGEST_FULL);
    layers_ready(SMALL_LAYERS);
    for (uint32_t chunk = 0; chunk < SMALL_CHUNKS; chunk++)
        assert_int_equal(
            digests[chunk],
            kvr_chunk_digest(small_chunk(&source, segment.plan, chunk, true), SMALL_PAGE_BYTES, 0));
    complete_all();
    small_chunk(&source, segment.plan, 2, true)[5] ^= 1; /* an engine may not change it, and did */
    *retransmit = (struct push_retransmit){.round = 1, .run_count = 1};
    retransmit->runs[0] = (struct kvr_chunk_run){2, 1};
    tell_push(PUSH_MESSAGE(PUSH_RETRANSMIT, .retransmit = retransmit));
    assert_int_equal(posted(), 1);
    assert_int_not_equal(digests[2], kvr_chunk_digest(small_chunk(&source, segment.plan, 2, true),
                                                      SMALL_PAGE_BYTES, 0));
    free(retransmit);
}

/* A GPU's store rings no doorbell. The thread must look by itself, while a word is awaited and no
 * longer. */
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

/* Fills the job's table of pairs but for one; those pairs are gone. */
static void pairs_fill(const struct kvr_pair *last)
{
    for (uint32_t i = 0; i < KVR_EPOCHS_PER_TRANSFER; i++)
        job.posts.pairs[i].pair = (struct kvr_pair){.target_rail = 1, .epoch = 100 + i};
    job.posts.pairs[KVR_EPOCHS_PER_TRANSFER - 1].pair = *last;
    job.posts.pair_count = KVR_EPOCHS_PER_TRANSFER;
}

/* A transfer keeps a bounded number of pairs, though endpoints may be replaced any number of times.
 * It stays with the pairs that it knows. */
static void push_goes_on_over_the_pairs_it_knows(void **state)
{
    union push_message message;

    (void)state;
    job_open(KVR_DIGEST_OFF);
    tell_push(PUSH_MESSAGE(PUSH_FINAL));
    pairs_fill(&(struct kvr_pair){.rail = 1, .target_rail = 1, .epoch = 1});
    layers_ready(SMALL_LAYERS);
    assert_int_equal(fixture.rails[0].newest->write_count, 0);
    assert_int_equal(fixture.rails[1].newest->write_count, SMALL_CHUNKS);
    assert_int_equal(job.posts.pairs[KVR_EPOCHS_PER_TRANSFER - 1].count, SMALL_CHUNKS);
    assert_true(told(PUSH_POSTED, &message));
}

static void push_has_no_rail_when_no_pair_that_it_knows_is_left(void **state)
{
    (void)state;
    job_open(KVR_DIGEST_OFF);
    tell_push(PUSH_MESSAGE(PUSH_FINAL));
    pairs_fill(&(struct kvr_pair){.rail = 1, .target_rail = 1, .epoch = 99});
    layers_ready(SMALL_LAYERS);
    assert_true(was_told(PUSH_NO_RAIL));
    assert_int_equal(posted(), 0);
}

/* Rule 14. Without keys of GRANT those of the regions hold, which differ from rail to rail. */
static void keys_of_the_grant_are_used(void **state)
{
    static const struct kvr_remote_key key = {77, 1 << 20};

    (void)state;
    for (uint32_t r = 0; r < 2; r++)
        target.remotes[0].keys[r] = (struct kvr_remote_key){100 + r, 1000};
    job_open(KVR_DIGEST_OFF);
    layers_ready(1);
    assert_int_equal(posted(), SMALL_CHUNKS / 2);
    assert_true(all_written_with(0, 100, 1000) && all_written_with(1, 101, 1000));
    fixture.rails[0].newest->write_count = fixture.rails[1].newest->write_count = 0;
    job.keys = &key;
    layers_ready(2);
    assert_int_equal(posted(), SMALL_CHUNKS / 2);
    assert_true(all_written_with(0, 77, 1 << 20) && all_written_with(1, 77, 1 << 20));
}

/* Until a job ends, its target has not said that it has read the arrivals. */
static void pairs_are_unread_until_the_job_ends(void **state)
{
    struct kvr_group_user user = push_user(&push);
    struct kvr_pair pair, other;

    (void)state;
    job_open(KVR_DIGEST_OFF);
    layers_ready(SMALL_LAYERS);
    assert_int_equal(posted(), SMALL_CHUNKS);
    pair = job.posts.pairs[0].pair;
    other = pair;
    other.epoch++;
    assert_true(user.unread(user.self, job.peer, &pair));
    assert_false(user.unread(user.self, job.peer, &other));
    assert_false(user.unread(user.self, job.peer + 1, &pair));
    tell_push(PUSH_MESSAGE(PUSH_STOP));
    tell_push(PUSH_MESSAGE(PUSH_CLOSE));
    complete_all();
    assert_true(was_told(PUSH_CLOSED));
    assert_false(user.unread(user.self, job.peer, &pair));
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, open_push, close_push)
    const struct CMUnitTest tests[] = {
        CASE(push_posts_layers_as_they_become_ready),
        cmocka_unit_test_setup_teardown(push_notes_when_layers_pass, open_narrow, close_push),
        CASE(keys_of_the_grant_are_used),
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
        CASE(pairs_are_unread_until_the_job_ends),
        CASE(push_looks_often_where_a_gpu_stores_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
