/* Goal: a full queue to a target ends nothing. PLAN, FINAL, TAIL, DIGEST, RAIL_LOST, FAIL and the
 * QUIET behind them wait for room, in order and once. Nothing is posted before its announcement is
 * complete. Method: outbound alone over a port that takes a given number of messages. */
#include "tests/support/check.h"

#include "tests/support/outbound_case.h"

#define WIDE_PARTS  3 /* PLANs of one segment */
#define WIDE_TOKENS (8192 + 10)
#define WIDE_PAGES  (2 * WIDE_TOKENS)

static uint32_t room;
static bool stuck; /* the port takes nothing at all */
static struct kvr_ports ports;

static kvr_status send_with_room(void *self, uint32_t peer, const struct kvr_message *message)
{
    if (stuck || (kvr_message_patient(message->kind) && room == 0))
        return KVR_AGAIN;
    room -= kvr_message_patient(message->kind);
    return machine_ports.send(self, peer, message);
}

/* The queue takes so many more messages. */
static void room_for(uint32_t messages)
{
    room = messages;
    outbound_peer_writable(&outbound, now, 0);
}

static int open_full(void **state)
{
    (void)state;
    room = 0;
    stuck = false;
    ports = machine_ports;
    ports.send = send_with_room;
    return 0;
}

static void the_last_words_wait_for_room(void **state)
{
    static const uint8_t bytes[4] = "end";
    struct kvr_request tail = {.kind = KVR_REQ_SOURCE_TAIL,
                               .tail = {.bytes = bytes, .byte_count = sizeof(bytes)}};

    (void)state;
    outbound_begin(&(struct kvr_rail_groups){0}, false);
    outbound.ports = outbound.engines.ports = &ports;
    publish_for(1);
    ask(&tail);
    publish_all();
    want(0, NONCE);
    assert_int_equal(machine_log.sent_count, 0);
    room_for(1);
    assert_int_equal(machine_sent_count(KVR_MSG_REGIONS), 1);
    room_for(1);
    assert_int_equal(machine_sent(KVR_MSG_PLAN)->plan.chunk_count, SMALL_CHUNKS);
    grant(0, NONCE);
    assert_int_equal(machine_command_count(PUSH_SEGMENT), 1);
    room_for(1);
    assert_int_equal(machine_sent(KVR_MSG_FINAL)->final.chunk_count, SMALL_CHUNKS);
    assert_int_equal(machine_command_count(PUSH_FINAL), 0);
    room_for(1);
    assert_int_equal(machine_sent(KVR_MSG_TAIL)->tail.byte_count, sizeof(bytes));
    assert_int_equal(machine_command_count(PUSH_FINAL), 1);
    room_for(1); /* once */
    assert_int_equal(machine_log.sent_count, 4);
}

/* The engine publishes and its target asks, both with known pages. */
static void publish_wide(void)
{
    static uint32_t ids[WIDE_TOKENS];
    static struct kvr_page_run runs[WIDE_TOKENS];
    struct kvr_request open = {.kind = KVR_REQ_SOURCE_OPEN,
                               .source_open = {.request = "r", .tokens = WIDE_TOKENS}};
    struct kvr_request given = {.kind = KVR_REQ_SOURCE_PAGES};
    struct kvr_request watch = {.kind = KVR_REQ_WATCH};
    struct kvr_message pages = {.kind = KVR_MSG_PAGES, .transfer = NONCE};

    for (uint32_t i = 0; i < WIDE_TOKENS; i++) {
        ids[i] = 2 * i;
        runs[i] = (struct kvr_page_run){2 * i + 1, 1};
    }
    given.pages.ids = ids;
    given.pages.id_count = WIDE_TOKENS;
    watch.watch.token_end = WIDE_TOKENS;
    pages.pages.runs = runs;
    pages.pages.run_count = WIDE_TOKENS;
    ask(&open);
    ask(&given);
    ask(&watch);
    want_tokens(0, NONCE, WIDE_TOKENS);
    outbound_message(&outbound, now, 0, &pages);
}

static void open_wide(void)
{
    outbound_begin_wide(WIDE_PAGES);
    outbound.ports = outbound.engines.ports = &ports;
    publish_wide();
    assert_int_equal(machine_log.sent_count, 0);
}

