/* Goal: rails on cards that our machines lack are found, opened and refused as libfabric's
 * providers for them demand. Method: fabric_ofi on a provider that answers as theirs do
 * (fake_ofi.h). */
#include "tests/support/check.h"

#include <stdio.h>
#include <sys/resource.h>

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

static struct kvr_fabric fabric;

/* The limit of locked memory has a sentence of its own, which would come first. */
int __wrap_getrlimit(int resource, struct rlimit *ret_limit);
int __wrap_getrlimit(int resource, struct rlimit *ret_limit)
{
    (void)resource;
    *ret_limit = (struct rlimit){RLIM_INFINITY, RLIM_INFINITY};
    return 0;
}

static struct kvr_rail *open_rail(const char *provider, const char *name, bool device_memory)
{
    struct kvr_rail_options options = {.device_memory = device_memory};
    struct kvr_error error = {0};
    struct kvr_rail *rail = NULL;

    snprintf(options.provider, sizeof(options.provider), "%s", provider);
    snprintf(options.name, sizeof(options.name), "%s", name);
    kvr_fabric_ofi(&fabric);
    if (fabric.ops->rail_open(fabric.self, &options, &rail, &error) != KVR_OK)
        fail_msg("%s", error.detail);
    return rail;
}

static struct kvr_rail *open_efa(bool device_memory)
{
    if (fake_ofi.infos == NULL)
        fake_ofi_add_efa("rdmap79s0-rdm");
    return open_rail("efa", "", device_memory);
}

/* What an endpoint was enabled with is then in fake_ofi. */
static void try_endpoint(struct kvr_rail *rail)
{
    struct kvr_endpoint *endpoint = NULL;
    struct kvr_error error = {0};

    assert_int_equal(fake_ofi.endpoints, 0); /* the trial's is closed */
    if (fabric.ops->endpoint_open(rail, &endpoint, &error) != KVR_OK)
        fail_msg("%s", error.detail);
    assert_int_equal(fake_ofi.enabled, 1);
    assert_int_equal(fake_ofi.late, 0);
    fabric.ops->endpoint_close(endpoint);
    fabric.ops->rail_close(rail);
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
    struct kvr_rail *rail;

    (void)state;
    fake_ofi_add_verbs("mlx5_0", "10.0.0.5");
    fake_ofi_add_verbs("mlx5_0", "10.1.0.5");
    rail = open_rail("verbs", "10.1.0.5", true);
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

/* Else EFA's first write from each registration calls CUDA with an address that may be none. */
static void efa_is_kept_from_cuda_where_it_takes_device_memory(void **state)
{
    struct kvr_rail *rail = open_efa(true);

    (void)state;
    assert_int_equal(fabric.ops->rail_facts(rail)->device.hmem, KVR_WHY_NOTHING);
    try_endpoint(rail);
    assert_false(fake_ofi.cuda_permitted);
    assert_false(fake_ofi.shared_memory_permitted);
}

static void a_rail_of_host_memory_does_not_ask_about_cuda(void **state)
{
    (void)state;
    fake_ofi.cuda_answer = -FI_EINVAL;
    try_endpoint(open_efa(false));
    assert_true(fake_ofi.cuda_permitted);
    assert_false(fake_ofi.shared_memory_permitted);
}

/* The rail serves host memory then, and regions of GPUs are staged. */
static void efa_that_must_call_cuda_takes_no_device_memory(void **state)
{
    static const struct {
        int code;
        kvr_path_why why;
    } table[] = {{-FI_EOPNOTSUPP, KVR_WHY_CUDA_CALLS},  /* the card has no peer-to-peer */
                 {-FI_ENOPROTOOPT, KVR_WHY_CUDA_CALLS}, /* a library without the option */
                 {-FI_EINVAL, KVR_WHY_NO_CUDA}};        /* a library that found no CUDA */

    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct kvr_rail *rail;

        fake_ofi_reset();
        fake_ofi.cuda_answer = table[i].code;
        rail = open_efa(true);
        assert_int_equal(fabric.ops->rail_facts(rail)->device.hmem, table[i].why);
        assert_int_equal(fabric.ops->rail_facts(rail)->device.dmabuf, table[i].why);
        try_endpoint(rail);
    }
}

