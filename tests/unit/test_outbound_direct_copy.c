/* Goal: a target on this host direct_copy our device's pages itself, if its WANT offers it and its
 * device sees them. One probe of the device finds out. Else the pages are staged, and no transfer
 * waits for a late answer. Method: outbound alone, with a card and a rail for this host. The test
 * plays the targets and the rail thread. */
#include "tests/support/check.h"

#include "device/stage.h"
#include "tests/support/outbound_case.h"

static struct kvr_stage stage;
static struct kvr_region moved;

static int open_neighbours(void **state)
{
    static const struct kvr_rail_groups mixed = {
        .count = 1, .first = {0, 2}, .same_host = 2, .move_bytes = 1 << 20};
    static struct kvr_ports ports;
    static int registration;
    struct kvr_region *region;

    (void)state;
    outbound_begin(&mixed, true);
    ports = machine_ports;
    ports.revocation_words = machine_words;
    outbound.ports = &ports;
    region = outbound.engines.local[0].set->locals[0];
    region->memory[0] = region->memory[1] = (struct kvr_memory *)&registration;
    region->path = KVR_PATH_STAGED;
    region->stage = &stage;
    moved = *region;
    moved.path = KVR_PATH_LOCAL;
    moved.memory[0] = NULL;
    region->moved = &moved;
    publish_for(3);
    publish_all();
    return 0;
}

static void probed(struct visibility_probe *probe, kvr_status status)
{
    const union push_message message = {.head.kind = PUSH_PROBED, .probe = probe};

    probe->status = status;
    outbound_group(&outbound, now, &message.any);
}

/* The plan is for pages, or for staging memory at both ends. */
static void check_planned(uint32_t plans, bool direct_copy)
{
    const struct kvr_message *plan = machine_sent(KVR_MSG_PLAN);

    assert_int_equal(machine_sent_count(KVR_MSG_PLAN), plans);
    assert_int_equal(plan->plan.limits.pieces_remote, direct_copy ? 1 : KVR_PLAN_ONE_RUN);
    assert_true(plan->plan.limits.chunk_bytes_max == (direct_copy ? 1 << 20 : SMALL_PAGE_BYTES));
}

static void what_is_seen_is_moved(void **state)
{
    struct visibility_probe *probe;

    (void)state;
    want_moving(0, NONCE);
    assert_int_equal(machine_sent_count(KVR_MSG_PLAN), 0);
    probe = push_commanded(PUSH_PROBE).probe;
    assert_int_equal(probe->target_rails, 2);
    assert_ptr_equal(probe->source->locals[0]->moved, &moved);
    probed(probe, KVR_OK);
    check_planned(1, true);
    grant_rails(0, NONCE, 1);
    assert_true(push_commanded(PUSH_OPEN).opened->direct_copy);
    assert_null(push_commanded(PUSH_OPEN).opened->via);
    message(0, NONCE, KVR_MSG_UNKNOWN, KVR_OK);
}

/* Nothing was announced yet: the path is still open. */
static void a_grant_before_the_first_plan_is_refused(void **state)
{
    struct visibility_probe *probe;

    (void)state;
    want_moving(0, NONCE);
    probe = push_commanded(PUSH_PROBE).probe;
    grant_rails(0, NONCE, 1);
    assert_int_equal(machine_command_count(PUSH_OPEN), 0);
    assert_int_equal(machine_sent(KVR_MSG_FAIL)->reason.status, KVR_MALFORMED);
    probed(probe, KVR_OK);
    assert_int_equal(machine_sent_count(KVR_MSG_PLAN), 0);
}

static void what_is_not_seen_is_staged(void **state)
{
    (void)state;
    want_moving(0, NONCE);
    probed(push_commanded(PUSH_PROBE).probe, KVR_COPY_FAILED);
    check_planned(1, false);
}

/* A lost probe does not answer for the next one. */
static void nor_what_nobody_knows(void **state)
{
    (void)state;
    want_moving(0, NONCE);
    probed(push_commanded(PUSH_PROBE).probe, KVR_EPOCH_ENDED);
    check_planned(1, false);
    message(0, NONCE, KVR_MSG_CANCEL, KVR_CANCELLED);
    want_moving(0, NONCE + 1);
    assert_int_equal(machine_command_count(PUSH_PROBE), 2);
}

