/* Goal: notices of no handle take a bounded place, and what an engine gets late is true. Method:
 * the list alone. */
#include "tests/support/check.h"

#include <stdio.h>

#include "agent/engine/engine_news.h"

static struct kvr_notice list[ENGINE_NEWS_MAX];
static struct engine_news news;

static int none_yet(void **state)
{
    (void)state;
    news = (struct engine_news){.list = list};
    return 0;
}

static uint32_t put(kvr_notice_kind kind, const char *name)
{
    struct kvr_notice notice = {.kind = kind};

    snprintf(notice.agent, sizeof(notice.agent), "%s", name);
    return engine_news_put(&news, &notice);
}

static void expect(kvr_notice_kind kind, const char *name)
{
    const struct kvr_notice *first = engine_news_first(&news);

    assert_non_null(first);
    assert_int_equal(first->kind, kind);
    assert_string_equal(first->agent, name);
    engine_news_pop(&news);
}

static void the_latest_of_each_is_kept(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 10000; i++) {
        assert_int_equal(put(KVR_NOTICE_PEER_UP, "d1"), 0);
        assert_int_equal(put(KVR_NOTICE_PEER_WARM, "d1"), 0);
        assert_int_equal(put(KVR_NOTICE_PEER_DOWN, "d1"), 0);
        assert_int_equal(put(KVR_NOTICE_TARGET_REFUSED, i % 2 == 0 ? "a" : "b"), 0);
        assert_int_equal(put(KVR_NOTICE_RAIL_DOWN, "d1"), 0); /* a card of that name */
        assert_int_equal(put(KVR_NOTICE_RAIL_UP, "d1"), 0);
    }
    expect(KVR_NOTICE_PEER_DOWN, "d1");
    expect(KVR_NOTICE_TARGET_REFUSED, "b");
    expect(KVR_NOTICE_RAIL_UP, "d1");
    assert_null(engine_news_first(&news));
}

static void a_warm_agent_came_up_before(void **state)
{
    (void)state;
    put(KVR_NOTICE_PEER_DOWN, "d1");
    put(KVR_NOTICE_PEER_UP, "d1");
    put(KVR_NOTICE_PEER_UP, "d2");
    put(KVR_NOTICE_PEER_WARM, "d1");
    put(KVR_NOTICE_PEER_WARM, "d1");
    expect(KVR_NOTICE_PEER_UP, "d1");
    expect(KVR_NOTICE_PEER_UP, "d2");
    expect(KVR_NOTICE_PEER_WARM, "d1");
    assert_null(engine_news_first(&news));
}

static void the_oldest_subject_makes_room(void **state)
{
    char name[16];

    (void)state;
    for (uint32_t i = 0; i < ENGINE_NEWS_MAX + 3; i++) {
        snprintf(name, sizeof(name), "d%u", i);
        assert_int_equal(put(KVR_NOTICE_PEER_UP, name), i >= ENGINE_NEWS_MAX);
    }
    assert_int_equal(news.count, ENGINE_NEWS_MAX);
    expect(KVR_NOTICE_PEER_UP, "d3");
}

static void notices_of_handles_are_none_of_it(void **state)
{
    uint32_t taken = 0;

    (void)state;
    for (uint32_t kind = 0; kind < KVR_NOTICE_KIND_END; kind++) {
        struct kvr_notice of_none = {.kind = (kvr_notice_kind)kind};
        struct kvr_notice of_one = {.kind = (kvr_notice_kind)kind, .handle = 1};

        taken += engine_news_takes(&of_none);
        assert_false(engine_news_takes(&of_one));
        assert_false(engine_news_takes(&of_none) && kvr_notice_terminal((kvr_notice_kind)kind));
    }
    assert_int_equal(taken, 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_latest_of_each_is_kept, none_yet),
        cmocka_unit_test_setup(a_warm_agent_came_up_before, none_yet),
        cmocka_unit_test_setup(the_oldest_subject_makes_room, none_yet),
        cmocka_unit_test(notices_of_handles_are_none_of_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