/* By the card, instead of a queue in libfabric that waits longer each time. */
static void efa_retries_without_end(void **state)
{
    (void)state;
    try_endpoint(open_efa(false));
    assert_int_equal(fake_ofi.rnr_retry, 7);
}

static void options_that_a_library_or_card_lacks_are_left_out(void **state)
{
    (void)state;
    fake_ofi.rnr_answer = -FI_ENOSYS;
    fake_ofi.shared_memory_answer = -FI_ENOPROTOOPT;
    try_endpoint(open_efa(true));
    assert_false(fake_ofi.cuda_permitted);
}

static void verbs_has_no_options_of_efa(void **state)
{
    (void)state;
    fake_ofi_add_verbs("mlx5_0", "10.0.0.5");
    fake_ofi.cuda_answer = -FI_ENOPROTOOPT;
    try_endpoint(open_rail("verbs", "", true));
    assert_true(fake_ofi.cuda_permitted && fake_ofi.shared_memory_permitted);
    assert_int_equal(fake_ofi.rnr_retry, 3);
}

/* EFA moves bytes also where its card or its settings have no RDMA write: slowly. */
static void emulated_writes_are_noticed(void **state)
{
    static const struct {
        int code;
        bool emulated;
        kvr_writes writes;
    } table[] = {{0, false, KVR_WRITES_RDMA},
                 {0, true, KVR_WRITES_EMULATED},
                 {-FI_ENOPROTOOPT, true, KVR_WRITES_UNKNOWN}};

    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct kvr_rail *rail;

        fake_ofi_reset();
        fake_ofi.emulated_answer = table[i].code;
        fake_ofi.emulated_write = table[i].emulated;
        rail = open_efa(false);
        assert_int_equal(fabric.ops->rail_facts(rail)->writes, table[i].writes);
        fabric.ops->rail_close(rail);
    }
}

/* libfabric lists a card once for each fabric of EFA; their endpoints cannot write to each other.
 */
static void a_fabric_of_efa_is_taken_by_its_name(void **state)
{
    static const struct {
        const char *provider, *fabric;
        bool needs_senders;
    } table[] = {{"efa", "efa", false}, {"efa-direct", "efa-direct", true}};

    (void)state;
    fake_ofi_add_efa_direct("rdmap79s0-rdm");
    fake_ofi_add_efa("rdmap79s0-rdm");
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        const struct kvr_rail_facts *facts;
        struct kvr_rail *rail = open_rail(table[i].provider, "", false);

        facts = fabric.ops->rail_facts(rail);
        assert_string_equal(rail->info->fabric_attr->name, table[i].fabric);
        assert_string_equal(facts->provider, table[i].provider);
        assert_int_equal(facts->needs_senders, table[i].needs_senders);
        assert_int_equal(facts->write.pieces_local, 1);
        assert_int_equal(facts->write.pieces_remote, 1);
        assert_int_equal(facts->write.bytes_max, 8 << 20);
        fabric.ops->rail_close(rail);
        rail = open_rail(table[i].provider, "rdmap79s0-rdm", true); /* with device memory */
        assert_string_equal(rail->info->fabric_attr->name, table[i].fabric);
        fabric.ops->rail_close(rail);
    }
}

/* Each write needs memory for libfabric's notes, and is kept from CUDA as on fabric efa. */
static void efa_direct_is_opened_with_its_mode_and_options(void **state)
{
    struct kvr_endpoint *endpoint = NULL;
    struct kvr_error error = {0};
    struct kvr_rail *rail;

    (void)state;
    fake_ofi_add_efa_direct("rdmap79s0-rdm");
    rail = open_rail("efa-direct", "", true);
    assert_int_equal(fabric.ops->endpoint_open(rail, &endpoint, &error), KVR_OK);
    assert_non_null(endpoint->contexts);
    assert_false(fake_ofi.cuda_permitted);
    assert_int_equal(fake_ofi.rnr_retry, 7);
    assert_int_equal(fabric.ops->rail_facts(rail)->writes, KVR_WRITES_RDMA);
    fabric.ops->endpoint_close(endpoint);
    fabric.ops->rail_close(rail);
}