static void a_plan_of_many_parts_goes_on_where_it_stopped(void **state)
{
    uint32_t runs = 0;

    (void)state;
    open_wide();
    room = 1; /* for REGIONS */
    for (uint32_t part = 0; part < WIDE_PARTS; part++) {
        const struct kvr_msg_plan *plan;

        room_for(room + 1);
        assert_int_equal(machine_sent_count(KVR_MSG_PLAN), part + 1);
        plan = &machine_sent(KVR_MSG_PLAN)->plan;
        runs += plan->run_count;
        assert_int_equal(plan->segment, 0);
        assert_int_equal(plan->chunk_first, 0);
        assert_int_equal(plan->chunk_count, SMALL_LAYERS * WIDE_TOKENS);
        assert_int_equal(plan->more, part + 1 < WIDE_PARTS);
        assert_int_equal(outbound.transfers.used_count, 1);
    }
    assert_int_equal(runs, WIDE_TOKENS);
    grant(0, NONCE);
    assert_int_equal(machine_command_count(PUSH_SEGMENT), 1);
}

/* A GRANT before the announcement is complete is no reason to post. */
static void what_was_told_in_part_is_not_posted(void **state)
{
    (void)state;
    open_wide();
    room_for(2);
    assert_int_equal(machine_sent_count(KVR_MSG_PLAN), 1);
    grant(0, NONCE);
    assert_int_equal(machine_command_count(PUSH_OPEN), 1);
    assert_int_equal(machine_command_count(PUSH_SEGMENT), 0);
    room_for(2);
    assert_int_equal(machine_command_count(PUSH_SEGMENT), 1);
}

static void it_can_end_while_it_waits(void **state)
{
    struct kvr_request cancel = {.kind = KVR_REQ_CANCEL};
    size_t used;

    (void)state;
    outbound_begin_wide(WIDE_PAGES);
    outbound.ports = outbound.engines.ports = &ports;
    used = outbound.memory->used_bytes;
    publish_wide();
    room_for(2);
    room = 1;
    ask(&cancel);
    assert_int_equal(machine_sent_count(KVR_MSG_FAIL), 1);
    assert_int_equal(machine_sent_count(KVR_MSG_QUIET), 1);
    assert_int_equal(freed()->status, KVR_CANCELLED);
    tick(3 * SILENCE);
    assert_int_equal(outbound_live(&outbound), 0);
    assert_int_equal(outbound.memory->used_bytes, used);
}

/* ---- after the whole announcement ------------------------------------------------------------ */

#define MANY_CHUNKS (KVR_DIGESTS_PER_MESSAGE + 100)

static void open_live(void)
{
    outbound_begin(&(struct kvr_rail_groups){0}, false);
    outbound.ports = outbound.engines.ports = &ports;
    room = 3; /* REGIONS, PLAN, FINAL */
    publish_for(1);
    publish_all();
    want_hashed(0, NONCE);
    grant(0, NONCE);
    assert_int_equal(machine_command_count(PUSH_FINAL), 1);
    assert_int_equal(room, 0);
}

static void digests_wait_for_room(void **state)
{
    static uint64_t digests[MANY_CHUNKS];
    struct kvr_plan many = {.chunk_count = MANY_CHUNKS};
    struct push_segment segment = {.plan = &many, .digests = digests};

    (void)state;
    open_live();
    room = 0;
    group_says(PUSH_POSTED, 0, &segment);
    group_says(PUSH_POSTED, 0, &segment);
    assert_int_equal(machine_sent_count(KVR_MSG_DIGEST), 0);
    room_for(1);
    assert_int_equal(machine_sent(KVR_MSG_DIGEST)->digest.value_count, KVR_DIGESTS_PER_MESSAGE);
    assert_int_equal(machine_sent(KVR_MSG_DIGEST)->digest.chunk_count, KVR_DIGESTS_PER_MESSAGE);
    room_for(1);
    assert_int_equal(machine_sent(KVR_MSG_DIGEST)->digest.chunk_first, KVR_DIGESTS_PER_MESSAGE);
    assert_int_equal(machine_sent(KVR_MSG_DIGEST)->digest.chunk_count, 100);
    room_for(1); /* once */
    assert_int_equal(machine_sent_count(KVR_MSG_DIGEST), 2);
}

