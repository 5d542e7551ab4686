/* Goal: libfabric's description of a card becomes the facts that all other code uses, also for
 * cards that our machines lack. Method: entries as fi_getinfo returns them, written by hand after
 * the providers' sources. */
#include "tests/support/check.h"

#include <stdlib.h>

#include "fabric/ofi/fabric_ofi.h"
#include "fabric/ofi/fabric_ofi_state.h"

/* An entry as efa's in libfabric 2.6 is on a host without GPUs. */
static struct fi_info *efa_info(void)
{
    struct fi_info *info = fi_allocinfo();

    assert_non_null(info);
    info->fabric_attr->prov_name = strdup("efa");
    info->fabric_attr->name = strdup("efa");
    info->domain_attr->name = strdup("rdmap79s0-rdm");
    info->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    info->domain_attr->cq_data_size = 4;
    info->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    info->ep_attr->max_msg_size = UINT64_MAX;
    info->tx_attr->iov_limit = 4;
    info->tx_attr->rma_iov_limit = 1;
    info->tx_attr->size = 4096;
    return info;
}

static void rename_fabric(struct fi_info *info, const char *prov_name, const char *name)
{
    free(info->fabric_attr->prov_name);
    free(info->fabric_attr->name);
    info->fabric_attr->prov_name = strdup(prov_name);
    info->fabric_attr->name = strdup(name);
}

static void efa_writes_one_piece_with_an_immediate(void **state)
{
    struct fi_info *info = efa_info();
    struct kvr_rail_facts facts;

    (void)state;
    ofi_facts(kvr_provider_find("efa"), info, &facts);
    assert_string_equal(facts.provider, "efa");
    assert_string_equal(facts.name, "rdmap79s0-rdm");
    assert_int_equal(facts.write.pieces_local, 1);
    assert_int_equal(facts.write.pieces_remote, 1);
    assert_int_equal(facts.write.outstanding_max, 4096);
    assert_true(facts.pins_memory && facts.progress_manual);
    assert_false(facts.same_host_only || facts.target_copies);
    fi_freeinfo(info);
}

/* efa cuts a longer write into several, and each would carry the immediate. */
static void efa_writes_are_never_cut(void **state)
{
    struct fi_info *info = efa_info();
    struct kvr_rail_facts facts;

    (void)state;
    ofi_facts(kvr_provider_find("efa"), info, &facts);
    assert_int_equal(facts.write.bytes_max, 8 << 20);
    info->ep_attr->max_msg_size = 1 << 20;
    ofi_facts(kvr_provider_find("efa"), info, &facts);
    assert_int_equal(facts.write.bytes_max, 1 << 20);
    fi_freeinfo(info);
}

static void only_the_provider_itself_is_used(void **state)
{
    const struct kvr_provider *efa = kvr_provider_find("efa");
    struct fi_info *info = efa_info();

    (void)state;
    assert_true(ofi_usable(efa, info));
    rename_fabric(info, "efa", "efa-direct");
    assert_false(ofi_usable(efa, info));
    rename_fabric(info, "verbs", "IB-0xfe80000000000000");
    assert_false(
        ofi_usable(kvr_provider_find("verbs"), info)); /* no reliable datagrams without ofi_rxm */
    rename_fabric(info, "verbs;ofi_rxm", "IB-0xfe80000000000000");
    assert_true(ofi_usable(kvr_provider_find("verbs"), info));
    rename_fabric(info, "tcp;ofi_rxm", "10.0.0.0/24");
    assert_false(ofi_usable(kvr_provider_find("tcp"), info));
    fi_freeinfo(info);
}

static void what_lacks_something_is_left_out(void **state)
{
    const struct kvr_provider *efa = kvr_provider_find("efa");
    struct fi_info *info = efa_info();

    (void)state;
    info->domain_attr->cq_data_size = 0; /* no room for an immediate */
    assert_false(ofi_usable(efa, info));
    info->domain_attr->cq_data_size = 8;
    assert_true(ofi_usable(efa, info));
    info->domain_attr->mr_mode |= FI_MR_ENDPOINT; /* registrations would not outlive an endpoint */
    assert_false(ofi_usable(efa, info));
    fi_freeinfo(info);
}

