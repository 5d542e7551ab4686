/* Goal: an order about a request reaches every agent that holds the request until that agent has
 * taken the order, also after restarts. The order goes when nothing is left to order. */
#include "tests/support/check.h"

#include <stdio.h>
#include <stdlib.h>

#include "scheduler/order.h"
#include "tests/support/store_case.h"

#define LEASE (30 * KVR_S)

static uint32_t asked(struct fixture *fixture, const char *agent, uint64_t boot,
                      struct kvr_order orders[KVR_ORDERS_MAX])
{
    uint32_t count;

    assert_true(store_list_orders(fixture->store, agent, boot, orders, &count));
    return count;
}

static kvr_status ask(struct fixture *fixture, kvr_order_kind kind, int64_t attempt)
{
    struct order order = {.kind = kind, .attempt = attempt, .lease_ns = LEASE};
    struct kvr_error error = {0};
    kvr_status status;

    strcpy(order.object, "request-1");
    assert_true(store_begin(fixture->store));
    status = order_store(fixture->store, &order, WALL, &error);
    assert_true(store_commit(fixture->store));
    assert_true((status == KVR_OK) == (order.count > 0));
    assert_true((status == KVR_OK) == (error.detail[0] == '\0'));
    return status;
}

/* Two agents hold attempt 1 of request-1, from event 1 on. */
static void hold(struct fixture *fixture)
{
    struct kvr_event opened = event_of(KVR_EVENT_OPENED, KVR_ROLE_SOURCE, 0, 1);
    struct kvr_report report = report_of("prefill-0", 1, &opened, 1);
    uint64_t acknowledged;

    opened.peer[0] = '\0';
    assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
    strcpy(report.agent, "prefill-1");
    assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
}

static void order_reaches_every_source_until_it_is_taken(void **state)
{
    struct fixture *fixture = *state;
    struct kvr_report taken = report_of("prefill-0", 0, NULL, 0);
    struct kvr_order orders[KVR_ORDERS_MAX];
    uint64_t acknowledged;

    assert_int_equal(ask(fixture, KVR_ORDER_ABANDON, -1), KVR_NOT_FOUND);
    hold(fixture);
    assert_int_equal(ask(fixture, KVR_ORDER_ABANDON, 2), KVR_NOT_FOUND); /* another attempt */
    assert_int_equal(ask(fixture, KVR_ORDER_RENEW, 1), KVR_OK);
    assert_int_equal(ask(fixture, KVR_ORDER_ABANDON, -1), KVR_OK);
    assert_int_equal(ask(fixture, KVR_ORDER_ABANDON, -1),
                     KVR_OK); /* a second order is not sent twice */
    store_close(fixture->store);
    assert_int_equal(store_open_writer(&fixture->place, &fixture->store, NULL), KVR_OK);
    apply_close(fixture->apply);
    fixture->apply = apply_open(fixture->store, fixture->fleet);
    assert_int_equal(asked(fixture, "prefill-0", 7, orders), 2);
    assert_int_equal(orders[0].kind, KVR_ORDER_RENEW);
    assert_true(orders[0].lease_ns == LEASE && orders[0].number < orders[1].number);
    assert_int_equal(orders[1].kind, KVR_ORDER_ABANDON);
    assert_string_equal(orders[1].request, "request-1");
    assert_int_equal(orders[1].attempt, 1);
    assert_int_equal(asked(fixture, "prefill-0", 8, orders), 0); /* the agent has started again */
    assert_int_equal(asked(fixture, "prefill-0", 7, orders), 2);
    taken.orders_taken = orders[0].number;
    assert_int_equal(apply_one(fixture, &taken, &acknowledged), KVR_OK);
    assert_int_equal(asked(fixture, "prefill-0", 7, orders), 1);
    assert_int_equal(orders[0].kind, KVR_ORDER_ABANDON);
    assert_int_equal(asked(fixture, "prefill-1", 7, orders), 2);
}

static void order_goes_with_its_request(void **state)
{
    struct fixture *fixture = *state;
    struct kvr_event ended = event_of(KVR_EVENT_ENDED, KVR_ROLE_SOURCE, 0, 2);
    struct kvr_report report = report_of("prefill-0", 2, &ended, 1);
    struct kvr_order orders[KVR_ORDERS_MAX];
    struct kvr_error error;
    uint64_t acknowledged;

    hold(fixture);
    assert_int_equal(ask(fixture, KVR_ORDER_ABANDON, -1), KVR_OK);
    ended.outcome = KVR_EXPIRED;
    assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
    assert_int_equal(asked(fixture, "prefill-0", 7, orders), 0);
    assert_int_equal(asked(fixture, "prefill-1", 7, orders), 1);
    assert_true(store_begin(fixture->store)); /* and the order goes with its agent */
    assert_int_equal(apply_agent_gone(fixture->apply, "prefill-1", NULL, "silent", &error), KVR_OK);
    assert_int_equal(apply_flush(fixture->apply, WALL, &error), KVR_OK);
    assert_true(store_commit(fixture->store));
    assert_int_equal(asked(fixture, "prefill-1", 7, orders), 0);
    assert_int_equal(ask(fixture, KVR_ORDER_ABANDON, -1), KVR_REFUSED);
}

