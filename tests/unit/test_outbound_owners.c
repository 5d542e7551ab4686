/* Goal: an engine cannot name, feed, end, hold or let go of another engine's publish, and has no
 * more of them than its quota. Method: outbound alone with two engines; the second says everything
 * that an engine can say with the handle of the first. */
#include "tests/support/check.h"

#include <stdio.h>

#include "prefill-agent/publish.h"
#include "tests/support/outbound_case.h"

#define OTHER 1

static struct small_side other_side;
static struct kvr_shared_page other_page;

static int open_two(void **state)
{
    (void)open_outbound(state);
    small_side_init(&other_side, 2);
    machine_engine_up(&outbound.engines, OTHER, 2, &other_side, &other_page);
    return 0;
}

static void the_other_says(struct kvr_request request)
{
    request.handle = HANDLE;
    outbound_request(&outbound, now, OTHER, &request);
}

static void the_other_tries_everything(void)
{
    static const uint32_t ids[SMALL_PLANNED] = {1, 3, 5, 7};
    static const uint8_t tail[] = "mine";
    struct kvr_request pages = {.kind = KVR_REQ_SOURCE_PAGES};
    struct kvr_request watch = {.kind = KVR_REQ_WATCH};
    struct kvr_request end = {.kind = KVR_REQ_SOURCE_END};
    struct kvr_request tails = {.kind = KVR_REQ_SOURCE_TAIL};
    struct kvr_request renew = {.kind = KVR_REQ_RENEW};
    struct kvr_request cancel = {.kind = KVR_REQ_CANCEL};

    pages.pages.ids = ids;
    pages.pages.id_count = SMALL_PLANNED;
    watch.watch.token_end = SMALL_PLANNED;
    tails.tail.bytes = tail;
    tails.tail.byte_count = sizeof(tail);
    renew.renew.lease_ms = 1000000;
    cancel.cancel.reason = KVR_CANCELLED;
    the_other_says(pages);
    the_other_says(watch);
    the_other_says(tails);
    the_other_says(end);
    the_other_says(renew);
    the_other_says(cancel);
}

static void a_handle_is_its_engines(void **state)
{
    const struct publish *publish;
    char json[512], none[512];
    kvr_ns lease_end;

    (void)state;
    publish_for(1);
    publish = publish_find(&outbound, 0, HANDLE);
    assert_non_null(publish);
    lease_end = publish->lease.end;
    now += KVR_S;
    the_other_tries_everything();
    assert_ptr_equal(publish_find(&outbound, 0, HANDLE), publish);
    assert_int_equal(publish->status, KVR_OK);
    assert_int_equal(publish->lease.end, lease_end);
    assert_null(publish_find(&outbound, OTHER, HANDLE));
    outbound_why(&outbound, OTHER, HANDLE, json, sizeof(json));
    outbound_why(&outbound, OTHER, HANDLE + 1, none, sizeof(none));
    assert_string_equal(json, none); /* as of a handle that there never was */
    publish_all(); /* the first one's pages come first: nothing was added before them */
    want(0, NONCE);
    assert_non_null(machine_sent(KVR_MSG_PLAN));
    assert_null(machine_sent(KVR_MSG_TAIL));
}

/* Two engines may use one number. The end of one is not the other's. */
static void two_engines_use_one_handle(void **state)
{
    struct kvr_request open = {.kind = KVR_REQ_SOURCE_OPEN};

    (void)state;
    publish_for(1);
    snprintf(open.source_open.request, sizeof(open.source_open.request), "another");
    open.source_open.tokens = SMALL_PLANNED;
    the_other_says(open);
    assert_ptr_not_equal(publish_find(&outbound, OTHER, HANDLE),
                         publish_find(&outbound, 0, HANDLE));
    the_other_says((struct kvr_request){.kind = KVR_REQ_CANCEL, .cancel.reason = KVR_CANCELLED});
    assert_null(publish_find(&outbound, OTHER, HANDLE));
    assert_non_null(publish_find(&outbound, 0, HANDLE));
    outbound_engine_down(&outbound, now, OTHER);
    assert_non_null(publish_find(&outbound, 0, HANDLE));
}

static void an_engine_has_its_quota(void **state)
{
    struct kvr_request open = {.kind = KVR_REQ_SOURCE_OPEN};

    (void)state;
    outbound.engines.quota = 3;
    open.source_open.tokens = SMALL_PLANNED;
    for (uint32_t i = 0; i < 5; i++) {
        snprintf(open.source_open.request, sizeof(open.source_open.request), "r%u", i);
        open.handle = 100 + i;
        outbound_request(&outbound, now, OTHER, &open);
    }
    assert_int_equal(outbound.publishes.used_count, 3);
    assert_int_equal(outbound.engines.quota_refused, 2);
    assert_int_equal(freed()->handle, 104);
    assert_int_equal(freed()->status, KVR_FULL);
    assert_non_null(strstr(freed()->detail, "--engine-publishes"));
    publish_for(1); /* another engine's */
    assert_non_null(publish_find(&outbound, 0, HANDLE));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_handle_is_its_engines, open_two),
        cmocka_unit_test_setup(two_engines_use_one_handle, open_two),
        cmocka_unit_test_setup(an_engine_has_its_quota, open_two),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
