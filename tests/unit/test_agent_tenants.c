/* Goal: --tenant says which processes may act for which tenant, and the quotas of a tenant that is
 * there; what cannot be is refused with the option and its value. Method: items, and a socket with
 * processes of several users and groups at its end. */
#include "tests/support/check.h"

#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/agent_state.h"

#define ITEMS_MAX 3

static struct kvr_option_list list_of(const char *const items[ITEMS_MAX])
{
    struct kvr_option_list list = {.count = 0};

    for (uint32_t i = 0; i < ITEMS_MAX && items[i] != NULL; i++)
        snprintf(list.items[list.count++], sizeof(list.items[0]), "%s", items[i]);
    return list;
}

static struct kvr_tenants tenants;
static struct kvr_tenant_access access_now;

static void read_items(const char *const items[ITEMS_MAX])
{
    struct kvr_option_list list = list_of(items);
    struct kvr_error error;

    assert_int_equal(kvr_tenant_access_read(&list, &access_now, &tenants, &error), KVR_OK);
}

static uint32_t may(uid_t user, gid_t group)
{
    struct kvr_engine_peer peer = {.user = user, .group = group, .pid = 1};
    int ends[2];
    uint32_t bits;

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    bits = kvr_tenant_access_of(&access_now, tenants.count, ends[0], &peer);
    close(ends[0]);
    close(ends[1]);
    return bits;
}

static void without_a_tenant_there_is_default(void **state)
{
    (void)state;
    read_items((const char *const[ITEMS_MAX]){NULL});
    assert_int_equal(tenants.count, 1);
    assert_string_equal(tenants.list[0].name, "default");
    assert_int_equal(may(12345, 12345), 1);
}

static void users_and_groups_are_matched(void **state)
{
    (void)state;
    read_items(
        (const char *const[ITEMS_MAX]){"red=user:12345+user:root", "blue=group:54321", "open"});
    assert_int_equal(tenants.count, 3);
    assert_string_equal(tenants.list[2].name, "open");
    assert_int_equal(may(12345, 1), 1 | 4);
    assert_int_equal(may(0, 1), 1 | 4);
    assert_int_equal(may(77, 54321), 2 | 4);
    assert_int_equal(may(12345, 54321), 1 | 2 | 4);
    assert_int_equal(may(77, 77), 4);
    read_items((const char *const[ITEMS_MAX]){"red=user:12345"});
    assert_int_equal(may(geteuid() + 1, 77), 0); /* root and our user only where they are named */
}

static void wrong_items_are_refused(void **state)
{
    static const struct {
        const char *items[ITEMS_MAX], *sentence;
    } wrong[] = {
        {{"a b"}, "--tenant a b: a tenant's name must have 1 to 63"},
        {{""}, "a tenant's name must have"},
        {{"=user:root"}, "a tenant's name must have"},
        {{"red="}, "'' is neither user:NAME nor group:NAME"},
        {{"red=root"}, "--tenant red=root: 'root' is neither user:NAME nor group:NAME"},
        {{"red=user:no such user"}, "this host has no user 'no such user'"},
        {{"red=group:no such group"}, "this host has no group 'no such group'"},
        {{"red", "red=user:root"}, "the tenant is named twice"},
    };
    struct kvr_error error;

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct kvr_option_list list = list_of(wrong[i].items);

        assert_int_equal(kvr_tenant_access_read(&list, &access_now, &tenants, &error), KVR_INVALID);
        if (strstr(error.detail, wrong[i].sentence) == NULL)
            fail_msg("'%s' is not in: %s", wrong[i].sentence, error.detail);
    }
}

static void quotas_are_of_tenants_that_are_there(void **state)
{
    static struct kvr_tenants_config config;
    struct kvr_error error;

    (void)state;
    read_items((const char *const[ITEMS_MAX]){"red", "blue"});
    config.publishes = list_of((const char *const[ITEMS_MAX]){"red=2", "blue=3"});
    config.bytes = list_of((const char *const[ITEMS_MAX]){"red=64M"});
    config.weights = list_of((const char *const[ITEMS_MAX]){"blue=3"});
    assert_int_equal(agent_tenants_quotas(&config, &tenants, &error), KVR_OK);
    assert_int_equal(tenants.list[0].requests.limit, 2);
    assert_int_equal(tenants.list[1].requests.limit, 3);
    assert_int_equal(tenants.list[0].bytes.limit, 64 << 20);
    assert_int_equal(tenants.list[0].weight, 1);
    assert_int_equal(tenants.list[1].weight, 3);
}

static void wrong_quotas_are_refused(void **state)
{
    static const char *const wrong[][2] = {
        {"green=3", "--tenant-weight green=3: no --tenant of this agent has that name"},
        {"red", "--tenant-weight red: it must be TENANT=VALUE"},
        {"=3", "no --tenant of this agent has that name"},
        {"red=0", "--tenant-weight red=0: the value must be"},
        {"red=101", "the value must be"},
        {"red=x", "the value must be"},
    };
    static struct kvr_tenants_config config;
    struct kvr_error error;

    (void)state;
    read_items((const char *const[ITEMS_MAX]){"red", "blue"});
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        config.weights = list_of((const char *const[ITEMS_MAX]){wrong[i][0]});
        assert_int_equal(agent_tenants_quotas(&config, &tenants, &error), KVR_INVALID);
        if (strstr(error.detail, wrong[i][1]) == NULL)
            fail_msg("'%s' is not in: %s", wrong[i][1], error.detail);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_tenant_there_is_default),
        cmocka_unit_test(users_and_groups_are_matched),
        cmocka_unit_test(wrong_items_are_refused),
        cmocka_unit_test(quotas_are_of_tenants_that_are_there),
        cmocka_unit_test(wrong_quotas_are_refused),
    };

    return cmocka_run_group_tests_name("agent_tenants", tests, NULL, NULL);
}
