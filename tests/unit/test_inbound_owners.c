/* Goal: an engine cannot name, feed, watch or cancel another engine's fetch, and has no more of
 * them than its quota. Method: inbound alone with two engines; the second says everything that an
 * engine can say with the handle of the first. */
#include "tests/support/check.h"

#include "decode-agent/fetch.h"
#include "tests/support/inbound_case.h"

#define OTHER 1

static struct small_side other_side;
static struct kvr_shared_page other_page;

static int open_two(void **state)
{
    (void)open_inbound(state);
    small_side_init(&other_side, 2);
    machine_engine_up(&inbound.engines, OTHER, 2, &other_side, &other_page);
    return 0;
}

static void the_other_says(struct kvr_request request)
{
    request.handle = 1;
    inbound_request(&inbound, now, OTHER, &request);
}

static void a_handle_is_its_engines(void **state)
{
    static const uint32_t ids[SMALL_PLANNED] = {0, 2, 4, 6};
    struct kvr_request pages = {.kind = KVR_REQ_TARGET_PAGES};
    struct kvr_request watch = {.kind = KVR_REQ_WATCH};
    struct kvr_request skip = {.kind = KVR_REQ_TARGET_SKIP};
    struct kvr_request cancel = {.kind = KVR_REQ_CANCEL};
    char json[512], none[512];

    (void)state;
    (void)fetch(1, 0, 1);
    pages.pages.ids = ids;
    pages.pages.id_count = SMALL_PLANNED;
    cancel.cancel.reason = KVR_CANCELLED;
    the_other_says(pages);
    the_other_says(watch);
    the_other_says(skip);
    the_other_says((struct kvr_request){.kind = KVR_REQ_TARGET_HOLD});
    the_other_says(cancel);
    assert_non_null(fetch_find(&inbound, 0, 1));
    assert_null(fetch_find(&inbound, OTHER, 1));
    assert_null(machine_sent(KVR_MSG_CANCEL));
    assert_int_equal(machine_notice_count(KVR_NOTICE_FAILING), 0);
    inbound_why(&inbound, OTHER, 1, json, sizeof(json));
    inbound_why(&inbound, OTHER, 2, none, sizeof(none));
    assert_string_equal(json, none);
    inbound_engine_down(&inbound, now, OTHER);
    assert_non_null(fetch_find(&inbound, 0, 1));
}

static void an_engine_has_its_quota(void **state)
{
    (void)state;
    inbound.engines.quota = 2;
    (void)fetch(1, 0, 1);
    (void)fetch(2, 0, 1);
    (void)fetch(3, 0, 1);
    assert_int_equal(inbound.engines.quota_refused, 1);
    assert_int_equal(machine_notice(KVR_NOTICE_FAILED)->handle, 3);
    assert_int_equal(machine_notice(KVR_NOTICE_FAILED)->status, KVR_FULL);
    assert_non_null(strstr(machine_notice(KVR_NOTICE_FAILED)->detail, "--engine-fetches"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_handle_is_its_engines, open_two),
        cmocka_unit_test_setup(an_engine_has_its_quota, open_two),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
