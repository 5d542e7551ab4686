/* Goal: pages that the cards cannot read leave from the stage's ring, whole, in bounded memory. A
 * job is given back only when no copy reads its pages any more. A failed copy ends in a reason.
 * Method: push on a scripted fabric and an emulated device, in virtual time. */
#include "tests/support/check.h"

#include "base/rng.h"
#include "kv/chunk_digest.h"
#include "prefill-agent/push.h"
#include "tests/support/fake_group.h"
#include "tests/support/small_stage.h"
#include "wire/revocation_words.h"

#define TRANSFER 42
#define SLOT     7
#define SILENCE  (3 * KVR_S)

static struct push push;
static struct push_stage staged;
static struct group_fixture fixture;
static struct small_side source, target;
static struct small_stage stage;
static struct kvr_buddy memory;
static struct push_job job;
static struct push_segment segment;
static uint8_t where[SMALL_CHUNKS];
static uint64_t digests[SMALL_CHUNKS], positions[SMALL_CHUNKS];
static uint32_t share_pages = SMALL_CHUNKS; /* of the target's staging memory */
static kvr_ns now;
static const struct kvr_plan_limits *plan_limits; /* NULL: a page a chunk */

static void tell_push(union push_message message)
{
    fixture_tell(&fixture, now, &message.any);
}

