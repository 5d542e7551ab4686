/* Goal: a request is of a tenant that its engine may act for and that the agent serves, of the
 * first where it names none; a quota is what is had at once. Method: the table of tenants alone. */
#include "tests/support/check.h"

#include <stdio.h>

#include "agent/core/tenants.h"

static struct kvr_tenants two(void)
{
    struct kvr_tenants tenants;
    struct kvr_error error;

    kvr_tenants_init(&tenants);
    tenants.count = 0;
    assert_int_equal(kvr_tenants_add(&tenants, "red", &error), KVR_OK);
    assert_int_equal(kvr_tenants_add(&tenants, "blue", &error), KVR_OK);
    return tenants;
}

static uint32_t chosen(const struct kvr_tenants *tenants, uint32_t may, const char *name)
{
    uint32_t tenant = KVR_TENANT_NONE;
    struct kvr_error error;

    assert_int_equal(kvr_tenants_choose(tenants, may, name, &tenant, &error), KVR_OK);
    return tenant;
}

static void refused(const struct kvr_tenants *tenants, uint32_t may, const char *name,
                    const char *sentence)
{
    uint32_t tenant = 77;
    struct kvr_error error;

    assert_int_equal(kvr_tenants_choose(tenants, may, name, &tenant, &error), KVR_NOT_AUTHORIZED);
    assert_int_equal(tenant, 77);
    if (strstr(error.detail, sentence) == NULL)
        fail_msg("'%s' is not in: %s", sentence, error.detail);
}

static void default_is_alone(void **state)
{
    struct kvr_tenants tenants;

    (void)state;
    kvr_tenants_init(&tenants);
    assert_int_equal(kvr_tenants_find(&tenants, "default"), 0);
    assert_int_equal(kvr_tenants_find(&tenants, ""), 0);
    assert_int_equal(kvr_tenants_find(&tenants, "red"), KVR_TENANT_NONE);
    assert_int_equal(chosen(&tenants, KVR_TENANTS_ALL, ""), 0);
    refused(&tenants, KVR_TENANTS_ALL, "red",
            "'red': this agent's --tenant lets it act for default");
}

static void engine_acts_for_its_own(void **state)
{
    struct kvr_tenants tenants = two();

    (void)state;
    assert_int_equal(kvr_tenants_find(&tenants, ""), KVR_TENANT_NONE); /* no default here */
    assert_int_equal(chosen(&tenants, KVR_TENANTS_ALL, ""), 0);
    assert_int_equal(chosen(&tenants, KVR_TENANTS_ALL, "blue"), 1);
    assert_int_equal(chosen(&tenants, 2, ""), 1);
    assert_int_equal(chosen(&tenants, 2, "blue"), 1);
    refused(&tenants, 2, "red", "'red': this agent's --tenant lets it act for blue");
    refused(&tenants, KVR_TENANTS_ALL, "green", "lets it act for red, blue");
    refused(&tenants, 0, "", "lets it act for none");
}

static void certificate_bounds_it(void **state)
{
    struct kvr_tenants tenants = two();

    (void)state;
    tenants.served = 1;
    assert_int_equal(chosen(&tenants, KVR_TENANTS_ALL, "red"), 0);
    refused(&tenants, KVR_TENANTS_ALL, "blue", "'blue': its --tls-certificate no longer has");
}

static void names_that_do_not_fit_a_sentence(void **state)
{
    struct kvr_tenants tenants;
    char name[KVR_NAME_BYTES];
    struct kvr_error error;

    (void)state;
    kvr_tenants_init(&tenants);
    for (uint32_t i = 1; i < KVR_TENANTS_MAX; i++) {
        snprintf(name, sizeof(name), "tenant-with-a-name-that-takes-its-room-%02u", i);
        assert_int_equal(kvr_tenants_add(&tenants, name, &error), KVR_OK);
    }
    assert_int_equal(kvr_tenants_add(&tenants, name, &error), KVR_EXISTS);
    assert_int_equal(kvr_tenants_add(&tenants, "one-more", &error), KVR_FULL);
    assert_int_equal(chosen(&tenants, KVR_TENANTS_ALL, name), KVR_TENANTS_MAX - 1);
    refused(&tenants, KVR_TENANTS_ALL, "x", ", …");
}

static void quota_is_what_is_had_at_once(void **state)
{
    struct kvr_tenants tenants = two();
    struct kvr_tenant *red = &tenants.list[0];
    struct kvr_error error;

    (void)state;
    red->bytes.limit = 100;
    assert_int_equal(kvr_tenant_take(red, &red->bytes, 60, "bytes", "--b", &error), KVR_OK);
    assert_int_equal(kvr_tenant_take(red, &red->bytes, 40, "bytes", "--b", &error), KVR_OK);
    assert_int_equal(kvr_tenant_take(red, &red->bytes, 1, "bytes", "--b", &error), KVR_FULL);
    assert_non_null(strstr(error.detail, "the tenant red has 100 bytes, and --b of this agent"));
    kvr_tenant_give(&red->bytes, 40);
    assert_int_equal(kvr_tenant_take(red, &red->bytes, UINT64_MAX, "bytes", "--b", &error),
                     KVR_FULL);
    assert_int_equal(kvr_tenant_take(red, &red->bytes, 40, "bytes", "--b", &error), KVR_OK);
    assert_int_equal(red->bytes.used, 100);
    assert_int_equal(red->bytes.refused, 2);
    assert_int_equal(kvr_tenant_take(red, &red->requests, 1000, "requests", "--r", &error), KVR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(default_is_alone),
        cmocka_unit_test(engine_acts_for_its_own),
        cmocka_unit_test(certificate_bounds_it),
        cmocka_unit_test(names_that_do_not_fit_a_sentence),
        cmocka_unit_test(quota_is_what_is_had_at_once),
    };

    return cmocka_run_group_tests_name("tenants", tests, NULL, NULL);
}
