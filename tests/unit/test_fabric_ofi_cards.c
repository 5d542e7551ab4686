/* Goal: rails on cards that our machines lack are found, opened and refused as libfabric's
 * providers for them demand. Method: fabric_ofi on a provider that answers as theirs do
 * (fake_ofi.h). */
#include "tests/support/check.h"

#include "fabric/ofi/fabric_ofi.h"
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

/* With device memory, the rail listens on the address that was chosen, not on the card's first. */
static void device_memory_keeps_the_address_of_a_rail(void **state)
{
    const struct kvr_provider *verbs = kvr_provider_find("verbs");
    struct fi_info *chosen, *found;
    struct kvr_rail_facts facts;

    (void)state;
    fake_ofi_add_verbs("mlx5_0", "10.0.0.5");
    chosen = fake_ofi_add_verbs("mlx5_0", "10.1.0.5");
    found = ofi_getinfo_device(verbs, chosen);
    assert_non_null(found);
    assert_true((found->caps & FI_HMEM) != 0);
    ofi_facts(verbs, found, &facts);
    assert_string_equal(facts.source, "10.1.0.5");
    fi_freeinfo(found);
}

static void a_rail_opened_for_device_memory_is_the_one_that_was_named(void **state)
{
    struct kvr_rail_options options = {
        .provider = "verbs", .name = "10.1.0.5", .device_memory = true};
    struct kvr_error error = {0};
    struct kvr_rail *rail = NULL;
    struct kvr_fabric fabric;

    (void)state;
    fake_ofi_add_verbs("mlx5_0", "10.0.0.5");
    fake_ofi_add_verbs("mlx5_0", "10.1.0.5");
    kvr_fabric_ofi(&fabric);
    assert_int_equal(fabric.ops->rail_open(fabric.self, &options, &rail, &error), KVR_OK);
    assert_string_equal(fabric.ops->rail_facts(rail)->source, "10.1.0.5");
    assert_int_equal(fabric.ops->rail_facts(rail)->device.hmem, KVR_WHY_NOTHING);
    fabric.ops->rail_close(rail);
}

/* rdma_cm needs IP addresses. */
static void a_port_without_an_ip_address_is_no_rail(void **state)
{
    struct kvr_error error = {0};
    struct fi_info *list = NULL;

    (void)state;
    fake_ofi_add_ib("mlx5_0");
    assert_int_equal(ofi_getinfo("verbs", NULL, &list, &error), KVR_NOT_FOUND);
    assert_non_null(strstr(error.detail, "give each port an IP address"));
    fake_ofi_add_verbs("mlx5_0", "10.0.0.5");
    assert_int_equal(ofi_getinfo("verbs", NULL, &list, &error), KVR_OK);
    assert_int_equal(list->addr_format, FI_SOCKADDR_IN);
    assert_null(list->next);
    fi_freeinfo(list);
    fake_ofi_reset();
    assert_int_equal(ofi_getinfo("verbs", NULL, &list, &error), KVR_NOT_FOUND);
    assert_non_null(strstr(error.detail, "`fi_info` lists what there is"));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, start, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(efa_is_refused_below_api_1_18),
        CASE(other_cards_need_no_api),
        CASE(a_port_without_an_ip_address_is_no_rail),
        CASE(device_memory_keeps_the_address_of_a_rail),
        CASE(a_rail_opened_for_device_memory_is_the_one_that_was_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
