/* Goal: a rail's link is what the kernel says of it, and what it does not say is unknown. Method: a
 * folder like /sys by hand; the kernel's answers about flow control by hand; lo of this host. */
#include "tests/support/check.h"

#include <linux/dcbnl.h>
#include <linux/rtnetlink.h>
#include <stdio.h>

#include "fabric/rail_link.h"
#include "tests/support/folder.h"

static const char *sys;

static int make_sys(void **state)
{
    int made = folder_open(state);

    sys = *state;
    return made;
}

/* A file of one line, with the folders above it. */
static void put(const char *path, const char *text)
{
    char command[512];

    snprintf(command, sizeof(command), "mkdir -p $(dirname %s/%s) && echo '%s' >%s/%s", sys, path,
             text, sys, path);
    assert_int_equal(system(command), 0);
}

static struct kvr_rail_facts rail(const char *provider, const char *name, const char *interface)
{
    struct kvr_rail_facts facts = {.speed_bps = 0};

    snprintf(facts.provider, sizeof(facts.provider), "%s", provider);
    snprintf(facts.name, sizeof(facts.name), "%s", name);
    snprintf(facts.interface, sizeof(facts.interface), "%s", interface);
    return facts;
}

static struct kvr_link link_of(const char *provider, const char *name, const char *interface)
{
    struct kvr_rail_facts facts = rail(provider, name, interface);
    struct kvr_link link;

    kvr_rail_link_read(sys, &facts, &link);
    assert_int_equal(link.mtu, kvr_rail_link_mtu(sys, &facts));
    return link;
}

static void links_of_tcp_are_those_of_the_interface(void **state)
{
    struct kvr_link link;

    (void)state;
    put("class/net/eth0/mtu", "9000");
    put("class/net/eth0/type", "1");
    link = link_of("tcp", "eth0", "eth0");
    assert_int_equal(link.mtu, 9000);
    assert_int_equal(link.kind, KVR_LINK_ETHERNET);
    assert_false(link.pfc_known || link.ecn_known);
    put("class/net/ib0/mtu", "2044");
    put("class/net/ib0/type", "32");
    assert_int_equal(link_of("tcp", "ib0", "ib0").kind, KVR_LINK_IPOIB);
    put("class/net/lo/mtu", "65536");
    put("class/net/lo/type", "772");
    assert_int_equal(link_of("tcp", "lo", "lo").kind, KVR_LINK_UNKNOWN);
    assert_int_equal(link_of("tcp", "gone", "gone").mtu, 0);
}

/* The second port's GIDs are of another interface. */
static void links_of_verbs_have_the_type_of_their_gids(void **state)
{
    struct kvr_link link;

    (void)state;
    put("class/net/rdma0/mtu", "4200");
    put("class/infiniband/mlx5_0/ports/1/link_layer", "Ethernet");
    put("class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0", "other");
    put("class/infiniband/mlx5_0/ports/1/gid_attrs/types/0", "RoCE v2");
    assert_int_equal(link_of("verbs", "mlx5_0", "rdma0").kind, KVR_LINK_UNKNOWN);
    put("class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/1", "rdma0");
    put("class/infiniband/mlx5_0/ports/1/gid_attrs/types/1", "IB/RoCE v1");
    link = link_of("verbs", "mlx5_0", "rdma0");
    assert_int_equal(link.kind, KVR_LINK_ROCE_V1);
    assert_int_equal(link.mtu, 4200);
    assert_false(link.pfc_known || link.ecn_known);
    put("class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/3", "rdma0"); /* number 2 is empty */
    put("class/infiniband/mlx5_0/ports/1/gid_attrs/types/3", "RoCE v2");
    assert_int_equal(link_of("verbs", "mlx5_0", "rdma0").kind, KVR_LINK_ROCE_V2);
    put("class/infiniband/mlx5_1/ports/1/link_layer", "InfiniBand");
    assert_int_equal(link_of("verbs", "mlx5_1", "ib1").kind, KVR_LINK_INFINIBAND);
    assert_int_equal(link_of("verbs", "mlx5_9", "rdma0").kind, KVR_LINK_UNKNOWN);
    link = link_of("efa", "rdmap0s6", "rdma0"); /* its packets do not care for an interface */
    assert_int_equal(link.mtu, 0);
}