static void efa_direct_needs_a_library_that_has_it(void **state)
{
    struct kvr_error error = {0};
    struct fi_info *list = NULL;

    (void)state;
    fake_ofi_add_efa_direct("rdmap79s0-rdm");
    fake_ofi.version = FI_VERSION(2, 3);
    assert_int_equal(ofi_getinfo("efa-direct", NULL, &list, &error), KVR_UNSUPPORTED);
    assert_non_null(strstr(error.detail, "needs libfabric 2.4 or later at run time"));
    assert_non_null(strstr(error.detail, "both agents use provider efa"));
    fake_ofi.version = FI_VERSION(2, 4);
    assert_int_equal(ofi_getinfo("efa-direct", NULL, &list, &error), KVR_OK);
    fi_freeinfo(list);
    assert_int_equal(ofi_getinfo("efa", NULL, &list, &error), KVR_NOT_FOUND); /* not there */
}

static size_t queue_size(const char *provider, uint32_t peers, uint32_t window_writes)
{
    struct kvr_rail_options options = {.peers = peers, .window_writes = window_writes};
    struct kvr_endpoint *endpoint = NULL;
    struct kvr_error error = {0};
    struct kvr_rail *rail = NULL;

    snprintf(options.provider, sizeof(options.provider), "%s", provider);
    kvr_fabric_ofi(&fabric);
    assert_int_equal(fabric.ops->rail_open(fabric.self, &options, &rail, &error), KVR_OK);
    assert_int_equal(fabric.ops->endpoint_open(rail, &endpoint, &error), KVR_OK);
    fabric.ops->endpoint_close(endpoint);
    fabric.ops->rail_close(rail);
    return fake_ofi.queue_size;
}

/* A target that is stopped takes nothing out, and a queue of EFA that runs over loses arrivals. */
static void a_queue_has_room_for_what_all_peers_may_send(void **state)
{
    (void)state;
    fake_ofi_add_efa("rdmap79s0-rdm");
    fake_ofi_add_verbs("mlx5_0", "10.0.0.5");
    assert_int_equal(queue_size("efa", 0, 0), 0);
    assert_int_equal(queue_size("efa", 8, 256), 9 * 256);
    assert_int_equal(queue_size("efa", 1, 0), 2 * 4096);
    assert_int_equal(queue_size("efa", 256, 0), 65536);
    fake_ofi.queue_max = 32768;
    assert_int_equal(queue_size("efa", 256, 0), 32768);
    fake_ofi.queue_max = 8;
    assert_int_equal(queue_size("efa", 256, 0), 0);
    assert_int_equal(queue_size("verbs", 256, 0), 0);
}

/* verbs offers FI_HMEM also where libfabric found no CUDA. */
static void device_memory_without_cuda_in_libfabric_names_the_remedy(void **state)
{
    struct kvr_memory_span span = {
        .base = (void *)0x7000000, .bytes = 4096, .local = true, .fd = -1, .kind = KVR_SPAN_CUDA};
    struct kvr_memory *memory = NULL;
    struct kvr_error error = {0};
    struct kvr_rail *rail;

    (void)state;
    fake_ofi_add_verbs("mlx5_0", "10.0.0.5");
    rail = open_rail("verbs", "", true);
    fake_ofi.device_answer = -FI_ENOSYS;
    assert_int_equal(fabric.ops->memory_register(rail, &span, &memory, &error), KVR_SYSTEM);
    assert_non_null(strstr(error.detail, "libcudart.so"));
    assert_int_equal(error.provider_code, -FI_ENOSYS);
    fake_ofi.device_answer = 0;
    assert_int_equal(fabric.ops->memory_register(rail, &span, &memory, &error), KVR_OK);
    fabric.ops->memory_release(memory);
    fabric.ops->rail_close(rail);
}

