/* Goal: rails on cards that our machines lack are found, opened and refused as libfabric's
 * providers for them demand. Method: fabric_ofi on a provider that answers as theirs do
 * (fake_ofi.h). */
#include "tests/support/check.h"

#include "fabric/ofi/fabric_ofi_state.h"
#include "tests/support/fake_ofi.h"

static int start(void **state)
{
    (void)state;
    fake_ofi_reset();
    return 0;
}

static int end(void **state)
{
    return start(state);
}

/* Asked for less, libfabric's EFA sends and copies on some cards instead of writing by RDMA. */
static void efa_is_refused_below_api_1_18(void **state)
{
    struct kvr_error error = {0};
    struct fi_info *list = NULL;

    (void)state;
    fake_ofi_add_efa("rdmap79s0-rdm");
    fake_ofi.api = FI_VERSION(1, 17);
    assert_int_equal(ofi_getinfo("efa", NULL, &list, &error), KVR_UNSUPPORTED);
    assert_non_null(strstr(error.detail, "built with libfabric 1.20 or later"));
    assert_non_null(strstr(error.detail, "asks for API 1.17"));
    fake_ofi.api = FI_VERSION(1, 18);
    assert_int_equal(ofi_getinfo("efa", NULL, &list, &error), KVR_OK);
    fi_freeinfo(list);
}

static void other_cards_need_no_api(void **state)
{
    struct kvr_error error = {0};
    struct fi_info *list = NULL;

    (void)state;
    fake_ofi_add_verbs("mlx5_0", "10.0.0.5");
    fake_ofi.api = FI_VERSION(1, 17);
    assert_int_equal(ofi_getinfo("verbs", NULL, &list, &error), KVR_OK);
    fi_freeinfo(list);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, start, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(efa_is_refused_below_api_1_18),
        CASE(other_cards_need_no_api),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