static void the_answer_is_kept(void **state)
{
    (void)state;
    want_moving(0, NONCE);
    probed(push_commanded(PUSH_PROBE).probe, KVR_OK);
    message(0, NONCE, KVR_MSG_CANCEL, KVR_CANCELLED);
    want_moving(0, NONCE + 1);
    assert_int_equal(machine_command_count(PUSH_PROBE), 1);
    check_planned(2, true);
    want_moving(1, NONCE + 2); /* another agent has another device */
    assert_int_equal(machine_command_count(PUSH_PROBE), 2);
}

/* Ranks of one engine have different devices, and some may not see ours. */
static void every_rank_answers_for_itself(void **state)
{
    (void)state;
    want_moving(0, NONCE);
    probed(push_commanded(PUSH_PROBE).probe, KVR_OK);
    check_planned(1, true);
    targets_are(1);
    want_moving(0, NONCE + 1);
    assert_int_equal(machine_command_count(PUSH_PROBE), 2);
    probed(push_commanded(PUSH_PROBE).probe, KVR_COPY_FAILED);
    check_planned(2, false);
}

static uint64_t job_rails(void)
{
    return push_commanded(PUSH_OPEN).opened->target_rails;
}

/* Cards cannot reach pages that a target direct_copy itself, whatever the target grants. */
static void a_card_is_no_way_for_them(void **state)
{
    (void)state;
    want_moving(0, NONCE);
    probed(push_commanded(PUSH_PROBE).probe, KVR_OK);
    grant_rails(0, NONCE, 0);
    assert_int_equal(job_rails(), 0);
}

static void who_cannot_is_not_asked(void **state)
{
    (void)state;
    want(0, NONCE);
    assert_int_equal(machine_command_count(PUSH_PROBE), 0);
    assert_int_equal(machine_sent_count(KVR_MSG_PLAN), 1);
    moved.memory[1] = NULL; /* not on this rail */
    want_moving(1, NONCE + 1);
    assert_int_equal(machine_command_count(PUSH_PROBE), 0);
    check_planned(2, false);
}

/* Its regions stay until the rail thread has given the probe back. */
static void a_probe_outlives_its_transfer_and_holds_the_regions(void **state)
{
    struct visibility_probe *probe;

    (void)state;
    want_moving(0, NONCE);
    probe = push_commanded(PUSH_PROBE).probe;
    message(0, NONCE, KVR_MSG_CANCEL, KVR_CANCELLED);
    outbound_engine_down(&outbound, now, 0);
    assert_int_equal(machine_log.regions_done, 0);
    probed(probe, KVR_OK);
    assert_int_equal(machine_sent_count(KVR_MSG_PLAN), 0);
    assert_int_equal(machine_log.regions_done, 1);
}

/* No card could carry on: the plan is for pages. */
static void without_its_rail_it_fails(void **state)
{
    (void)state;
    want_moving(0, NONCE);
    probed(push_commanded(PUSH_PROBE).probe, KVR_OK);
    grant_rails(0, NONCE, 1);
    group_says(PUSH_NO_RAIL, 0, NULL);
    for (int i = 0; i < 20 && machine_sent_count(KVR_MSG_FAIL) == 0; i++)
        tick(KVR_S);
    assert_int_equal(machine_sent_count(KVR_MSG_NO_RAIL), 0);
    assert_non_null(machine_sent(KVR_MSG_FAIL));
    assert_int_equal(machine_sent(KVR_MSG_FAIL)->reason.status, KVR_NO_RAIL);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup(name, open_neighbours)
    const struct CMUnitTest tests[] = {
        CASE(what_is_seen_is_moved),
        CASE(a_grant_before_the_first_plan_is_refused),
        CASE(what_is_not_seen_is_staged),
        CASE(nor_what_nobody_knows),
        CASE(the_answer_is_kept),
        CASE(who_cannot_is_not_asked),
        CASE(a_probe_outlives_its_transfer_and_holds_the_regions),
        CASE(without_its_rail_it_fails),
        CASE(every_rank_answers_for_itself),
        CASE(a_card_is_no_way_for_them),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
