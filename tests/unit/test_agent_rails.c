/* Goal: HELLO names every rail to a peer, also a rail that has no endpoint yet. Without its name
 * the peer could not place the endpoint that follows, and would never write to that rail. Method:
 * the agent's shell with a group that lacks an endpoint on one of its rails. */
#include "tests/support/check.h"

#include "agent/agent_state.h"

struct kvr_rail_address __wrap_kvr_group_address(const struct kvr_group *group, uint32_t rail);
struct kvr_rail_address __wrap_kvr_group_address(const struct kvr_group *group, uint32_t rail)
{
    (void)group;
    return (struct kvr_rail_address){.rail = rail, .epoch = 2 + rail, .bytes = rail == 1 ? 0 : 4};
}

static void all_rails_are_told(void **state)
{
    static struct kvr_agent agent = {.rail_count = 3, .groups = {.count = 1, .first = {0, 3}}};
    struct kvr_rail_address rails[KVR_RAILS_MAX];

    (void)state;
    assert_int_equal(agent_rails_now(&agent, rails), 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(rails[i].rail, i);
        assert_int_equal(rails[i].epoch, 2 + i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_rails_are_told)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