/* Of a priority both the notification point and the reaction point must be on. */
static void ecn_needs_both_ends_of_the_card(void **state)
{
    struct kvr_link link;
    char path[64];

    (void)state;
    for (int i = 0; i < 8; i++) {
        snprintf(path, sizeof(path), "class/net/rdma0/ecn/roce_np/enable/%d", i);
        put(path, i == 3 || i == 5 ? "1" : "0");
        snprintf(path, sizeof(path), "class/net/rdma0/ecn/roce_rp/enable/%d", i);
        if (i < 7)
            put(path, i == 3 ? "1" : "0");
    }
    link = link_of("verbs", "mlx5_0", "rdma0");
    assert_false(link.ecn_known); /* one file is missing */
    put(path, "0");
    link = link_of("verbs", "mlx5_0", "rdma0");
    assert_true(link.ecn_known);
    assert_int_equal(link.ecn, 1 << 3);
}

/* ---- flow control ---------------------------------------------------------------------------- */

struct answer {
    struct nlmsghdr header;
    struct dcbmsg message;
    struct rtattr name;
    char interface[8];
    struct rtattr ieee, pfc;
    struct ieee_pfc value;
};

static struct answer answer_of(uint8_t priorities)
{
    struct answer answer = {
        .header = {.nlmsg_len = sizeof(struct answer), .nlmsg_type = RTM_GETDCB},
        .message = {.cmd = DCB_CMD_IEEE_GET},
        .name = {.rta_len = RTA_LENGTH(5), .rta_type = DCB_ATTR_IFNAME},
        .interface = "eth0",
        .ieee = {.rta_len = sizeof(struct rtattr) + RTA_LENGTH(sizeof(struct ieee_pfc)),
                 .rta_type = DCB_ATTR_IEEE | NLA_F_NESTED},
        .pfc = {.rta_len = RTA_LENGTH(sizeof(struct ieee_pfc)), .rta_type = DCB_ATTR_IEEE_PFC},
        .value = {.pfc_cap = 8, .pfc_en = priorities},
    };

    return answer;
}

static void flow_control_is_read_from_the_kernels_answer(void **state)
{
    struct answer answer = answer_of(1 << 3 | 1 << 4);
    uint32_t priorities = 0;

    (void)state;
    assert_true(kvr_link_pfc_parse(&answer, sizeof(answer), &priorities));
    assert_int_equal(priorities, 1 << 3 | 1 << 4);
}

static void refuse(const struct answer *answer, size_t bytes)
{
    uint32_t priorities;
    void *exact = malloc(bytes > 0 ? bytes : 1); /* so that a sanitizer sees a read beyond */

    memcpy(exact, answer, bytes);
    assert_false(kvr_link_pfc_parse(exact, bytes, &priorities));
    free(exact);
}

static void an_answer_without_flow_control_says_nothing(void **state)
{
    struct answer answer = answer_of(8), good = answer;

    (void)state;
    for (size_t bytes = 0; bytes < sizeof(answer); bytes++)
        refuse(&answer, bytes);
    for (size_t bytes = 0; bytes < sizeof(answer); bytes++) { /* and the header agrees */
        answer.header.nlmsg_len = (uint32_t)bytes;
        refuse(&answer, bytes);
    }
    answer = good;
    answer.header.nlmsg_type = NLMSG_ERROR;
    refuse(&answer, sizeof(answer));
    answer = good;
    answer.ieee.rta_type = DCB_ATTR_DCBX;
    refuse(&answer, sizeof(answer));
    answer = good;
    answer.pfc.rta_type = DCB_ATTR_IEEE_ETS;
    refuse(&answer, sizeof(answer));
    answer = good;
    answer.name.rta_len = 0; /* it would never end */
    refuse(&answer, sizeof(answer));
    answer = good;
    answer.pfc.rta_len = UINT16_MAX;
    refuse(&answer, sizeof(answer));
}

static void lo_has_no_flow_control(void **state)
{
    uint32_t priorities;

    (void)state;
    assert_false(kvr_link_pfc_read("lo", &priorities));
    assert_false(kvr_link_pfc_read("no such interface", &priorities));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(links_of_tcp_are_those_of_the_interface),
        cmocka_unit_test(links_of_verbs_have_the_type_of_their_gids),
        cmocka_unit_test(ecn_needs_both_ends_of_the_card),
        cmocka_unit_test(flow_control_is_read_from_the_kernels_answer),
        cmocka_unit_test(an_answer_without_flow_control_says_nothing),
        cmocka_unit_test(lo_has_no_flow_control),
    };

    return cmocka_run_group_tests(tests, make_sys, folder_close);
}
