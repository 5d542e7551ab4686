/* Goal: an engine fetches for its own tenants, within their quota. WANT names the tenant, and goes
 * to no source with a certificate that does not serve it. Method: inbound alone, with a record of
 * its port's calls. */
#include "tests/support/check.h"

#include <stdio.h>

#include "tests/support/inbound_case.h"

static int open_tenants(void **state)
{
    struct kvr_tenants *tenants = &inbound.engines.tenants;
    struct kvr_error error;

    open_inbound(state);
    tenants->count = 0;
    assert_int_equal(kvr_tenants_add(tenants, "red", &error), KVR_OK);
    assert_int_equal(kvr_tenants_add(tenants, "blue", &error), KVR_OK);
    machine_peer_tenants = KVR_TENANTS_ALL;
    return 0;
}

static void fetch_as(uint64_t handle, const char *tenant)
{
    static struct kvr_source_address from = {.agent = "1"};
    static const uint32_t ids[SMALL_PLANNED] = {1, 3, 5, 7};
    struct kvr_request open = {.kind = KVR_REQ_TARGET_OPEN, .handle = handle};
    struct kvr_request pages = {.kind = KVR_REQ_TARGET_PAGES, .handle = handle};

    from.engine = machine_rank(11).engine;
    open.target_open = (struct kvr_req_target_open){
        .request = "r", .tokens = SMALL_PLANNED, .sources = &from, .source_count = 1};
    snprintf(open.target_open.tenant, sizeof(open.target_open.tenant), "%s", tenant);
    pages.pages.ids = ids;
    pages.pages.id_count = SMALL_PLANNED;
    inbound_request(&inbound, now, 0, &open);
    inbound_request(&inbound, now, 0, &pages);
}

static void want_names_the_tenant(void **state)
{
    (void)state;
    fetch_as(1, "blue");
    assert_string_equal(machine_sent(KVR_MSG_WANT)->want.tenant, "blue");
    fetch_as(2, "");
    assert_string_equal(machine_sent(KVR_MSG_WANT)->want.tenant, "red");
    assert_int_equal(machine_sent_count(KVR_MSG_WANT), 2);
}

static struct kvr_event opened;

static void keep_event(void *self, const struct kvr_event *event)
{
    (void)self;
    opened = *event;
}

static void events_name_the_tenant(void **state)
{
    struct kvr_ports ports = *inbound.ports;

    (void)state;
    ports.events.emit = keep_event;
    inbound.ports = &ports;
    fetch_as(1, "blue");
    assert_string_equal(opened.tenant, "blue");
    fetch_as(2, "");
    assert_int_equal(opened.kind, KVR_EVENT_OPENED);
    assert_string_equal(opened.tenant, "red");
}

static void engine_fetches_for_its_tenants(void **state)
{
    (void)state;
    inbound.engines.local[0].tenants = 2;
    fetch_as(1, "red");
    assert_int_equal(machine_sent_count(KVR_MSG_WANT), 0);
    assert_int_equal(machine_notice(KVR_NOTICE_FAILED)->status, KVR_NOT_AUTHORIZED);
    assert_non_null(strstr(machine_notice(KVR_NOTICE_FAILED)->detail, "lets it act for blue"));
    assert_int_equal(inbound.engines.tenants_refused, 1);
    fetch_as(2, "");
    assert_string_equal(machine_sent(KVR_MSG_WANT)->want.tenant, "blue");
}

static void source_must_serve_the_tenant(void **state)
{
    (void)state;
    machine_peer_tenants = 1;
    fetch_as(1, "blue");
    assert_int_equal(machine_sent_count(KVR_MSG_WANT), 0);
    assert_int_equal(machine_notice(KVR_NOTICE_FAILED)->status, KVR_NOT_AUTHORIZED);
    assert_non_null(
        strstr(machine_notice(KVR_NOTICE_FAILED)->detail, "does not serve the tenant blue"));
    fetch_as(2, "red");
    assert_int_equal(machine_sent_count(KVR_MSG_WANT), 1);
}

static void quota_of_fetches(void **state)
{
    struct kvr_tenant *red = &inbound.engines.tenants.list[0];

    (void)state;
    red->requests.limit = 1;
    fetch_as(1, "red");
    fetch_as(2, "red");
    assert_int_equal(machine_sent_count(KVR_MSG_WANT), 1);
    assert_int_equal(machine_notice(KVR_NOTICE_FAILED)->handle, 2);
    assert_int_equal(machine_notice(KVR_NOTICE_FAILED)->status, KVR_FULL);
    assert_non_null(strstr(machine_notice(KVR_NOTICE_FAILED)->detail, "--tenant-fetches"));
    assert_int_equal(red->requests.refused, 1);
    fetch_as(3, "blue");
    assert_int_equal(machine_sent_count(KVR_MSG_WANT), 2);
    inbound_request(&inbound, now, 0, &(struct kvr_request){.kind = KVR_REQ_CANCEL, .handle = 1});
    assert_int_equal(red->requests.used, 0);
    fetch_as(4, "red");
    assert_int_equal(machine_sent_count(KVR_MSG_WANT), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(want_names_the_tenant, open_tenants),
        cmocka_unit_test_setup(events_name_the_tenant, open_tenants),
        cmocka_unit_test_setup(engine_fetches_for_its_tenants, open_tenants),
        cmocka_unit_test_setup(source_must_serve_the_tenant, open_tenants),
        cmocka_unit_test_setup(quota_of_fetches, open_tenants),
    };

    return cmocka_run_group_tests_name("inbound_tenants", tests, NULL, NULL);
}
