/* Goal: a URI names a program only in the form of the pattern, with parts that need no escape and
 * fit; everything else has a sentence. Method: good ones, each part spoilt in each way, and every
 * single byte changed. */
#include "tests/support/check.h"

#include <stdio.h>

#include "tls/identity.h"

#define SPIFFE "spiffe://example.org/kvrail/{role}/{name}"

static kvr_status parse(const char *pattern, const char *uri, struct kvr_identity *ret_identity,
                        struct kvr_error *error)
{
    return kvr_identity_parse(pattern, uri, strlen(uri), ret_identity, error);
}

static void good_ones(void **state)
{
    struct kvr_identity a, b;

    (void)state;
    assert_int_equal(parse(KVR_IDENTITY_PATTERN, "kvrail://prod/prefill/p-0.x_~", &a, NULL), 0);
    assert_string_equal(a.fleet, "prod");
    assert_int_equal(a.role, KVR_IDENTITY_PREFILL);
    assert_string_equal(a.name, "p-0.x_~");
    assert_int_equal(parse(SPIFFE, "spiffe://example.org/kvrail/decode/d7", &b, NULL), 0);
    assert_string_equal(b.fleet, "example.org");
    assert_int_equal(b.role, KVR_IDENTITY_DECODE);
    assert_string_equal(b.name, "d7");
    assert_false(kvr_identity_same(&a, &b));
    assert_true(kvr_identity_same(&b, &b));
    assert_int_equal(parse("spiffe://a/{fleet}/x/{name}/{role}", "spiffe://a/f/x/n/client", &a, 0),
                     0);
    assert_string_equal(a.fleet, "f");
    assert_int_equal(a.role, KVR_IDENTITY_CLIENT);
}

static void spoilt_ones(void **state)
{
    static const struct {
        const char *uri;
        kvr_status status;
        const char *words;
    } cases[] = {
        {"", KVR_NOT_FOUND, "another form"},
        {"kvrail://", KVR_INVALID, "fleet"},
        {"kvrail:///prefill/a", KVR_INVALID, "fleet"},
        {"kvrail://f//a", KVR_INVALID, "role"},
        {"kvrail://f/prefill/", KVR_INVALID, "name"},
        {"kvrail://f/prefill", KVR_NOT_FOUND, "another form"},
        {"kvrail://f/prefill/a/", KVR_NOT_FOUND, "another form"},
        {"kvrail://f/prefill/a/b", KVR_NOT_FOUND, "another form"},
        {"kvrail://f/Prefill/a", KVR_INVALID, "'Prefill'"},
        {"kvrail://f/prefill/a%41", KVR_INVALID, "0x25"},
        {"kvrail://f/prefill/a b", KVR_INVALID, "0x20"},
        {"kvrail://f/prefill/\xc3\xa9", KVR_INVALID, "0xc3"},
        {"spiffe://f/prefill/a", KVR_NOT_FOUND, "another form"},
    };
    char uri[KVR_IDENTITY_URI_BYTES + 2];
    struct kvr_identity identity;
    struct kvr_error error;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(parse(KVR_IDENTITY_PATTERN, cases[i].uri, &identity, &error),
                         cases[i].status);
        assert_non_null(strstr(error.detail, cases[i].words));
    }
    snprintf(uri, sizeof(uri), "kvrail://f/prefill/%0*d", KVR_NAME_BYTES - 1, 7);
    assert_int_equal(parse(KVR_IDENTITY_PATTERN, uri, &identity, &error), KVR_OK);
    snprintf(uri, sizeof(uri), "kvrail://f/prefill/%0*d", KVR_NAME_BYTES, 7);
    assert_int_equal(parse(KVR_IDENTITY_PATTERN, uri, &identity, &error), KVR_INVALID);
    memset(uri, 'a', sizeof(uri));
    assert_int_equal(kvr_identity_parse(KVR_IDENTITY_PATTERN, uri, sizeof(uri), &identity, &error),
                     KVR_NOT_FOUND);
    /* A NUL is a byte like another: bytes behind it are not forgotten. */
    assert_int_equal(
        kvr_identity_parse(KVR_IDENTITY_PATTERN, "kvrail://f/prefill/a\0b", 22, &identity, &error),
        KVR_INVALID);
}

static void every_changed_byte(void **state)
{
    static const char good[] = "kvrail://fleet/decode/name";
    struct kvr_identity identity, changed;

    (void)state;
    assert_int_equal(parse(KVR_IDENTITY_PATTERN, good, &identity, NULL), KVR_OK);
    for (size_t at = 0; at < sizeof(good) - 1; at++)
        for (unsigned value = 0; value < 256; value++) {
            char uri[sizeof(good)];

            memcpy(uri, good, sizeof(good));
            uri[at] = (char)value;
            if (uri[at] != good[at] && kvr_identity_parse(KVR_IDENTITY_PATTERN, uri,
                                                          sizeof(good) - 1, &changed, NULL) == 0)
                assert_false(kvr_identity_same(&identity, &changed));
        }
}

static void patterns(void **state)
{
    static const char *const bad[] = {"",
                                      "kvrail://{fleet}/{role}",
                                      "kvrail://{fleet}/{name}",
                                      "a/{role}/{name}/{name}",
                                      "a/{fleet}/{fleet}/{role}/{name}",
                                      "a/{role}x/{name}",
                                      "a/x{role}/{name}",
                                      "a/{role}/{who}/{name}",
                                      "a/{role}/{name}/}"};
    struct kvr_error error;

    (void)state;
    assert_int_equal(kvr_identity_pattern_check(KVR_IDENTITY_PATTERN, &error), KVR_OK);
    assert_int_equal(kvr_identity_pattern_check(SPIFFE, &error), KVR_OK);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(kvr_identity_pattern_check(bad[i], &error), KVR_INVALID);
}

static void tenants_are_bounded(void **state)
{
    static const char *const bad[] = {"", "a b", "-a", "Team\n", "a/b"};
    struct kvr_identity identity = {.tenants.count = 0};
    char name[KVR_NAME_BYTES];
    struct kvr_error error;

    (void)state;
    assert_true(kvr_identity_serves(&identity, "default"));
    assert_false(kvr_identity_serves(&identity, "red"));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(kvr_identity_tenant_add(&identity.tenants, bad[i], strlen(bad[i]), &error),
                         KVR_INVALID);
        assert_non_null(strstr(error.detail, "names a tenant: it must have 1 to 63"));
    }
    memset(name, 'x', sizeof(name));
    assert_int_equal(kvr_identity_tenant_add(&identity.tenants, name, sizeof(name), &error),
                     KVR_INVALID);
    for (uint32_t i = 0; i < KVR_TENANTS_MAX; i++) {
        snprintf(name, sizeof(name), "t%u", i);
        assert_int_equal(kvr_identity_tenant_add(&identity.tenants, name, strlen(name), &error),
                         KVR_OK);
    }
    assert_int_equal(kvr_identity_tenant_add(&identity.tenants, "t7", 2, &error), KVR_OK);
    assert_int_equal(kvr_identity_tenant_add(&identity.tenants, "more", 4, &error), KVR_INVALID);
    assert_non_null(strstr(error.detail, "more than 32 organizational units"));
    assert_true(kvr_identity_serves(&identity, "t31"));
    assert_false(kvr_identity_serves(&identity, "t"));
    assert_false(kvr_identity_serves(&identity, "default")); /* it names others */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_ones),           cmocka_unit_test(spoilt_ones),
        cmocka_unit_test(every_changed_byte),  cmocka_unit_test(patterns),
        cmocka_unit_test(tenants_are_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