static void job_open(uint32_t ring_pages, bool fail, bool to_share)
{
    static uint8_t tables[1 << 20] __attribute__((aligned(64)));

    memset(&push, 0, sizeof(push));
    memset(&staged, 0, sizeof(staged));
    memset(&job, 0, sizeof(job));
    memset(&segment, 0, sizeof(segment));
    now = KVR_S;
    kvr_buddy_init(&memory, tables, sizeof(tables));
    small_side_init(&source, FAKE_RAILS);
    small_side_init(&target, FAKE_RAILS);
    for (uint32_t i = 0; i < sizeof(source.memory); i++)
        source.memory[i] = (uint8_t)kvr_mix64(i);
    small_stage_open(&stage, &source, ring_pages, fail, &staged);
    fixture_open_as(&fixture, &(struct kvr_group_options){.rail_count = 2,
                                                          .ring_entries = 256,
                                                          .silence_ns = SILENCE,
                                                          .user = push_user(&push)});
    push.group = fixture.group;
    peer_add(&fixture, 0, 2);
    segment.plan = plan_limits != NULL ? small_plan_within(&source, &target, plan_limits, &memory)
                                       : small_plan_make(&source, &target, &memory);
    segment.where = where;
    segment.digests = digests;
    job.transfer = TRANSFER;
    job.source = &source.set;
    job.via = &stage.stage;
    job.target = &target.set;
    job.slots[0] = SLOT;
    job.slot_count = 1;
    job.target_rails = UINT32_MAX;
    job.digest = KVR_DIGEST_FULL;
    if (to_share) {
        uint64_t position = 0;

        job.quota.bytes = job.quota.room = share_pages * (uint64_t)SMALL_PAGE_BYTES;
        assert_true(kvr_plan_positions(segment.plan, job.quota.bytes, &position, positions));
        segment.positions = positions;
        job.quota.memory = target.remotes[0];
        job.quota.offset = 3 * SMALL_PAGE_BYTES;
    }
    tell_push(PUSH_MESSAGE(PUSH_OPEN, .opened = &job));
    tell_push(PUSH_MESSAGE(PUSH_SEGMENT, .segment = &segment));
    tell_push(PUSH_MESSAGE(PUSH_FINAL));
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

static unsigned posted(void)
{
    return fixture.rails[0].newest->write_count + fixture.rails[1].newest->write_count;
}

/* The copies that are under way end. */
static void copies_end(void)
{
    kvr_ns next = kvr_device_emulated_next(stage.stage.device);

    assert_true(next != KVR_NEVER);
    now = next + 10 * SMALL_COPY_NS;
    fixture_settle(&fixture, now);
}

static void complete_all(void)
{
    finish_all(fixture.rails[0].newest);
    finish_all(fixture.rails[1].newest);
    fixture_settle(&fixture, now);
}

static void job_end(void)
{
    union push_message message;

    tell_push(PUSH_MESSAGE(PUSH_STOP));
    tell_push(PUSH_MESSAGE(PUSH_CLOSE));
    while (kvr_device_emulated_next(stage.stage.device) != KVR_NEVER)
        copies_end();
    complete_all();
    assert_true(told(PUSH_CLOSED, &message));
    assert_int_equal(staged.ring.count, 0);
    assert_int_equal(job.staged, 0);
    kvr_plan_free(segment.plan, &memory);
    kvr_group_close(fixture.group);
    small_stage_close(&stage);
}

/* The bytes of each write are the page's, somewhere in the ring; counted in `seen`. */
static void check_writes(uint32_t *seen, bool to_share)
{
    for (uint32_t rail = 0; rail < 2; rail++) {
        const struct kvr_endpoint *endpoint = fixture.rails[rail].newest;

        for (unsigned i = 0; i < endpoint->write_count; i++) {
            const struct fake_write *write = &endpoint->writes[i];
            uint32_t chunk = write->immediate & 0xffff;
            const uint8_t *local = write->first.local;

            assert_int_equal(write->immediate >> 16, SLOT);
            assert_int_equal(write->first.bytes, SMALL_PAGE_BYTES);
            assert_true(local >= stage.memory &&
                        local + SMALL_PAGE_BYTES <= stage.memory + stage.stage.bytes);
            assert_memory_equal(local, small_chunk(&source, segment.plan, chunk, true),
                                SMALL_PAGE_BYTES);
            if (to_share)
                assert_int_equal(write->first.remote, (3 + chunk % share_pages) * SMALL_PAGE_BYTES);
            *seen |= 1u << chunk;
        }
    }
}

static void chunks_leave_from_the_ring_when_they_are_whole(void **state)
{
    union push_message message;
    uint32_t seen = 0;

    (void)state;
    job_open(16, false, false);
    assert_int_equal(posted(), 0); /* they are being gathered */
    assert_int_equal(job.staged, SMALL_CHUNKS);
    assert_false(was_told(PUSH_POSTED));
    copies_end();
    assert_int_equal(posted(), SMALL_CHUNKS);
    check_writes(&seen, false);
    assert_int_equal(seen, (1u << SMALL_CHUNKS) - 1);
    assert_true(told(PUSH_POSTED, &message));
    assert_int_equal(message.sum.posted, SMALL_CHUNKS);
    for (uint32_t i = 0; i < SMALL_CHUNKS; i++)
        assert_int_equal(digests[i], kvr_chunk_digest(small_chunk(&source, segment.plan, i, true),
                                                      SMALL_PAGE_BYTES, 0));
    job_end();
}

static void a_full_ring_waits_for_completions(void **state)
{
    uint32_t seen = 0, rounds = 0;

    (void)state;
    job_open(3, false, false);
    while (seen != (1u << SMALL_CHUNKS) - 1) {
        uint32_t before = seen;

        copies_end();
        assert_int_equal(posted(), seen == 0x3f ? 2 : 3);
        check_writes(&seen, false);
        assert_true(seen != before);
        assert_true(kvr_device_emulated_next(stage.stage.device) == KVR_NEVER); /* no room */
        complete_all();
        rounds++;
    }
    assert_int_equal(rounds, 3);
    assert_true(was_told(PUSH_POSTED));
    job_end();
}

/* Writes that hang hold the whole ring, and the rails have room: without a word every job of the
 * stage would wait until something else needs a fresh endpoint. */
static void a_ring_that_hangs_is_told(void **state)
{
    struct kvr_group_message message;
    unsigned told_count = 0;

    (void)state;
    job_open(3, false, false);
    copies_end();
    assert_int_equal(posted(), 3);
    fixture_settle(&fixture, now + SILENCE / 2);
    assert_false(fixture_told(&fixture, KVR_GROUP_RAIL_ERROR, &message));
    now += SILENCE;
    fixture_settle(&fixture, now);
    for (; fixture_told(&fixture, KVR_GROUP_RAIL_ERROR, &message); told_count++) {
        assert_int_equal(message.rail_error.status, KVR_FULL);
        message = (struct kvr_group_message){.head.kind = KVR_GROUP_RECYCLE,
                                             .recycle.rail = message.rail_error.rail};
        fixture_tell(&fixture, now, &message);
        fixture_settle(&fixture, now);
    }
    assert_true(told_count > 0);
    copies_end(); /* there is room again */
    assert_true(posted() > 0);
    job_end();
}

/* Another transfer to the same peer, over the same rails. Its chunks find no room in the ring. */
static void second_open(struct push_job *second, struct push_segment *chunks)
{
    static uint8_t places[SMALL_CHUNKS];

    *second = (struct push_job){.index = 1,
                                .transfer = TRANSFER + 1,
                                .source = &source.set,
                                .via = &stage.stage,
                                .target = &target.set,
                                .slots = {SLOT + 1},
                                .slot_count = 1,
                                .target_rails = UINT32_MAX};
    *chunks = (struct push_segment){.plan = segment.plan, .where = places};
    tell_push(PUSH_MESSAGE(PUSH_OPEN, .job = 1, .opened = second));
    tell_push(PUSH_MESSAGE(PUSH_SEGMENT, .job = 1, .segment = chunks));
    tell_push(PUSH_MESSAGE(PUSH_FINAL, .job = 1));
    fixture_settle(&fixture, now);
}

static void rails_refuse(kvr_status status)
{
    fixture.rails[0].newest->next_write = fixture.rails[1].newest->next_write = status;
}

/* Parts of one transfer hold the ring, and no pair takes them. The transfers behind it hear the
 * same: else each would begin to wait for a rail when the one before it gives up. */
static void who_waits_behind_a_held_ring_is_told(void **state)
{
    struct push_job second;
    struct push_segment chunks;
    union push_message message;

    (void)state;
    job_open(3, false, false);
    rails_refuse(KVR_RAIL_FAILED);
    second_open(&second, &chunks);
    copies_end();
    assert_true(told(PUSH_NO_RAIL, &message));
    assert_int_equal(message.transfer, TRANSFER);
    assert_true(told(PUSH_NO_RAIL, &message));
    assert_int_equal(message.transfer, TRANSFER + 1);
    command(&fixture, KVR_GROUP_RECYCLE, 0, NULL);
    fixture_settle(&fixture, now);
    assert_true(told(PUSH_RAIL_BACK, &message));
    assert_int_equal(message.transfer, TRANSFER);
    assert_true(told(PUSH_RAIL_BACK, &message));
    assert_int_equal(message.transfer, TRANSFER + 1);
    tell_push(PUSH_MESSAGE(PUSH_STOP, .job = 1));
    tell_push(PUSH_MESSAGE(PUSH_CLOSE, .job = 1));
    job_end();
}

static void writes_go_to_the_targets_share(void **state)
{
    uint32_t seen = 0;

    (void)state;
    job_open(16, false, true);
    copies_end();
    check_writes(&seen, true);
    assert_int_equal(seen, (1u << SMALL_CHUNKS) - 1);
    job_end();
}

/* A chunk without room at the target is not even gathered. With more room, it lies where the first
 * lay. */
static void what_has_no_room_waits_for_it(void **state)
{
    struct push_retransmit room = {.round = 1, .room = 5 * SMALL_PAGE_BYTES};
    union push_message message;
    uint32_t seen = 0;

    (void)state;
    share_pages = 3;
    job_open(16, false, true);
    assert_int_equal(job.staged, 3);
    assert_false(was_told(PUSH_STAGING_FULL)); /* they are being gathered */
    copies_end();
    check_writes(&seen, true);
    assert_int_equal(seen, 7);
    assert_true(told(PUSH_STAGING_FULL, &message));
    assert_int_equal(message.sum.round, 0);
    assert_int_equal(message.sum.posted, 3);
    assert_false(was_told(PUSH_STAGING_FULL));
    assert_false(job.turn.queued); /* no turn for it until there is more room */
    tell_push(PUSH_MESSAGE(PUSH_RETRANSMIT, .retransmit = &room));
    assert_true(was_told(PUSH_RETRANSMIT_DONE));
    assert_int_equal(job.staged, 2);
    copies_end();
    check_writes(&seen, true);
    assert_int_equal(seen, 0x1f);
    assert_true(told(PUSH_STAGING_FULL, &message));
    assert_int_equal(message.sum.round, 1);
    assert_int_equal(message.sum.posted, 5);
    room = (struct push_retransmit){.round = 2,
                                    .room = 6 * SMALL_PAGE_BYTES - 1}; /* not for one more */
    tell_push(PUSH_MESSAGE(PUSH_RETRANSMIT, .retransmit = &room));
    assert_int_equal(job.staged, 0);
    assert_true(told(PUSH_STAGING_FULL, &message)); /* each round has its answer */
    assert_int_equal(message.sum.round, 2);
    room = (struct push_retransmit){.round = 3, .room = UINT64_MAX};
    tell_push(PUSH_MESSAGE(PUSH_RETRANSMIT, .retransmit = &room));
    copies_end();
    check_writes(&seen, true);
    assert_int_equal(seen, (1u << SMALL_CHUNKS) - 1);
    assert_true(told(PUSH_POSTED, &message));
    assert_int_equal(message.sum.round, 3);
    assert_int_equal(message.sum.posted, SMALL_CHUNKS);
    assert_int_equal(message.sum.repeated, 0);
    share_pages = SMALL_CHUNKS;
    job_end();
}

/* Four pages without neighbours are one write of one run, digested page by page. */
static void one_write_carries_what_one_copy_gathered(void **state)
{
    const struct kvr_plan_limits limits = {KVR_PLAN_ONE_RUN, KVR_PLAN_ONE_RUN,
                                           SMALL_PLANNED * SMALL_PAGE_BYTES};
    uint64_t digest = 0;

    (void)state;
    plan_limits = &limits;
    job_open(16, false, true);
    plan_limits = NULL;
    assert_int_equal(segment.plan->chunk_count, SMALL_LAYERS);
    assert_int_equal(segment.plan->piece_count, SMALL_CHUNKS);
    copies_end();
    assert_int_equal(posted(), SMALL_LAYERS);
    for (uint32_t rail = 0; rail < 2; rail++) {
        const struct kvr_endpoint *endpoint = fixture.rails[rail].newest;

        for (unsigned i = 0; i < endpoint->write_count; i++) {
            const struct fake_write *write = &endpoint->writes[i];
            uint64_t layer = write->immediate & 0xffff;

            assert_int_equal(write->first.bytes, SMALL_PLANNED * SMALL_PAGE_BYTES);
            assert_int_equal(write->first.remote, (3 + layer * SMALL_PLANNED) * SMALL_PAGE_BYTES);
            for (uint64_t page = 0; page < SMALL_PLANNED; page++)
                assert_memory_equal((const uint8_t *)write->first.local + page * SMALL_PAGE_BYTES,
                                    source.memory +
                                        (layer * SMALL_PAGES + 2 * page) * SMALL_PAGE_BYTES,
                                    SMALL_PAGE_BYTES);
        }
    }
    for (uint64_t page = 0; page < SMALL_PLANNED; page++)
        digest =
            kvr_chunk_digest(source.memory + 2 * page * SMALL_PAGE_BYTES, SMALL_PAGE_BYTES, digest);
    assert_int_equal(digests[0], digest);
    job_end();
}

static void a_job_is_given_back_after_its_last_copy(void **state)
{
    (void)state;
    job_open(16, false, false);
    tell_push(PUSH_MESSAGE(PUSH_STOP));
    tell_push(PUSH_MESSAGE(PUSH_CLOSE));
    assert_false(was_told(PUSH_CLOSED)); /* the pages are still read */
    copies_end();
    assert_int_equal(posted(), 0);
    assert_true(was_told(PUSH_CLOSED));
    assert_int_equal(staged.ring.count, 0);
    kvr_plan_free(segment.plan, &memory);
    kvr_group_close(fixture.group);
    small_stage_close(&stage);
}

static void a_copy_that_fails_is_told_once(void **state)
{
    (void)state;
    job_open(16, true, false);
    copies_end();
    assert_int_equal(posted(), 0);
    assert_true(was_told(PUSH_COPY_FAILED));
    assert_false(was_told(PUSH_COPY_FAILED));
    assert_false(was_told(PUSH_POSTED));
    job_end();
}

static void an_engine_that_died_is_not_copied_from(void **state)
{
    (void)state;
    job_open(4, false, false);
    kvr_device_emulated_lose(stage.pages); /* in mid copy */
    copies_end();
    assert_int_equal(posted(), 0);
    assert_true(was_told(PUSH_COPY_FAILED));
    assert_true(kvr_device_emulated_next(stage.stage.device) == KVR_NEVER);
    job_end();
}

static void what_is_missing_is_gathered_again(void **state)
{
    struct push_retransmit *retransmit =
        calloc(1, sizeof(*retransmit) + sizeof(retransmit->runs[0]));
    union push_message message;

    (void)state;
    job_open(16, false, false);
    copies_end();
    assert_true(was_told(PUSH_POSTED));
    complete_all();
    memset(stage.memory, 0, sizeof(stage.memory));
    *retransmit = (struct push_retransmit){.round = 3, .run_count = 1};
    retransmit->runs[0] = (struct kvr_chunk_run){2, 3};
    tell_push(PUSH_MESSAGE(PUSH_RETRANSMIT, .retransmit = retransmit));
    assert_int_equal(posted(), 0);
    assert_false(was_told(PUSH_POSTED)); /* of round 3, before its chunks are posted */
    copies_end();
    assert_int_equal(posted(), 3);
    assert_true(told(PUSH_POSTED, &message));
    assert_int_equal(message.sum.round, 3);
    assert_int_equal(message.sum.posted, SMALL_CHUNKS + 3);
    assert_int_equal(message.sum.repeated, 3);
    job_end();
    free(retransmit);
}

/* Rule 11: where the target copies, it may copy late for a failed write. By then its part belongs
 * to another write, so such a copy must not count. */
static void a_failed_write_revokes_what_it_lent(void **state)
{
    _Atomic uint64_t word;
    struct kvr_endpoint *endpoint = NULL;

    (void)state;
    job_open(16, false, false);
    job.revocation_word = &word;
    kvr_revocation_word_lend(&word, TRANSFER);
    copies_end();
    for (unsigned rail = 0; rail < 2; rail++)
        if (fixture.rails[rail].newest->write_count > 0)
            endpoint = fixture.rails[rail].newest;
    assert_non_null(endpoint);
    finish(endpoint, 0, KVR_OK);
    fixture_settle(&fixture, now);
    assert_true(kvr_revocation_word_holds(&word, TRANSFER));
    finish(endpoint, 0, KVR_RAIL_FAILED);
    fixture_settle(&fixture, now);
    assert_false(kvr_revocation_word_holds(&word, TRANSFER));
    job_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_leave_from_the_ring_when_they_are_whole),
        cmocka_unit_test(a_full_ring_waits_for_completions),
        cmocka_unit_test(a_ring_that_hangs_is_told),
        cmocka_unit_test(who_waits_behind_a_held_ring_is_told),
        cmocka_unit_test(writes_go_to_the_targets_share),
        cmocka_unit_test(what_has_no_room_waits_for_it),
        cmocka_unit_test(one_write_carries_what_one_copy_gathered),
        cmocka_unit_test(a_job_is_given_back_after_its_last_copy),
        cmocka_unit_test(a_copy_that_fails_is_told_once),
        cmocka_unit_test(an_engine_that_died_is_not_copied_from),
        cmocka_unit_test(what_is_missing_is_gathered_again),
        cmocka_unit_test(a_failed_write_revokes_what_it_lent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