static void order_leaves_a_target_that_came(void **state)
{
    struct fixture *fixture = *state;
    struct kvr_event matched = event_of(KVR_EVENT_MATCHED, KVR_ROLE_SOURCE, 5, 2);
    struct kvr_report report = report_of("prefill-0", 2, &matched, 1);
    struct kvr_order orders[KVR_ORDERS_MAX];
    uint64_t acknowledged;

    hold(fixture);
    assert_int_equal(ask(fixture, KVR_ORDER_ABANDON, -1), KVR_OK);
    assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
    assert_int_equal(asked(fixture, "prefill-0", 7, orders),
                     0); /* the target has come: the publish is a transfer now */
    assert_int_equal(ask(fixture, KVR_ORDER_ABANDON, -1), KVR_REFUSED);
    assert_int_equal(ask(fixture, KVR_ORDER_RENEW, 1), KVR_REFUSED);
}

static kvr_status ask_of(struct fixture *fixture, kvr_order_kind kind, const char *object,
                         uint64_t transfer)
{
    struct order order = {.kind = kind, .transfer = transfer};
    struct kvr_error error = {0};
    kvr_status status;

    snprintf(order.object, sizeof(order.object), "%s", object);
    assert_true(store_begin(fixture->store));
    status = order_store(fixture->store, &order, WALL, &error);
    assert_true(store_commit(fixture->store));
    assert_int_equal(order.count, status == KVR_OK);
    assert_true((status == KVR_OK) == (error.detail[0] == '\0'));
    return status;
}

/* The source reports first: there is no target yet to ask. */
static void a_cancel_goes_to_the_target(void **state)
{
    struct fixture *fixture = *state;
    struct kvr_event event = event_of(KVR_EVENT_MATCHED, KVR_ROLE_SOURCE, 5, 1);
    struct kvr_report report = report_of("prefill-0", 1, &event, 1);
    struct kvr_order orders[KVR_ORDERS_MAX];
    uint64_t acknowledged;

    assert_int_equal(ask_of(fixture, KVR_ORDER_CANCEL, "", 5), KVR_NOT_FOUND);
    assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
    assert_int_equal(ask_of(fixture, KVR_ORDER_CANCEL, "", 5), KVR_REFUSED);
    event = event_of(KVR_EVENT_MATCHED, KVR_ROLE_TARGET, 5, 1);
    strcpy(report.agent, "decode-0");
    assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
    assert_int_equal(ask_of(fixture, KVR_ORDER_CANCEL, "", 5), KVR_OK);
    assert_int_equal(asked(fixture, "prefill-0", 7, orders), 0);
    assert_int_equal(asked(fixture, "decode-0", 7, orders), 1);
    assert_int_equal(orders[0].kind, KVR_ORDER_CANCEL);
    assert_int_equal(orders[0].transfer, 5);
    assert_string_equal(orders[0].request, "request-1");
    assert_int_equal(orders[0].attempt, 1);
    event.kind = KVR_EVENT_ENDED;
    event.outcome = KVR_CANCELLED;
    report.sequence_first = 2;
    assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
    event.role = KVR_ROLE_SOURCE;
    strcpy(report.agent, "prefill-0");
    assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
    assert_int_equal(asked(fixture, "decode-0", 7, orders), 0);
    assert_int_equal(ask_of(fixture, KVR_ORDER_CANCEL, "", 5), KVR_REFUSED);
}

/* A target that waits for its source knows no number: the order names the request alone. */
static void a_cancel_of_a_waiting_fetch_names_the_request(void **state)
{
    struct fixture *fixture = *state;
    struct kvr_event opened = event_of(KVR_EVENT_OPENED, KVR_ROLE_TARGET, 0, 1);
    struct kvr_report report = report_of("decode-0", 1, &opened, 1);
    struct kvr_order orders[KVR_ORDERS_MAX];
    uint64_t acknowledged;

    assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
    assert_int_equal(
        ask_of(fixture, KVR_ORDER_CANCEL, "", transfer_opening_id("decode-0", 7, &opened)), KVR_OK);
    assert_int_equal(asked(fixture, "decode-0", 7, orders), 1);
    assert_int_equal(orders[0].transfer, 0);
}

