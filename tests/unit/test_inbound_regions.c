/* Goal: a fetch goes on with its engine's regions at the time of opening, even if the engine adds
 * or drops regions before the WANT leaves. The source is sent these regions, and nothing waits for
 * the deadline. Method: inbound alone, with recorded ports. */
#include "tests/support/check.h"

#include <stdio.h>

#include "tests/support/inbound_case.h"
#include "tests/support/inbound_host.h"

static struct kvr_region other;

/* Opens a fetch from peer 0 without its pages, so its WANT waits for them. */
static uint64_t open_only(uint64_t handle)
{
    static struct kvr_source_address from;
    struct kvr_request open = {.kind = KVR_REQ_TARGET_OPEN, .handle = handle};
    uint64_t nonce = inbound.nonces.given + 1;

    snprintf(from.agent, sizeof(from.agent), "0");
    from.engine = machine_rank(10).engine;
    from.generation = 1;
    snprintf(open.target_open.request, sizeof(open.target_open.request), "r");
    open.target_open.tokens = SMALL_PLANNED;
    open.target_open.sources = &from;
    open.target_open.source_count = 1;
    inbound_request(&inbound, now, 0, &open);
    return nonce;
}

static void name_pages(uint64_t handle)
{
    static const uint32_t ids[SMALL_PLANNED] = {1, 3, 5, 7};
    struct kvr_request pages = {.kind = KVR_REQ_TARGET_PAGES, .handle = handle};

    pages.pages.ids = ids;
    pages.pages.id_count = SMALL_PLANNED;
    inbound_request(&inbound, now, 0, &pages);
}

/* Of other layers. */
static void add_region(void)
{
    struct kvr_error error;

    other = target.region;
    other.layout.region = 2;
    other.layout.layer_first = SMALL_LAYERS;
    assert_int_equal(kvr_engines_region_add(&inbound.engines, 0, &other.layout, &other, &error),
                     KVR_OK);
}

static void lands(uint64_t nonce)
{
    const struct kvr_message *want = machine_sent(KVR_MSG_WANT);

    assert_non_null(want);
    assert_int_equal(want->transfer, nonce);
    plan(0, nonce);
    assert_true(granted(nonce));
    final(0, nonce);
    group_says(nonce, LAND_ALL, 0, NULL);
    assert_int_equal(machine_notice(KVR_NOTICE_DONE)->status, KVR_OK);
    group_closes(nonce);
}

static void a_region_that_came_meanwhile_is_not_of_it(void **state)
{
    uint64_t before, after;

    (void)state;
    before = open_only(1);
    add_region();
    after = open_only(2);
    assert_int_equal(machine_sent_count(KVR_MSG_REGIONS), 0);
    name_pages(2);
    assert_int_equal(machine_sent(KVR_MSG_WANT)->transfer, after);
    assert_int_equal(machine_sent(KVR_MSG_REGIONS)->regions.layout_count, 2);
    name_pages(1); /* the peer has newer regions now, and is sent those of this fetch again */
    assert_int_equal(machine_sent_count(KVR_MSG_REGIONS), 2);
    assert_int_equal(machine_sent(KVR_MSG_REGIONS)->regions.layout_count, 1);
    lands(before);
}

static void a_region_that_went_meanwhile_stays_until_its_end(void **state)
{
    uint64_t nonce;

    (void)state;
    add_region();
    nonce = open_only(1);
    assert_int_equal(kvr_engines_region_drop(&inbound.engines, 0, 2), KVR_OK);
    assert_int_equal(machine_log.regions_done, 0);
    name_pages(1);
    assert_int_equal(machine_sent(KVR_MSG_REGIONS)->regions.layout_count, 2);
    reason(0, nonce, KVR_MSG_FAIL, KVR_INCOMPATIBLE);
    assert_int_equal(machine_notice(KVR_NOTICE_FAILED)->status, KVR_INCOMPATIBLE);
    assert_int_equal(machine_log.regions_done, 1);
}

/* All of them, and nothing in their place. */
static void the_last_region_may_go(void **state)
{
    uint64_t nonce;

    (void)state;
    nonce = open_only(1);
    assert_int_equal(kvr_engines_region_drop(&inbound.engines, 0, 1), KVR_OK);
    open_only(2); /* refused at once: there is no region any more */
    assert_int_equal(machine_notice(KVR_NOTICE_FAILED)->handle, 2);
    assert_int_equal(machine_notice(KVR_NOTICE_FAILED)->status, KVR_INVALID);
    name_pages(1);
    lands(nonce);
    assert_int_equal(machine_log.regions_done, 1);
    assert_int_equal(inbound_live(&inbound), 0);
}

/* The rail thread must not look at a region: the loop may give it a stage meanwhile. */
static void the_landing_names_the_gpu_that_needs_a_flush(void **state)
{
    static struct kvr_device ordered = {.order = KVR_ORDER_UNKNOWN},
                             flushed = {.order = KVR_ORDER_FLUSHED};
    struct kvr_device *const devices[] = {NULL, &ordered, &flushed};

    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        uint64_t nonce;

        target.region.device = devices[i];
        nonce = open_only(i + 1);
        name_pages(i + 1);
        plan(0, nonce);
        assert_ptr_equal(transfer_of(nonce)->grant.landing->flushed,
                         devices[i] == &flushed ? &flushed : NULL);
    }
    target.region.device = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_region_that_came_meanwhile_is_not_of_it, open_inbound),
        cmocka_unit_test_setup(a_region_that_went_meanwhile_stays_until_its_end, open_inbound),
        cmocka_unit_test_setup(the_last_region_may_go, open_inbound),
        cmocka_unit_test_setup(the_landing_names_the_gpu_that_needs_a_flush, open_inbound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
