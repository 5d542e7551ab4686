/* Goal: the reader of state tables finds each possible difference between a table and the code. */
#include "tests/support/state_table.h"

#include "base/state.h"

enum door_state { DOOR_OPEN, DOOR_SHUT, DOOR_STATES };
enum door_event { DOOR_ON_PUSHED, DOOR_ON_KNOCKED, DOOR_EVENTS };

KVR_STATE_MACHINE(door);

KVR_STATE_TABLE(door, DOOR) = {
    /* PUSHED, KNOCKED */
    [DOOR_OPEN] = {DOOR_SHUT, DOOR_OPEN},
    [DOOR_SHUT] = {NEVER, DOOR_SHUT},
};

STATE_TABLE_NEXT(next, door_next, enum door_state, enum door_event)

static bool matches(const char *text, const char *fault_part)
{
    static const char *const states[] = {"OPEN", "SHUT"}, *const events[] = {"PUSHED", "KNOCKED"};
    struct state_table table = {.file = "door.c",
                                .states = states,
                                .events = events,
                                .state_count = DOOR_STATES,
                                .event_count = DOOR_EVENTS,
                                .next = next};
    char fault[256] = "";
    bool matched = state_table_matches(&table, text, fault, sizeof(fault));

    if (fault_part != NULL)
        assert_non_null(strstr(fault, fault_part));
    return matched;
}

static void equal_tables_match(void **state)
{
    (void)state;
    assert_true(matches(" * state | PUSHED | KNOCKED\n"
                        " * ------|--------|--------\n"
                        " * OPEN  | SHUT   | =\n"
                        " * SHUT  | -      | SHUT\n",
                        NULL));
    assert_true(matches("/* state | PUSHED | KNOCKED\n"
                        " * ------|--------|--------\n"
                        " * OPEN  | SHUT   | =\n"
                        " * SHUT  | -      | = */\n",
                        NULL));
}

static void tables_stand_in_parts(void **state)
{
    (void)state;
    assert_true(matches(" * state | PUSHED\n * ---|---\n * OPEN | SHUT\n * SHUT | -\n *\n"
                        " * other | PUSHED\n * OPEN | OPEN\n *\n"
                        " * state | KNOCKED\n * ---|---\n * OPEN | =\n * SHUT | =\n",
                        NULL));
}

static void differences_are_found(void **state)
{
    (void)state;
    assert_false(matches("", "lacks a cell"));
    assert_false(matches("state | PUSHED | KNOCKED\nOPEN | SHUT | =\n", "lacks a cell"));
    assert_false(matches("state | PUSHED\nOPEN | SHUT\nSHUT | -\n", "lacks a cell"));
    assert_false(matches("state | PUSHED | KNOCKED\nOPEN | = | =\nSHUT | - | =\n", "otherwise"));
    assert_false(matches("state | PUSHED | KNOCKED\nOPEN | - | =\nSHUT | - | =\n", "otherwise"));
    assert_false(matches("state | PUSHED | KNOCKED\nOPEN | SHUT | =\nSHUT | = | =\n", "otherwise"));
    assert_false(matches("state | PULLED\n", "unknown event"));
    assert_false(matches("state | PUSHED\nAJAR | -\n", "unknown state"));
    assert_false(matches("state | PUSHED\nOPEN | AJAR\n", "unknown state"));
    assert_false(matches("state | PUSHED | KNOCKED\nOPEN | SHUT\n", "more or fewer"));
    assert_false(matches("state | PUSHED\nOPEN | SHUT\nOPEN | SHUT\n", "twice"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_tables_match),
        cmocka_unit_test(tables_stand_in_parts),
        cmocka_unit_test(differences_are_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
