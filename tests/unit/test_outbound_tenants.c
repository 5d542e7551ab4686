/* Goal: a target of another tenant than the publish's gets nothing and learns nothing, though it
 * knows the secret. So does one that names a tenant which its certificate does not serve. The
 * source's engine and the metric hear of it. An engine publishes for its own tenants, within their
 * quotas. Method: outbound alone, with a record of its port's calls; no secrets. */
#include "tests/support/check.h"

#include <stdio.h>

#include "tests/support/outbound_case.h"

#define UNKNOWN "nobody-publishes-it"

enum { RED, BLUE };

static int open_tenants(void **state)
{
    struct kvr_tenants *tenants = &outbound.engines.tenants;
    struct kvr_error error;

    open_outbound(state);
    tenants->count = 0;
    assert_int_equal(kvr_tenants_add(tenants, "red", &error), KVR_OK);
    assert_int_equal(kvr_tenants_add(tenants, "blue", &error), KVR_OK);
    machine_peer_tenants = KVR_TENANTS_ALL;
    return 0;
}

static void publish_as(const char *request, uint64_t handle, const char *tenant)
{
    struct kvr_request open = {.kind = KVR_REQ_SOURCE_OPEN,
                               .handle = handle,
                               .source_open = {.tokens = SMALL_PLANNED, .consumers = 1}};

    snprintf(open.source_open.request, sizeof(open.source_open.request), "%s", request);
    snprintf(open.source_open.tenant, sizeof(open.source_open.tenant), "%s", tenant);
    outbound_request(&outbound, now, 0, &open);
}

static void pages_of(uint64_t handle, uint32_t count)
{
    static const uint32_t ids[SMALL_PLANNED] = {2, 4, 6, 8};
    struct kvr_request pages = {.kind = KVR_REQ_SOURCE_PAGES, .handle = handle};

    pages.pages.ids = ids;
    pages.pages.id_count = count;
    outbound_request(&outbound, now, 0, &pages);
}

static void cancel(uint64_t handle)
{
    outbound_request(&outbound, now, 0,
                     &(struct kvr_request){.kind = KVR_REQ_CANCEL, .handle = handle});
}

static void want_as_tenant(const char *request, uint32_t peer, uint64_t nonce, const char *tenant)
{
    struct kvr_message message = {.kind = KVR_MSG_WANT, .transfer = nonce};
    struct kvr_msg_want *asked = &message.want;

    snprintf(asked->request, sizeof(asked->request), "%s", request);
    snprintf(asked->tenant, sizeof(asked->tenant), "%s", tenant);
    asked->source_engine = machine_rank(1).engine;
    asked->source_generation = 1;
    asked->target = machine_rank((uint8_t)(10 + peer));
    asked->tokens = SMALL_PLANNED;
    asked->deadline_ms = FETCH_DEADLINE / KVR_MS;
    outbound_message(&outbound, now, peer, &message);
}

static void cancel_want(uint32_t peer, uint64_t nonce)
{
    struct kvr_message message = {
        .kind = KVR_MSG_CANCEL, .transfer = nonce, .reason = {.status = KVR_CANCELLED}};

    outbound_message(&outbound, now, peer, &message);
}

static void nothing_given(void)
{
    assert_int_equal(machine_log.sent_count, 0);
    assert_int_equal(machine_log.command_count, 0);
    assert_int_equal(machine_notice_count(KVR_NOTICE_ACCEPTED), 0);
}

/* ---- fetches ----------------------------------------------------------------------------------
 */

static void same_tenant_is_given(void **state)
{
    (void)state;
    publish_as("r", HANDLE, "blue");
    want_as_tenant("r", 1, NONCE, "blue");
    assert_int_equal(machine_notice_count(KVR_NOTICE_ACCEPTED), 1);
    assert_int_equal(outbound.wants_of_others, 0);
}

static void other_tenant_waits_and_is_counted(void **state)
{
    (void)state;
    publish_as("r", HANDLE, "red");
    want_as_tenant("r", 1, NONCE, "blue");
    nothing_given();
    assert_int_equal(outbound.wants_of_others, 1);
    assert_int_equal(outbound.wants_unproven, 0);
    assert_int_equal(machine_notice(KVR_NOTICE_TARGET_REFUSED)->status, KVR_NOT_AUTHORIZED);
    assert_non_null(strstr(machine_notice(KVR_NOTICE_TARGET_REFUSED)->detail,
                           "of the tenant blue, and this request of the tenant red"));
    want_as_tenant("r", 0, NONCE + 1, "red"); /* its place is free */
    assert_int_equal(machine_notice_count(KVR_NOTICE_ACCEPTED), 1);
}

