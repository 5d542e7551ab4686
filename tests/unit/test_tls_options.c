/* Goal: a program that listens has certificate, key and CA, or says --insecure; the sentence names
 * what is missing. A CRL or a pattern alone is refused; a command that only calls may have a CA
 * alone.
 * Method: every combination. */
#include "tests/support/check.h"

#include <stdio.h>

#include "tls/tls_options.h"

static struct kvr_tls_config config_of(unsigned bits)
{
    struct kvr_tls_config config = {0};

    snprintf(config.certificate, sizeof(config.certificate), "%s", bits & 1 ? "c.pem" : "");
    snprintf(config.key, sizeof(config.key), "%s", bits & 2 ? "k.pem" : "");
    snprintf(config.ca, sizeof(config.ca), "%s", bits & 4 ? "ca.pem" : "");
    snprintf(config.crl, sizeof(config.crl), "%s", bits & 8 ? "crl.pem" : "");
    snprintf(config.identity, sizeof(config.identity), "%s", bits & 16 ? "spiffe://a/{name}" : "");
    return config;
}

static void three_stand_together(void **state)
{
    (void)state;
    for (unsigned bits = 0; bits < 32; bits++) {
        struct kvr_tls_config config = config_of(bits);
        struct kvr_error error = {0};
        bool all = (bits & 7) == 7, none = (bits & 7) == 0;
        kvr_status wanted = all ? KVR_OK : KVR_INVALID;

        assert_int_equal(kvr_tls_check(&config, &error), wanted);
        assert_int_equal(kvr_tls_given(&config), bits & 1);
        if (wanted == KVR_OK)
            continue;
        if (bits == 0) {
            assert_non_null(strstr(error.detail, "`kvrail certificates` makes them"));
            continue;
        }
        if (none) {
            assert_non_null(strstr(error.detail, bits & 8 ? "--tls-crl" : "--tls-identity"));
            continue;
        }
        assert_non_null(strstr(error.detail, "give all three, or none"));
        assert_int_equal(strstr(error.detail, "--tls-key") > strstr(error.detail, "without"),
                         (bits & 2) == 0);
    }
}

static void insecure_is_said_on_purpose(void **state)
{
    (void)state;
    for (unsigned bits = 0; bits < 32; bits++) {
        struct kvr_tls_config config = config_of(bits);
        struct kvr_error error = {0};

        config.insecure = true;
        assert_int_equal(kvr_tls_check(&config, &error), bits == 0 ? KVR_OK : KVR_INVALID);
        if ((bits & 7) == 7)
            assert_non_null(strstr(error.detail, "--insecure and --tls-certificate contradict"));
    }
}

static void caller_may_have_a_ca_alone(void **state)
{
    (void)state;
    for (unsigned bits = 0; bits < 8; bits++) {
        struct kvr_tls_config config = config_of(bits);

        assert_int_equal(kvr_tls_client_check(&config, NULL),
                         bits == 0 || bits == 4 || bits == 7 ? KVR_OK : KVR_INVALID);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_stand_together),
        cmocka_unit_test(insecure_is_said_on_purpose),
        cmocka_unit_test(caller_may_have_a_ca_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