static void memory_is_pinned_where_it_must_be_there(void **state)
{
    struct fi_info *info = efa_info();
    struct kvr_rail_facts facts;

    (void)state;
    info->domain_attr->mr_mode = FI_MR_VIRT_ADDR;
    ofi_facts(kvr_provider_find("tcp"), info, &facts);
    assert_false(facts.pins_memory);
    assert_false(facts.same_host_only || facts.target_copies);
    fi_freeinfo(info);
}

static void own_buffers_are_counted(void **state)
{
    const struct kvr_provider *verbs = kvr_provider_find("verbs");

    (void)state;
    assert_int_equal(ofi_own_buffer_bytes(kvr_provider_find("efa")), 0);
    setenv("FI_OFI_RXM_BUFFER_SIZE", "256", 1);
    assert_int_equal(ofi_own_buffer_bytes(verbs), 2048 * (256 + 512));
    setenv("FI_OFI_RXM_BUFFER_SIZE", "16384", 1); /* a user's choice */
    assert_int_equal(ofi_own_buffer_bytes(verbs), 2048 * (16384 + 512));
}

/* With gdrcopy on the host, libfabric maps device memory once more for copies of its own. */
static void device_memory_is_mapped_for_cards_alone(void **state)
{
    struct kvr_rail_facts facts[1];
    struct kvr_error error;

    (void)state;
    unsetenv("FI_HMEM_CUDA_USE_GDRCOPY");
    (void)kvr_fabric_ofi_list("tcp", facts, 1, &error);
    assert_non_null(getenv("FI_HMEM_CUDA_USE_GDRCOPY"));
    assert_string_equal(getenv("FI_HMEM_CUDA_USE_GDRCOPY"), "0");
    setenv("FI_HMEM_CUDA_USE_GDRCOPY", "1", 1); /* a user's choice */
    (void)kvr_fabric_ofi_list("tcp", facts, 1, &error);
    assert_string_equal(getenv("FI_HMEM_CUDA_USE_GDRCOPY"), "1");
}

/* A card announces device memory by FI_HMEM; the rest depends on the version of libfabric. */
static void a_card_says_what_it_can_do_with_device_memory(void **state)
{
    const struct kvr_provider *efa = kvr_provider_find("efa");
    bool built = FI_MAJOR_VERSION > 1 || FI_MINOR_VERSION >= 20;
    struct fi_info *info = efa_info();
    struct kvr_rail_device_facts facts;

    (void)state;
    facts = ofi_device_facts(kvr_provider_find("tcp"), info, FI_VERSION(2, 0));
    assert_int_equal(facts.dmabuf, KVR_WHY_HOST_ONLY);
    assert_int_equal(facts.hmem, KVR_WHY_HOST_ONLY);
    facts = ofi_device_facts(efa, NULL, FI_VERSION(2, 0));
    assert_int_equal(facts.dmabuf, KVR_WHY_NO_HMEM);
    assert_int_equal(facts.hmem, KVR_WHY_NO_HMEM);
    facts = ofi_device_facts(efa, info, FI_VERSION(1, 19));
    assert_int_equal(facts.dmabuf, built ? KVR_WHY_OLD_LIBRARY : KVR_WHY_OLD_BUILD);
    assert_int_equal(facts.hmem, KVR_WHY_NOTHING);
    facts = ofi_device_facts(efa, info, FI_VERSION(1, 20));
    assert_int_equal(facts.dmabuf, built ? KVR_WHY_NOTHING : KVR_WHY_OLD_BUILD);
    facts = ofi_device_facts(kvr_provider_find("verbs"), info, FI_VERSION(2, 0));
    assert_int_equal(facts.hmem, KVR_WHY_NOTHING);
    fi_freeinfo(info);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(efa_writes_one_piece_with_an_immediate),
        cmocka_unit_test(efa_writes_are_never_cut),
        cmocka_unit_test(only_the_provider_itself_is_used),
        cmocka_unit_test(what_lacks_something_is_left_out),
        cmocka_unit_test(memory_is_pinned_where_it_must_be_there),
        cmocka_unit_test(own_buffers_are_counted),
        cmocka_unit_test(device_memory_is_mapped_for_cards_alone),
        cmocka_unit_test(a_card_says_what_it_can_do_with_device_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