static struct kvr_event events[8];
static uint32_t event_count;

static void keep_event(void *self, const struct kvr_event *event)
{
    (void)self;
    assert_true(event_count < sizeof(events) / sizeof(events[0]));
    events[event_count++] = *event;
}

/* Of the publish, and of the transfer. */
static void events_name_the_tenant(void **state)
{
    struct kvr_ports ports = *outbound.ports;

    (void)state;
    ports.events.emit = keep_event;
    outbound.ports = &ports;
    event_count = 0;
    publish_as("r", HANDLE, "blue");
    want_as_tenant("r", 1, NONCE, "blue");
    assert_int_equal(event_count, 2);
    assert_int_equal(events[0].kind, KVR_EVENT_OPENED);
    assert_string_equal(events[0].tenant, "blue");
    assert_int_equal(events[1].kind, KVR_EVENT_MATCHED);
    assert_string_equal(events[1].tenant, "blue");
    machine_peer_tenants = 1; /* blue is not the peer's: its WANT is of none */
    want_as_tenant("other", 1, NONCE + 1, "blue");
    cancel_want(1, NONCE + 1);
    assert_int_equal(event_count, 3);
    assert_int_equal(events[2].kind, KVR_EVENT_ENDED);
    assert_string_equal(events[2].tenant, "");
}

/* The WANT comes first. */
static void parked_want_of_another_tenant_waits(void **state)
{
    (void)state;
    want_as_tenant("r", 1, NONCE, "blue");
    assert_int_equal(outbound.wants_of_others, 0); /* it may be published yet */
    publish_as("r", HANDLE, "red");
    nothing_given();
    assert_int_equal(outbound.wants_of_others, 1);
    tick(KVR_S);
    assert_int_equal(outbound.wants_of_others, 1);
}

static void certificate_must_serve_what_is_named(void **state)
{
    (void)state;
    machine_peer_tenants = 1u << BLUE;
    publish_as("r", HANDLE, "red");
    want_as_tenant("r", 1, NONCE, "red");
    nothing_given();
    assert_int_equal(outbound.wants_of_others, 1);
    assert_non_null(strstr(machine_notice(KVR_NOTICE_TARGET_REFUSED)->detail,
                           "no tenant that this agent and the peer's certificate serve"));
    want_as_tenant(UNKNOWN, 1, NONCE + 1, "red"); /* counted whether it is published or not */
    assert_int_equal(outbound.wants_of_others, 2);
    want_as_tenant("r", 1, NONCE + 2, "green"); /* none of ours */
    assert_int_equal(outbound.wants_of_others, 3);
    nothing_given();
}

/* Everything that peer 1 is sent about it, from its WANT to the end. */
struct answers {
    uint32_t count;
    struct kvr_message sent[4];
    kvr_ns at[4];
};

static void listen(struct answers *answers, kvr_ns began)
{
    for (uint32_t i = 0; i < machine_log.sent_count; i++) {
        if (machine_log.sent_to[i] != 1)
            continue;
        assert_true(answers->count < 4);
        answers->at[answers->count] = now - began;
        answers->sent[answers->count] = machine_log.sent[i];
        answers->sent[answers->count++].transfer = 0;
    }
    machine_log_clear();
}

static struct answers answers_to(const char *request, uint64_t nonce)
{
    struct answers answers;
    kvr_ns began = now;

    memset(&answers, 0, sizeof(answers));
    machine_log_clear();
    want_as_tenant(request, 1, nonce, "blue");
    while (now < began + FETCH_DEADLINE + SILENCE) {
        listen(&answers, began);
        tick(KVR_S);
    }
    listen(&answers, began);
    return answers;
}

static void same_answers(const struct answers *a, const struct answers *b)
{
    assert_true(a->count > 0);
    assert_int_equal(a->count, b->count);
    for (uint32_t i = 0; i < a->count; i++) {
        assert_int_equal(a->sent[i].kind, b->sent[i].kind);
        assert_int_equal(a->at[i], b->at[i]);
        if (a->sent[i].kind != KVR_MSG_QUIET) /* of no write at all */
            assert_memory_equal(&a->sent[i].reason, &b->sent[i].reason, sizeof(a->sent[i].reason));
    }
}