/* The rail thread's answer to the last PUSH_LIST: chunk `rail` went over that rail of the target.
 */
static void lost_over(uint32_t rail)
{
    struct push_list *list = push_commanded(PUSH_LIST).list;

    list->found = true;
    list->pair = (struct kvr_pair){.target_rail = rail, .epoch = 1};
    list->runs[0] = (struct kvr_chunk_run){.chunk_first = rail, .chunk_count = 1};
    list->run_count = 1;
    group_says(PUSH_LISTED, 0, list);
}

static void broken(void)
{
    struct kvr_group_message message = {
        .head.kind = KVR_GROUP_PAIR_BROKEN,
        .pair_broken = {.status = KVR_RAIL_FAILED, .pair.epoch = 1},
    };

    outbound_group(&outbound, now, &message);
}

static void lost_rails_wait_for_room(void **state)
{
    (void)state;
    open_live();
    for (uint32_t rail = 0; rail < 2; rail++) {
        broken();
        assert_int_equal(machine_command_count(PUSH_LIST), rail + 1);
        lost_over(rail);
    }
    assert_int_equal(machine_sent_count(KVR_MSG_RAIL_LOST), 0);
    assert_int_equal(machine_command_count(PUSH_LIST), 2); /* the next pair waits, too */
    for (uint32_t rail = 0; rail < 2; rail++) {
        room_for(1);
        assert_int_equal(machine_sent_count(KVR_MSG_RAIL_LOST), rail + 1);
        assert_int_equal(machine_sent(KVR_MSG_RAIL_LOST)->rail_lost.rail, rail);
        assert_int_equal(machine_command_count(PUSH_LIST), 3 + rail);
    }
    room_for(1);
    assert_int_equal(machine_sent_count(KVR_MSG_RAIL_LOST), 2);
}

static void it_can_end_while_what_it_lost_waits(void **state)
{
    size_t used;

    (void)state;
    open_live();
    used = outbound.memory->used_bytes;
    broken();
    lost_over(0);
    assert_true(outbound.memory->used_bytes > used);
    message(0, NONCE, KVR_MSG_LANDED, KVR_OK);
    room_for(1); /* no message is needed any more */
    assert_int_equal(machine_sent_count(KVR_MSG_RAIL_LOST), 0);
    group_says(PUSH_STOPPED, 0, NULL);
    group_closes();
    assert_true(outbound.memory->used_bytes < used);
    assert_int_equal(freed()->status, KVR_OK);
}

/* ---- last words ------------------------------------------------------------------------------ */

static void want_other(uint64_t nonce)
{
    struct kvr_message want = {.kind = KVR_MSG_WANT, .transfer = nonce};

    want.want.request[0] = 'x'; /* no engine publishes it */
    want.want.source_engine = machine_rank(1).engine;
    want.want.source_generation = 1;
    want.want.target = machine_rank(10);
    want.want.tokens = 1;
    want.want.deadline_ms = FETCH_DEADLINE / KVR_MS;
    outbound_message(&outbound, now, 0, &want);
}

/* Matched and parked transfers each get FAIL first, then QUIET, once, however late. */
static void an_engine_that_ends_tells_it_as_room_comes(void **state)
{
    static const uint32_t parked = 20;

    (void)state;
    outbound_begin(&(struct kvr_rail_groups){0}, false);
    outbound.ports = outbound.engines.ports = &ports;
    publish_for(1);
    want(0, NONCE);
    for (uint32_t i = 1; i <= parked; i++)
        want_other(NONCE + i);
    stuck = true;
    outbound_engine_down(&outbound, now, 0);
    assert_int_equal(machine_log.sent_count, 0);
    assert_int_equal(outbound_live(&outbound), 0);
    tick(10 * SILENCE); /* it waits for the life of the session */
    stuck = false;
    for (uint32_t i = 1; i <= parked + 1; i++) {
        room_for(1);
        assert_int_equal(machine_sent_count(KVR_MSG_FAIL), i);
        assert_int_equal(machine_sent_count(KVR_MSG_QUIET), i);
        assert_int_equal(machine_sent(KVR_MSG_FAIL)->reason.status, KVR_ENGINE_LOST);
        assert_true(machine_sent(KVR_MSG_FAIL)->transfer == machine_sent(KVR_MSG_QUIET)->transfer);
        assert_int_equal(machine_log.sent[2 * i - 2].kind, KVR_MSG_FAIL);
    }
    room_for(parked);
    assert_int_equal(machine_log.sent_count, 2 * (parked + 1));
    tick(0);
    assert_int_equal(outbound.transfers.used_count, 0);
}

