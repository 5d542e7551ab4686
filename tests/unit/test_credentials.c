/* Goal: certificates that others would not believe are refused at the start with a sentence; a
 * renewal takes effect without SIGHUP, a bad one leaves the old in force; a revocation holds.
 * Method: a small CA in a folder, and each file spoilt. */
#include "tests/support/folder.h"

#include <time.h>
#include <unistd.h>

#include "tests/support/certificates.h"
#include "tls/credentials.h"

#define URI "kvrail://f/decode/d"

static struct authority ca;

static int begin(void **state)
{
    int result = folder_open(state);

    authority_make(&ca, *state, "ca");
    return result;
}

static int end(void **state)
{
    authority_done(&ca);
    return folder_close(state);
}

static void refuses(const struct kvr_tls_config *config, kvr_status status, const char *words)
{
    struct kvr_credentials *credentials;
    struct kvr_error error = {0};

    assert_int_equal(kvr_credentials_open(config, &credentials, &error), status);
    if (strstr(error.detail, words) == NULL)
        fail_msg("'%s' is not in: %s", words, error.detail);
}

static void write_text(const char *folder, const char *name, const char *text)
{
    char path[128];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "we");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void bad_files_are_refused(void **state)
{
    const char *folder = *state;
    struct kvr_tls_config config;
    struct authority other;

    authority_make(&other, folder, "other");
    certificate_make(&ca, "good", &(struct certificate_shape){.uri = URI});
    certificate_make(&ca, "second", &(struct certificate_shape){.uri = URI});
    certificate_make(&ca, "nameless", &(struct certificate_shape){.uri = NULL});
    certificate_make(&ca, "foreign", &(struct certificate_shape){.uri = "spiffe://a/b"});
    certificate_make(&ca, "odd", &(struct certificate_shape){.uri = "kvrail://f/boss/d"});
    certificate_make(&ca, "expired", &(struct certificate_shape){.uri = URI, .ends = -60});
    certificate_make(&ca, "early", &(struct certificate_shape){.uri = URI, .begins = 600});
    crl_make(&other, "theirs", NULL, 0);
    write_text(folder, "text.pem", "no PEM at all\n");
    write_text(folder, "text.key", "no PEM at all\n");

    config = certificates_config(folder, "good", "other", NULL);
    refuses(&config, KVR_INVALID, "does not lead to the CA");
    config = certificates_config(folder, "nameless", "ca", NULL);
    refuses(&config, KVR_INVALID, "names no program: it has no URI kvrail://");
    config = certificates_config(folder, "foreign", "ca", NULL);
    refuses(&config, KVR_INVALID, "names no program");
    config = certificates_config(folder, "odd", "ca", NULL);
    refuses(&config, KVR_INVALID, "'boss'");
    config = certificates_config(folder, "expired", "ca", NULL);
    refuses(&config, KVR_INVALID, "expired at 20");
    config = certificates_config(folder, "early", "ca", NULL);
    refuses(&config, KVR_INVALID, "not valid before 20");
    config = certificates_config(folder, "missing", "ca", NULL);
    refuses(&config, KVR_SYSTEM, "--tls-certificate");
    config = certificates_config(folder, "text", "ca", NULL);
    refuses(&config, KVR_INVALID, "--tls-certificate");
    config = certificates_config(folder, "good", "text", NULL);
    refuses(&config, KVR_INVALID, "--tls-ca");
    config = certificates_config(folder, "good", "ca", "theirs");
    refuses(&config, KVR_INVALID, "--tls-crl");
    config = certificates_config(folder, "good", "ca", "text");
    refuses(&config, KVR_INVALID, "--tls-crl");
    snprintf(config.key, sizeof(config.key), "%s/second.key", folder);
    config.crl[0] = '\0';
    refuses(&config, KVR_INVALID, "is not the key of");
    snprintf(config.key, sizeof(config.key), "%s", folder);
    refuses(&config, KVR_INVALID, "is no file");
    config = certificates_config(folder, "good", "ca", NULL);
    snprintf(config.identity, sizeof(config.identity), "spiffe://a/{role}");
    refuses(&config, KVR_INVALID, "{name}");
    authority_done(&other);
}

static void revoked_certificate_does_not_start(void **state)
{
    unsigned serial = certificate_make(&ca, "good", &(struct certificate_shape){.uri = URI});
    struct kvr_tls_config config;

    crl_make(&ca, "crl", &serial, 1);
    config = certificates_config(*state, "good", "ca", "crl");
    refuses(&config, KVR_INVALID, "is revoked");
}

static void tenants_are_units_of_the_subject(void **state)
{
    struct kvr_tls_config config = certificates_config(*state, "d", "ca", NULL);
    struct kvr_credentials *credentials;
    const struct kvr_identity *own;
    struct kvr_error error = {0};

    certificate_make(&ca, "d",
                     &(struct certificate_shape){.uri = URI, .tenants = {"red", "blue", "red"}});
    assert_int_equal(kvr_credentials_open(&config, &credentials, &error), KVR_OK);
    own = kvr_credentials_identity(credentials);
    assert_int_equal(own->tenants.count, 2);
    assert_true(kvr_identity_serves(own, "red") && kvr_identity_serves(own, "blue"));
    assert_false(kvr_identity_serves(own, "default"));
    kvr_credentials_close(credentials);
    certificate_make(&ca, "d", &(struct certificate_shape){.uri = URI, .tenants = {"Team A"}});
    refuses(&config, KVR_INVALID, "the organizational unit 'Team A', which names a tenant");
}