/* Published; with a consumer that has all of it; ended. */
static void other_tenant_cannot_tell_what_there_is(void **state)
{
    struct answers unknown, known, taken, ended;

    (void)state;
    outbound.options.lease_default_ns = 3600 * KVR_S;
    unknown = answers_to(UNKNOWN, NONCE);
    assert_int_equal(unknown.sent[0].reason.status, KVR_NO_SOURCE);
    publish_as("r", HANDLE, "red");
    known = answers_to("r", NONCE + 1);
    same_answers(&unknown, &known);
    want_as_tenant("r", 0, NONCE + 2, "red");
    taken = answers_to("r", NONCE + 3);
    same_answers(&unknown, &taken);
    cancel(HANDLE);
    ended = answers_to("r", NONCE + 4);
    same_answers(&unknown, &ended);
}

/* ---- publishes --------------------------------------------------------------------------------
 */

static void engine_publishes_for_its_tenants(void **state)
{
    (void)state;
    outbound.engines.local[0].tenants = 1u << BLUE;
    publish_as("a", 1, "red");
    assert_int_equal(freed()->status, KVR_NOT_AUTHORIZED);
    assert_non_null(strstr(freed()->detail, "lets it act for blue"));
    assert_int_equal(outbound.engines.tenants_refused, 1);
    machine_log_clear();
    publish_as("b", 2, ""); /* the first that it may act for */
    assert_null(freed());
    want_as_tenant("b", 1, NONCE, "blue");
    assert_int_equal(machine_notice_count(KVR_NOTICE_ACCEPTED), 1);
}

static void quota_of_publishes(void **state)
{
    struct kvr_tenant *red = &outbound.engines.tenants.list[RED];

    (void)state;
    red->requests.limit = 1;
    publish_as("a", 1, "red");
    publish_as("b", 2, "red");
    assert_int_equal(freed()->status, KVR_FULL);
    assert_int_equal(freed()->handle, 2);
    assert_non_null(strstr(freed()->detail,
                           "the tenant red has 1 publishes that have not ended, and "
                           "--tenant-publishes of this agent lets it have 1"));
    assert_int_equal(red->requests.refused, 1);
    machine_log_clear();
    publish_as("c", 3, "blue"); /* another's is its own */
    assert_null(freed());
    cancel(1);
    machine_log_clear();
    publish_as("d", 4, "red");
    assert_null(freed());
    publish_as("d", 5, "blue"); /* what is refused for another reason counts for none */
    assert_int_equal(freed()->status, KVR_EXISTS);
    assert_int_equal(outbound.engines.tenants.list[BLUE].requests.used, 1);
}

static void quota_of_bytes(void **state)
{
    struct kvr_tenant *red = &outbound.engines.tenants.list[RED];
    uint64_t page;

    (void)state;
    publish_as("a", 1, "red");
    pages_of(1, 1);
    page = red->bytes.used;
    assert_true(page > 0);
    red->bytes.limit = 3 * page;
    publish_as("b", 2, "red");
    pages_of(2, 2);
    assert_int_equal(red->bytes.used, 3 * page);
    publish_as("c", 3, "red");
    assert_null(freed());
    pages_of(3, 1);
    assert_int_equal(freed()->status, KVR_FULL);
    assert_int_equal(freed()->handle, 3);
    assert_non_null(strstr(freed()->detail, "--tenant-bytes"));
    assert_int_equal(red->bytes.refused, 1);
    cancel(2);
    assert_int_equal(red->bytes.used, page);
    cancel(1);
    assert_int_equal(red->bytes.used, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(same_tenant_is_given, open_tenants),
        cmocka_unit_test_setup(other_tenant_waits_and_is_counted, open_tenants),
        cmocka_unit_test_setup(events_name_the_tenant, open_tenants),
        cmocka_unit_test_setup(parked_want_of_another_tenant_waits, open_tenants),
        cmocka_unit_test_setup(certificate_must_serve_what_is_named, open_tenants),
        cmocka_unit_test_setup(other_tenant_cannot_tell_what_there_is, open_tenants),
        cmocka_unit_test_setup(engine_publishes_for_its_tenants, open_tenants),
        cmocka_unit_test_setup(quota_of_publishes, open_tenants),
        cmocka_unit_test_setup(quota_of_bytes, open_tenants),
    };

    return cmocka_run_group_tests_name("outbound_tenants", tests, NULL, NULL);
}
