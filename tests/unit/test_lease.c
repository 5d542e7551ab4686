/* Goal: an engine hears once for each renewal that a lease is about to end, in time to renew it.
 * Method: outbound alone, with a record of its port's calls; the test is the engine and the clock.
 * unit.outbound tests the coverage of a lease. */
#include "tests/support/check.h"

#include <stdio.h>

#include "prefill-agent/outbound.h"
#include "tests/support/machine_log.h"

#define LEASE  (10 * KVR_S)
#define LOW    (LEASE - LEASE / 4)
#define HANDLE 77

static struct outbound outbound;
static struct small_side source;
static struct kvr_shared_page page;
static kvr_ns now;

static void publish_open_for(uint32_t lease_ms)
{
    struct kvr_request open = {.kind = KVR_REQ_SOURCE_OPEN, .handle = HANDLE};

    snprintf(open.source_open.request, sizeof(open.source_open.request), "r");
    open.source_open.tokens = SMALL_PLANNED;
    open.source_open.lease_ms = lease_ms;
    outbound_request(&outbound, now, 0, &open);
}

static int open_outbound(void **state)
{
    struct outbound_options options = {.without_secret = true,
                                       .silence_ns = KVR_S,
                                       .quiet_ns = KVR_S,
                                       .lease_default_ns = LEASE,
                                       .rail_count = 1,
                                       .limits = {1, 1, SMALL_PAGE_BYTES, false}};

    (void)state;
    now = KVR_S;
    machine_log_clear();
    memset(&page, 0, sizeof(page));
    small_side_init(&source, 2);
    assert_int_equal(outbound_init(&outbound, &options, &machine_ports, machine_memory()), KVR_OK);
    machine_engine_up(&outbound.engines, 0, 1, &source, &page);
    machine_log_clear();
    return 0;
}

static void tick(kvr_ns later)
{
    now += later;
    outbound_tick(&outbound, now);
}

static void a_low_lease_is_told_once(void **state)
{
    (void)state;
    publish_open_for(0);
    tick(LOW - KVR_MS);
    assert_int_equal(machine_notice_count(KVR_NOTICE_LEASE_LOW), 0);
    tick(KVR_MS);
    assert_int_equal(machine_notice(KVR_NOTICE_LEASE_LOW)->handle, HANDLE);
    tick(KVR_S);
    assert_int_equal(machine_notice_count(KVR_NOTICE_LEASE_LOW), 1);
    assert_int_equal(machine_notice_count(KVR_NOTICE_LEASE_END), 0);
    tick(LEASE);
    assert_int_equal(machine_notice_count(KVR_NOTICE_LEASE_END), 1);
    assert_int_equal(machine_notice(KVR_NOTICE_SOURCE_FREE)->status, KVR_EXPIRED);
    assert_int_equal(machine_notice_count(KVR_NOTICE_LEASE_LOW), 1);
}

static void a_renewed_lease_is_told_again(void **state)
{
    struct kvr_request renew = {
        .kind = KVR_REQ_RENEW, .handle = HANDLE, .renew.lease_ms = 2 * LEASE / KVR_MS};

    (void)state;
    publish_open_for(0);
    tick(LOW);
    outbound_request(&outbound, now, 0, &renew);
    tick(2 * LOW - KVR_MS);
    assert_int_equal(machine_notice_count(KVR_NOTICE_LEASE_LOW), 1);
    tick(KVR_MS);
    assert_int_equal(machine_notice_count(KVR_NOTICE_LEASE_LOW), 2);
    assert_int_equal(machine_notice_count(KVR_NOTICE_SOURCE_FREE), 0);
}

static void what_has_ended_has_no_lease(void **state)
{
    struct kvr_request cancel = {.kind = KVR_REQ_CANCEL, .handle = HANDLE};

    (void)state;
    publish_open_for(2000);
    outbound_request(&outbound, now, 0, &cancel);
    tick(10 * LEASE);
    assert_int_equal(machine_notice_count(KVR_NOTICE_SOURCE_FREE), 1);
    assert_int_equal(machine_notice_count(KVR_NOTICE_LEASE_LOW), 0);
    assert_int_equal(machine_notice_count(KVR_NOTICE_LEASE_END), 0);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup(name, open_outbound)
    const struct CMUnitTest tests[] = {
        CASE(a_low_lease_is_told_once),
        CASE(a_renewed_lease_is_told_again),
        CASE(what_has_ended_has_no_lease),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
