/* Goal: what a source may have land in staging memory though cards reach the pages: only what was
 * offered, with room for all of it and that memory's own keys, and not before the memory is there.
 * Method: inbound alone; the test is the sources and the agent. */
#include "tests/support/check.h"

#include "device/stage.h"
#include "tests/support/inbound_case.h"

#define ROOM (64 * SMALL_PAGE_BYTES)

static struct kvr_stage stage;
static struct kvr_region pinned;

static int open_scattering(void **state)
{
    (void)open_inbound(state);
    inbound.options.stage_bytes = ROOM;
    pinned = (struct kvr_region){.rail_count = 2, .keys = {{11, 12}, {21, 22}}};
    stage = (struct kvr_stage){.bytes = ROOM, .pinned = &pinned};
    return 0;
}

static void stage_opened(kvr_status status)
{
    target.region.stage = status == KVR_OK ? &stage : NULL;
    inbound_registered(&inbound, now, machine_log.registered_id, status);
}

static void fragments_land_in_staging_memory(void **state)
{
    uint64_t nonce = fetch(1, 0, 1);
    const struct kvr_msg_grant *grant;
    const struct landing *landing;

    (void)state;
    assert_false(machine_sent(KVR_MSG_WANT)->want.staged);
    assert_int_equal(machine_sent(KVR_MSG_WANT)->want.stage_bytes, ROOM);
    plan_to_share(0, nonce);
    assert_int_equal(machine_log.stages_asked, 1);
    tick(KVR_S);
    assert_false(granted(nonce));
    stage_opened(KVR_OK);
    assert_true(granted(nonce));
    grant = &machine_sent(KVR_MSG_GRANT)->grant;
    assert_true(grant->share_bytes >= SMALL_CHUNKS * SMALL_PAGE_BYTES);
    assert_int_equal(grant->share_key_count, 2);
    assert_ptr_equal(grant->share_keys, pinned.keys);
    landing = machine_command(LAND_OPEN)->pointer;
    assert_ptr_equal(landing->stage, &stage);
    assert_non_null(landing->taken);
}

/* Its pages are written, though another's are copied. */
static void who_does_not_ask_for_it_writes_the_pages(void **state)
{
    uint64_t nonce = fetch(1, 0, 1);

    (void)state;
    stage_opened(KVR_OK);
    plan(0, nonce);
    assert_true(granted(nonce));
    assert_int_equal(machine_sent(KVR_MSG_GRANT)->grant.share_bytes, 0);
    assert_null(((const struct landing *)machine_command(LAND_OPEN)->pointer)->stage);
}

static void fails(uint64_t nonce, kvr_status status)
{
    const struct kvr_message *sent = machine_sent(KVR_MSG_CANCEL);

    assert_false(granted(nonce));
    assert_non_null(sent);
    assert_int_equal(sent->reason.status, status);
}

static void what_was_not_offered_is_refused(void **state)
{
    uint64_t nonce;

    (void)state;
    inbound.options.stage_bytes = 0;
    nonce = fetch(1, 0, 1);
    assert_int_equal(machine_sent(KVR_MSG_WANT)->want.stage_bytes, 0);
    plan_to_share(0, nonce);
    fails(nonce, KVR_MALFORMED);
}

static void more_than_was_offered_is_refused(void **state)
{
    uint64_t nonce = fetch(1, 0, 1);

    (void)state;
    stage.bytes = SMALL_PAGE_BYTES;
    plan_to_share(0, nonce);
    stage_opened(KVR_OK);
    fails(nonce, KVR_TOO_LARGE);
}

/* What was promised and cannot be had fails one transfer; no other is promised it. */
static void without_the_memory_it_is_not_offered_again(void **state)
{
    uint64_t nonce = fetch(1, 0, 1);

    (void)state;
    plan_to_share(0, nonce);
    stage_opened(KVR_NO_MEMORY);
    fails(nonce, KVR_NO_MEMORY);
    fetch(2, 1, 1);
    assert_int_equal(machine_sent(KVR_MSG_WANT)->want.stage_bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(fragments_land_in_staging_memory, open_scattering),
        cmocka_unit_test_setup(who_does_not_ask_for_it_writes_the_pages, open_scattering),
        cmocka_unit_test_setup(what_was_not_offered_is_refused, open_scattering),
        cmocka_unit_test_setup(more_than_was_offered_is_refused, open_scattering),
        cmocka_unit_test_setup(without_the_memory_it_is_not_offered_again, open_scattering),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