static void agents_are_drained_each_for_itself(void **state)
{
    static struct kvr_agent_facts facts;
    struct fixture *fixture = *state;
    struct kvr_report report = report_of("prefill-0", 0, NULL, 0);
    struct kvr_order orders[KVR_ORDERS_MAX];
    uint64_t acknowledged;

    assert_int_equal(ask_of(fixture, KVR_ORDER_DRAIN, "prefill-0", 0), KVR_NOT_FOUND);
    report.facts = &facts;
    assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
    strcpy(report.agent, "prefill-1");
    assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
    assert_int_equal(ask_of(fixture, KVR_ORDER_DRAIN, "prefill-0", 0), KVR_OK);
    assert_int_equal(ask_of(fixture, KVR_ORDER_DRAIN, "prefill-1", 0), KVR_OK);
    assert_int_equal(ask_of(fixture, KVR_ORDER_RESUME, "prefill-0", 0), KVR_OK);
    assert_int_equal(ask_of(fixture, KVR_ORDER_DRAIN, "prefill-0", 0), KVR_OK);
    assert_int_equal(asked(fixture, "prefill-0", 7, orders), 2);
    assert_int_equal(orders[0].kind, KVR_ORDER_RESUME); /* the last word is the last order */
    assert_int_equal(orders[1].kind, KVR_ORDER_DRAIN);
    assert_string_equal(orders[1].request, "prefill-0");
    assert_int_equal(asked(fixture, "prefill-1", 7, orders), 1);
    report.orders_taken = orders[0].number;
    assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
    assert_int_equal(asked(fixture, "prefill-1", 7, orders), 0);
}

static void fleets_are_asked_to_record(void **state)
{
    static struct kvr_agent_facts facts;
    struct fixture *fixture = *state;
    struct kvr_report report = report_of("prefill-0", 0, NULL, 0);
    struct kvr_order orders[KVR_ORDERS_MAX];
    uint64_t acknowledged;
    uint32_t count;

    report.facts = &facts;
    assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
    strcpy(report.agent, "prefill-1");
    assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
    assert_int_equal(ask_of(fixture, KVR_ORDER_RECORD, "prefill-2", 0), KVR_NOT_FOUND);
    assert_int_equal(ask_of(fixture, KVR_ORDER_RECORD, "prefill-1", 0), KVR_OK);
    assert_int_equal(asked(fixture, "prefill-0", 7, orders), 0);
    assert_true(store_begin(fixture->store));
    assert_true(store_add_record_order(fixture->store, "*", 75 * KVR_S, WALL, &count));
    assert_true(store_commit(fixture->store));
    assert_int_equal(count, 2);
    for (int i = 0; i < 2; i++) { /* the later one alone */
        assert_int_equal(asked(fixture, i == 0 ? "prefill-0" : "prefill-1", 7, orders), 1);
        assert_int_equal(orders[0].kind, KVR_ORDER_RECORD);
        assert_int_equal(orders[0].lease_ns, 75 * KVR_S);
    }
}

static bool parses(const char *path, kvr_order_kind kind, const char *object)
{
    const struct api_query none = {0};
    struct api_answer answer = {0};
    struct order order;
    bool parsed = order_parse(path, &none, &order, &answer);

    free(answer.body);
    return parsed && order.kind == kind && strcmp(order.object, object) == 0;
}

static void paths_name_what_the_order_is_of(void **state)
{
    static const char *const wrong[] = {"/api/v1/requests/r/cancel",
                                        "/api/v1/requests//abandon",
                                        "/api/v1/transfers/0123456789abcdef/abandon",
                                        "/api/v1/transfers/0123456789abcde/cancel",
                                        "/api/v1/transfers/0123456789abcdef0/cancel",
                                        "/api/v1/agents/a/cancel",
                                        "/api/v1/agents//drain",
                                        "/api/v1/agents/drain"};

    (void)state;
    assert_true(parses("/api/v1/requests/a/b/abandon", KVR_ORDER_ABANDON, "a/b"));
    assert_true(
        parses("/api/v1/transfers/0123456789abcdef/cancel", KVR_ORDER_CANCEL, "0123456789abcdef"));
    assert_true(parses("/api/v1/agents/prefill-0/drain", KVR_ORDER_DRAIN, "prefill-0"));
    assert_true(parses("/api/v1/agents/prefill-0/resume", KVR_ORDER_RESUME, "prefill-0"));
    assert_false(parses("/api/v1/agents/prefill-0/record", KVR_ORDER_RECORD, "prefill-0"));
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        for (int kind = 0; kind < KVR_ORDER_KIND_END; kind++)
            assert_false(parses(wrong[i], (kvr_order_kind)kind, "a"));
    assert_false(order_is_path("/api/v1/transfers/0123456789abcdef"));
    assert_false(order_is_path("/api/v1/transfers/0123456789abcdef/timeline"));
    assert_false(order_is_path("/api/v1/agents"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_STORE(order_reaches_every_source_until_it_is_taken),
        WITH_STORE(order_goes_with_its_request),
        WITH_STORE(order_leaves_a_target_that_came),
        WITH_STORE(a_cancel_goes_to_the_target),
        WITH_STORE(a_cancel_of_a_waiting_fetch_names_the_request),
        WITH_STORE(agents_are_drained_each_for_itself),
        WITH_STORE(fleets_are_asked_to_record),
        cmocka_unit_test(paths_name_what_the_order_is_of),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