/* A card of EFA has a table of about 24 million pages. */
static void a_region_of_too_many_pages_names_huge_pages(void **state)
{
    struct kvr_memory_span span = {
        .base = (void *)0x7000000, .bytes = UINT64_C(96) << 30, .remote = true, .fd = -1};
    struct kvr_memory *memory = NULL;
    struct kvr_error error = {0};
    struct kvr_rail *rail = open_efa(false);

    (void)state;
    fake_ofi.bytes_max = UINT64_C(88) << 30;
    assert_int_equal(fabric.ops->memory_register(rail, &span, &memory, &error), KVR_SYSTEM);
    assert_non_null(strstr(error.detail, "MFD_HUGETLB"));
    assert_non_null(strstr(error.detail, "24 million pages"));
    fake_ofi.bytes_max = 1 << 20;
    span.bytes = 2 << 20;
    assert_int_equal(fabric.ops->memory_register(rail, &span, &memory, &error), KVR_SYSTEM);
    assert_null(strstr(error.detail, "MFD_HUGETLB"));
    fabric.ops->rail_close(rail);
}

static const char *network_of(const char *provider, struct fi_info *info)
{
    static struct kvr_rail_facts facts;

    ofi_facts(kvr_provider_find(provider), info, &facts);
    return facts.network;
}

/* As verbs, EFA and tcp name the fabrics of their cards. */
static void rails_of_infiniband_are_in_its_subnets(void **state)
{
    struct fi_info *info = fake_ofi_add_verbs("mlx5_0", "10.1.0.5"), *copy;

    (void)state;
    fake_ofi_set_fabric(info, "IB-0xfec0000000000001", "InfiniBand");
    assert_string_equal(network_of("verbs", info), "ib:fec0:0:0:1::/64");
    copy = fi_dupinfo(info);
    assert_string_equal(network_of("verbs", copy), "ib:fec0:0:0:1::/64");
    fi_freeinfo(copy);
    info = fake_ofi_add_verbs("mlx5_1", "10.1.0.6");
    fake_ofi_set_fabric(info, "IB-0xfe80000000000000", "InfiniBand");
    assert_string_equal(network_of("verbs", info), "");
    info = fake_ofi_add_verbs("mlx5_2", "10.1.0.7");
    fake_ofi_set_fabric(info, "IB-0xfd00000000000001", "Ethernet"); /* RoCE */
    assert_string_equal(network_of("verbs", info), "");
    info = fake_ofi_add_efa("rdmap79s0-rdm");
    assert_string_equal(network_of("efa", info), "");
    fake_ofi_set_fabric(info, "EFA-fe80000000000000", "Ethernet");
    assert_string_equal(network_of("efa", info), "");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, start, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(efa_is_refused_below_api_1_18),
        CASE(other_cards_need_no_api),
        CASE(a_port_without_an_ip_address_is_no_rail),
        CASE(efa_is_kept_from_cuda_where_it_takes_device_memory),
        CASE(a_rail_of_host_memory_does_not_ask_about_cuda),
        CASE(efa_that_must_call_cuda_takes_no_device_memory),
        CASE(efa_retries_without_end),
        CASE(options_that_a_library_or_card_lacks_are_left_out),
        CASE(verbs_has_no_options_of_efa),
        CASE(emulated_writes_are_noticed),
        CASE(a_fabric_of_efa_is_taken_by_its_name),
        CASE(efa_direct_is_opened_with_its_mode_and_options),
        CASE(efa_direct_needs_a_library_that_has_it),
        CASE(device_memory_without_cuda_in_libfabric_names_the_remedy),
        CASE(a_region_of_too_many_pages_names_huge_pages),
        CASE(a_queue_has_room_for_what_all_peers_may_send),
        CASE(rails_of_infiniband_are_in_its_subnets),
        CASE(device_memory_keeps_the_address_of_a_rail),
        CASE(a_rail_opened_for_device_memory_is_the_one_that_was_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
