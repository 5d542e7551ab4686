/* Goal: cards write to the memory of a GPU only where its own work sees that in order. Method: each
 * order, with and without a flush, at both agents. */
#include "tests/support/check.h"

#include "agent/agent_state.h"

static struct kvr_agent agent;

static kvr_status asked(kvr_role role, kvr_write_order order, bool flushes)
{
    struct kvr_error error = {.detail = ""};
    kvr_status status;

    agent.machine.role = role;
    status = agent_write_order_check(&agent, order, flushes, &error);
    assert_true((status == KVR_OK) == (error.detail[0] == '\0'));
    return status;
}

static void a_target_needs_order_or_a_flush(void **state)
{
    (void)state;
    assert_int_equal(asked(KVR_ROLE_TARGET, KVR_ORDER_UNKNOWN, false),
                     KVR_OK); /* an older library */
    assert_int_equal(asked(KVR_ROLE_TARGET, KVR_ORDER_KEPT, false), KVR_OK);
    assert_int_equal(asked(KVR_ROLE_TARGET, KVR_ORDER_FLUSHED, true), KVR_OK);
    assert_int_equal(asked(KVR_ROLE_TARGET, KVR_ORDER_FLUSHED, false), KVR_UNSUPPORTED);
    assert_int_equal(asked(KVR_ROLE_TARGET, KVR_ORDER_NONE, true), KVR_UNSUPPORTED);
}

static void cards_read_a_source_in_any_order(void **state)
{
    (void)state;
    for (kvr_write_order order = KVR_ORDER_UNKNOWN; order < KVR_ORDERS; order++)
        assert_int_equal(asked(KVR_ROLE_SOURCE, order, false), KVR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_target_needs_order_or_a_flush),
        cmocka_unit_test(cards_read_a_source_in_any_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