static kvr_credentials_news look_twice(struct kvr_credentials *credentials, struct kvr_error *error)
{
    kvr_credentials_news news = kvr_credentials_look(credentials, error);

    return news != KVR_CREDENTIALS_SAME ? news : kvr_credentials_look(credentials, error);
}

static void renewal_takes_effect(void **state)
{
    struct kvr_tls_config config = certificates_config(*state, "d", "ca", NULL);
    struct kvr_generation *older, *newer;
    struct kvr_credentials *credentials;
    struct kvr_error error = {0};
    int64_t expiry;

    certificate_make(&ca, "d", &(struct certificate_shape){.uri = URI, .ends = 3000});
    assert_int_equal(kvr_credentials_open(&config, &credentials, &error), KVR_OK);
    expiry = kvr_credentials_expiry(credentials);
    older = kvr_generation_hold(credentials);
    assert_int_equal(look_twice(credentials, &error), KVR_CREDENTIALS_SAME);

    certificate_make(&ca, "d", &(struct certificate_shape){.uri = URI, .ends = 9000});
    assert_int_equal(kvr_credentials_look(credentials, &error), KVR_CREDENTIALS_SAME);
    assert_int_equal(kvr_credentials_look(credentials, &error), KVR_CREDENTIALS_CHANGED);
    assert_true(kvr_credentials_expiry(credentials) > expiry);
    newer = kvr_generation_hold(credentials);
    assert_ptr_not_equal(older, newer);
    assert_string_equal(kvr_generation_identity(older)->name, "d"); /* still whole */
    assert_int_equal(look_twice(credentials, &error), KVR_CREDENTIALS_SAME);

    /* Bad ones are said once, and change nothing. */
    expiry = kvr_credentials_expiry(credentials);
    write_text(*state, "d.key", "-----BEGIN NOTHING");
    assert_int_equal(look_twice(credentials, &error), KVR_CREDENTIALS_BAD);
    assert_non_null(strstr(error.detail, "--tls-key"));
    assert_int_equal(look_twice(credentials, &error), KVR_CREDENTIALS_SAME);
    assert_int_equal(kvr_credentials_reload(credentials, &error), KVR_CREDENTIALS_BAD);
    certificate_make(&ca, "d",
                     &(struct certificate_shape){.uri = "kvrail://f/decode/e", .ends = 9000});
    assert_int_equal(look_twice(credentials, &error), KVR_CREDENTIALS_BAD);
    assert_non_null(strstr(error.detail, "another program"));
    certificate_make(&ca, "d", &(struct certificate_shape){.uri = URI, .ends = -9});
    assert_int_equal(look_twice(credentials, &error), KVR_CREDENTIALS_BAD);
    assert_int_equal(kvr_credentials_expiry(credentials), expiry);

    kvr_generation_release(older);
    kvr_credentials_close(credentials);
    assert_string_equal(kvr_generation_identity(newer)->name, "d");
    kvr_generation_release(newer);
}

/* A list that names this very certificate is taken all the same: it names others too. */
static void own_revocation_does_not_hide_others(void **state)
{
    struct kvr_tls_config config = certificates_config(*state, "d", "ca", "crl");
    struct kvr_credentials *credentials;
    struct kvr_error error = {0};
    unsigned serial;

    serial = certificate_make(&ca, "d", &(struct certificate_shape){.uri = URI});
    crl_make(&ca, "crl", NULL, 0);
    assert_int_equal(kvr_credentials_open(&config, &credentials, &error), KVR_OK);
    crl_make(&ca, "crl", &serial, 1);
    assert_int_equal(look_twice(credentials, &error), KVR_CREDENTIALS_CHANGED);
    kvr_credentials_close(credentials);
}

static void age_is_said_once(void **state)
{
    struct kvr_tls_config config = certificates_config(*state, "d", "ca", NULL);
    struct kvr_credentials *credentials;
    struct kvr_error error = {0};
    int64_t now = time(NULL), week = 7 * 86400;

    certificate_make(&ca, "d",
                     &(struct certificate_shape){.uri = URI, .begins = -3000, .ends = 6000});
    assert_int_equal(kvr_credentials_open(&config, &credentials, &error), KVR_OK);
    assert_false(kvr_credentials_aging(credentials, now + 2900));
    assert_true(kvr_credentials_aging(credentials, now + 3100));
    assert_false(kvr_credentials_aging(credentials, now + 3200));
    certificate_make(&ca, "d",
                     &(struct certificate_shape){.uri = URI, .begins = -60, .ends = 100 * 86400});
    assert_int_equal(look_twice(credentials, &error), KVR_CREDENTIALS_CHANGED);
    assert_false(kvr_credentials_aging(credentials, now + 100 * 86400 - week - 60));
    assert_true(kvr_credentials_aging(credentials, now + 100 * 86400 - week + 60));
    kvr_credentials_close(credentials);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(bad_files_are_refused, begin, end),
        cmocka_unit_test_setup_teardown(revoked_certificate_does_not_start, begin, end),
        cmocka_unit_test_setup_teardown(tenants_are_units_of_the_subject, begin, end),
        cmocka_unit_test_setup_teardown(renewal_takes_effect, begin, end),
        cmocka_unit_test_setup_teardown(own_revocation_does_not_hide_others, begin, end),
        cmocka_unit_test_setup_teardown(age_is_said_once, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