/* QUIET carries the final counts, however long it waited. */
static void quiet_of_what_was_posted_waits_behind_fail(void **state)
{
    struct kvr_request cancel = {.kind = KVR_REQ_CANCEL};
    union push_message count = {.head.kind = PUSH_COUNT,
                                .count = {.rail = 1, .epoch = 2, .count = 3}};

    (void)state;
    open_live();
    ask(&cancel);
    count.job = push_commanded(PUSH_OPEN).job;
    outbound_group(&outbound, now, &count.any);
    room_for(1); /* FAIL; the group is in the middle of its counts */
    assert_int_equal(machine_sent_count(KVR_MSG_FAIL), 1);
    assert_int_equal(machine_sent_count(KVR_MSG_QUIET), 0);
    stuck = true;
    group_says(PUSH_STOPPED, 0, NULL);
    stuck = false;
    assert_int_equal(machine_sent_count(KVR_MSG_QUIET), 0);
    room_for(0);
    assert_int_equal(machine_sent_count(KVR_MSG_QUIET), 1);
    assert_int_equal(machine_sent(KVR_MSG_QUIET)->quiet.count_count, 1);
    group_closes();
    assert_int_equal(freed()->status, KVR_CANCELLED);
}

/* A waiting QUIET belongs to its round: MISSING opens the next, which is not posted yet. */
static void quiet_of_the_round_before_is_not_told(void **state)
{
    struct kvr_message missing = {.kind = KVR_MSG_MISSING, .transfer = NONCE};

    (void)state;
    open_live();
    stuck = true;
    group_says(PUSH_POSTED, 0, NULL);
    missing.missing.round = 1;
    outbound_message(&outbound, now, 0, &missing);
    stuck = false;
    room_for(8);
    assert_int_equal(machine_sent_count(KVR_MSG_QUIET), 0);
    group_says(PUSH_POSTED, 1, NULL);
    assert_int_equal(machine_sent(KVR_MSG_QUIET)->quiet.round, 1);
}

static void who_has_all_needs_no_last_words(void **state)
{
    struct kvr_request cancel = {.kind = KVR_REQ_CANCEL};

    (void)state;
    open_live();
    stuck = true;
    ask(&cancel);
    message(0, NONCE, KVR_MSG_LANDED, KVR_OK);
    group_says(PUSH_STOPPED, 0, NULL);
    group_closes();
    stuck = false;
    room_for(8);
    assert_int_equal(machine_sent_count(KVR_MSG_FAIL) + machine_sent_count(KVR_MSG_QUIET), 0);
    assert_int_equal(outbound.transfers.used_count, 0);
}

static int close_full(void **state)
{
    (void)state;
    assert_int_equal(machine_log.hang_ups, 0);
    return 0;
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, open_full, close_full)
    const struct CMUnitTest tests[] = {
        CASE(the_last_words_wait_for_room),
        CASE(a_plan_of_many_parts_goes_on_where_it_stopped),
        CASE(what_was_told_in_part_is_not_posted),
        CASE(it_can_end_while_it_waits),
        CASE(digests_wait_for_room),
        CASE(lost_rails_wait_for_room),
        CASE(it_can_end_while_what_it_lost_waits),
        CASE(an_engine_that_ends_tells_it_as_room_comes),
        CASE(quiet_of_what_was_posted_waits_behind_fail),
        CASE(quiet_of_the_round_before_is_not_told),
        CASE(who_has_all_needs_no_last_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
