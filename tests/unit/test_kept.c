/* Goal: an answer is kept for a second since it was made, and not beyond a change of what it shows.
 * Method: times by hand. */
#include "tests/support/check.h"

#include <stdio.h>
#include <stdlib.h>

#include "scheduler/kept.h"

static struct kept kept;

static void put(const char *key, uint64_t changes, kvr_ns made_at)
{
    struct ready *ready = ready_make(strdup(key), strlen(key), "application/json");

    assert_non_null(ready);
    kept_put(&kept, key, changes, made_at, ready);
    ready_drop(ready);
}

static bool finds(const char *key, uint64_t changes, kvr_ns now)
{
    struct ready *ready = kept_find(&kept, key, changes, now);

    assert_true(ready == NULL || strcmp(ready->text, key) == 0);
    ready_drop(ready);
    return ready != NULL;
}

static void an_answer_lasts_for_a_second(void **state)
{
    (void)state;
    assert_false(finds("/api/v1/agents", 7, KVR_S));
    put("/api/v1/agents", 7, 5 * KVR_S);
    assert_true(finds("/api/v1/agents", 7, 3 * KVR_S)); /* that of a question from before */
    assert_true(finds("/api/v1/agents", 7, 6 * KVR_S - 1));
    assert_false(finds("/api/v1/agents", 7, 6 * KVR_S));
    assert_false(finds("/api/v1/agents", 8, 5 * KVR_S)); /* an agent has come */
    assert_false(finds("/api/v1/agents&a=1:b", 7, 5 * KVR_S));
    put("/api/v1/agents", 8, 6 * KVR_S);
    assert_true(finds("/api/v1/agents", 8, 6 * KVR_S));
    kept_drop(&kept);
    assert_false(finds("/api/v1/agents", 8, 6 * KVR_S));
}

static void the_oldest_makes_room(void **state)
{
    char key[32];

    (void)state;
    for (unsigned i = 0; i < KEPT_MAX + 2; i++) {
        snprintf(key, sizeof(key), "/api/v1/pairs&tokens=%u", i);
        put(key, 1, KVR_S + i);
    }
    for (unsigned i = 0; i < KEPT_MAX + 2; i++) {
        snprintf(key, sizeof(key), "/api/v1/pairs&tokens=%u", i);
        assert_true(finds(key, 1, KVR_S + 100) == (i >= 2));
    }
    put("/api/v1/pairs&tokens=5", 1, 2 * KVR_S); /* in its own place */
    assert_true(finds("/api/v1/pairs&tokens=2", 1, KVR_S + 100));
    kept_drop(&kept);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_lasts_for_a_second),
        cmocka_unit_test(the_oldest_makes_room),
    };

    return cmocka_run_group_tests_name("kept", tests, NULL, NULL);
}
