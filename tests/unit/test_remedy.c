/* Goal: every failure has a remedy.
 * Method: every status that a transfer can end with. */
#include "base/remedy.h"
#include "tests/support/check.h"

static const struct {
    kvr_status status;
    int value;
    const char *name;
} statuses[] = {
#define X(symbol, value, name, text) {symbol, value, name},
    KVR_STATUS_LIST(X)
#undef X
};

static void every_failure_has_a_remedy(void **state)
{
    const char *unknown = kvr_remedy_act(KVR_OK);

    (void)state;
    assert_string_equal(unknown, "see the logs of both agents at that time");
    for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
        const char *act = kvr_remedy_act(statuses[i].status);

        if (statuses[i].value <= KVR_CANCELLED && strcmp(act, unknown) == 0)
            fail_msg("%s has no remedy", statuses[i].name);
        if (act[strlen(act) - 1] == '.')
            fail_msg("the remedy of %s ends with a full stop", statuses[i].name);
    }
}

static void a_remedy_has_a_scope(void **state)
{
    (void)state;
    assert_string_equal(kvr_scope_name(kvr_remedy_scope(KVR_RAIL_FAILED)), "rail");
    assert_string_equal(kvr_scope_name(kvr_remedy_scope(KVR_EXPIRED)), "request");
    assert_string_equal(kvr_scope_name(kvr_remedy_scope(KVR_PEER_LOST)), "peer");
    assert_string_equal(kvr_scope_name(kvr_remedy_scope(KVR_MALFORMED)), "kvrail");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_failure_has_a_remedy),
        cmocka_unit_test(a_remedy_has_a_scope),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
