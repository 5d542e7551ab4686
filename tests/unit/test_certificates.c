/* Goal: a fleet's CA makes certificates that verify for their purpose and for nothing else. A
 * revoked one does not verify, and stays revoked. Names that could mean another file, another
 * identity or no host are refused. A folder that was changed is refused with a sentence. */
#include "tests/support/check.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gnutls/x509.h>

#include "tests/support/folder.h"
#include "tools/certificates/certificate_issue.h"
#include "tools/certificates/certificate_revoke.h"
#include "tools/certificates/certificate_show.h"
#include "tools/certificates/issued.h"

#define DAY  86400
#define HOUR 3600

static struct certificate_life days(int from, int to)
{
    time_t now = time(NULL);

    return (struct certificate_life){now + (time_t)from * DAY, now + (time_t)to * DAY};
}

static void open_fleet(const char *path, struct certificate_folder *folder,
                       struct authority *authority)
{
    struct kvr_error error = {0};

    assert_int_equal(certificate_folder_open(path, true, folder, &error), KVR_OK);
    if (!certificate_folder_has(folder, "ca.pem"))
        assert_int_equal(authority_make(folder, "fleet-1", days(-1, 30), &error), KVR_OK);
    assert_int_equal(authority_open(folder, authority, &error), KVR_OK);
    assert_string_equal(authority->fleet, "fleet-1");
}

static void close_fleet(struct certificate_folder *folder, struct authority *authority)
{
    authority_close(authority);
    certificate_folder_close(folder);
}

static time_t issue(struct certificate_folder *folder, struct authority *authority,
                    certificate_role role, const char *name, const char *host,
                    struct certificate_life life)
{
    static struct kvr_option_list hosts, tenants;
    struct certificate_wish wish = {
        .role = role, .name = name, .hosts = &hosts, .tenants = &tenants, .life = life};
    struct kvr_error error = {0};
    time_t end = 0;

    hosts.count = host != NULL;
    if (host != NULL)
        strcpy(hosts.items[0], host);
    assert_int_equal(certificate_issue(folder, authority, &wish, &end, &error), KVR_OK);
    return end;
}

/* GnuTLS's verdict, as a peer of it would reach it. `host` may be NULL. */
static unsigned verdict(struct certificate_folder *folder, struct authority *authority,
                        const char *name, const char *purpose, const char *host)
{
    gnutls_typed_vdata_st wants[] = {{GNUTLS_DT_KEY_PURPOSE_OID, (void *)(uintptr_t)purpose, 0},
                                     {GNUTLS_DT_DNS_HOSTNAME, (void *)(uintptr_t)host, 0}};
    gnutls_x509_trust_list_t trust;
    gnutls_x509_crt_t leaf;
    gnutls_x509_crl_t revoked = NULL;
    gnutls_datum_t text;
    char file[KVR_NAME_BYTES + 8];
    unsigned result = 0;

    snprintf(file, sizeof(file), "%s.pem", name);
    assert_int_equal(certificate_folder_read(folder, file, &text, NULL), KVR_OK);
    assert_int_equal(gnutls_x509_crt_init(&leaf), 0);
    assert_int_equal(gnutls_x509_crt_import(leaf, &text, GNUTLS_X509_FMT_PEM), 0);
    gnutls_free(text.data);
    assert_int_equal(gnutls_x509_trust_list_init(&trust, 0), 0);
    assert_int_equal(gnutls_x509_trust_list_add_cas(trust, &authority->certificate, 1, 0), 1);
    if (certificate_folder_has(folder, "crl.pem")) {
        assert_int_equal(certificate_folder_read(folder, "crl.pem", &text, NULL), KVR_OK);
        assert_int_equal(gnutls_x509_crl_init(&revoked), 0);
        assert_int_equal(gnutls_x509_crl_import(revoked, &text, GNUTLS_X509_FMT_PEM), 0);
        assert_int_equal(gnutls_x509_trust_list_add_crls(trust, &revoked, 1, 0, 0), 1);
        gnutls_free(text.data);
    }
    assert_int_equal(
        gnutls_x509_trust_list_verify_crt2(trust, &leaf, 1, wants, host ? 2 : 1, 0, &result, NULL),
        0);
    gnutls_x509_trust_list_deinit(trust, 0);
    if (revoked != NULL)
        gnutls_x509_crl_deinit(revoked);
    gnutls_x509_crt_deinit(leaf);
    return result;
}

static void certificates_verify_for_what_they_are_for(void **state)
{
    struct certificate_folder folder;
    struct authority authority;

    open_fleet(*state, &folder, &authority);
    issue(&folder, &authority, CERTIFICATE_SCHEDULER, "s", "10.0.0.5", days(0, 1));
    issue(&folder, &authority, CERTIFICATE_DECODE, "d0", "d0.example", days(0, 1));
    issue(&folder, &authority, CERTIFICATE_CLIENT, "me", NULL, days(0, 1));
    assert_int_equal(verdict(&folder, &authority, "s", GNUTLS_KP_TLS_WWW_SERVER, "10.0.0.5"), 0);
    assert_int_not_equal(verdict(&folder, &authority, "s", GNUTLS_KP_TLS_WWW_SERVER, "10.0.0.6"),
                         0);
    assert_int_equal(verdict(&folder, &authority, "d0", GNUTLS_KP_TLS_WWW_SERVER, "d0.example"), 0);
    assert_int_equal(verdict(&folder, &authority, "d0", GNUTLS_KP_TLS_WWW_CLIENT, NULL), 0);
    assert_int_equal(verdict(&folder, &authority, "me", GNUTLS_KP_TLS_WWW_CLIENT, NULL), 0);
    assert_int_not_equal(verdict(&folder, &authority, "me", GNUTLS_KP_TLS_WWW_SERVER, NULL), 0);
    close_fleet(&folder, &authority);
}

static void no_certificate_outlives_its_ca(void **state)
{
    struct certificate_folder folder;
    struct authority authority;
    time_t last, end;

    open_fleet(*state, &folder, &authority);
    last = gnutls_x509_crt_get_expiration_time(authority.certificate);
    end = issue(&folder, &authority, CERTIFICATE_PREFILL, "p0", NULL, days(0, 300));
    assert_int_equal(end, last);
    issue(&folder, &authority, CERTIFICATE_PREFILL, "old", NULL, days(-3, -1));
    assert_true((verdict(&folder, &authority, "old", GNUTLS_KP_TLS_WWW_CLIENT, NULL) &
                 GNUTLS_CERT_EXPIRED) != 0);
    close_fleet(&folder, &authority);
}

static void expect_revoked(struct certificate_folder *folder, struct authority *authority,
                           const char *name, unsigned revoked, uint64_t number)
{
    struct kvr_error error = {0};
    unsigned got = 99;
    uint64_t list = 99;

    assert_int_equal(certificate_revoke(folder, authority, name, &got, &list, &error), KVR_OK);
    assert_int_equal(got, revoked);
    assert_int_equal(list, number);
}

static bool is_revoked(struct certificate_folder *folder, struct authority *authority,
                       const char *name)
{
    return (verdict(folder, authority, name, GNUTLS_KP_TLS_WWW_CLIENT, NULL) &
            GNUTLS_CERT_REVOKED) != 0;
}

static void revoked_certificates_stay_revoked(void **state)
{
    struct certificate_folder folder;
    struct authority authority;
    struct kvr_error error = {0};
    uint64_t number;
    unsigned count;

    open_fleet(*state, &folder, &authority);
    issue(&folder, &authority, CERTIFICATE_PREFILL, "p0", NULL, days(0, 10));
    issue(&folder, &authority, CERTIFICATE_PREFILL, "p1", NULL, days(0, 10));
    issue(&folder, &authority, CERTIFICATE_PREFILL, "p2", NULL, days(0, 10));
    expect_revoked(&folder, &authority, "p0", 1, 1);
    expect_revoked(&folder, &authority, "p1", 1, 2);
    expect_revoked(&folder, &authority, "p1", 0, 2);
    assert_true(is_revoked(&folder, &authority, "p0"));
    assert_true(is_revoked(&folder, &authority, "p1"));
    assert_int_equal(verdict(&folder, &authority, "p2", GNUTLS_KP_TLS_WWW_CLIENT, NULL), 0);
    assert_int_equal(certificate_revoke(&folder, &authority, "p9", &count, &number, &error),
                     KVR_NOT_FOUND);
    close_fleet(&folder, &authority);
}

/* The first certificate's file is gone; a copy of it must not be believed either. */
static void a_replaced_certificate_is_revoked_too(void **state)
{
    struct certificate_folder folder;
    struct authority authority;
    struct kvr_error error = {0};
    gnutls_datum_t first;

    open_fleet(*state, &folder, &authority);
    issue(&folder, &authority, CERTIFICATE_PREFILL, "p0", NULL, days(0, 10));
    assert_int_equal(certificate_folder_read(&folder, "p0.pem", &first, &error), KVR_OK);
    issue(&folder, &authority, CERTIFICATE_PREFILL, "p0", NULL, days(0, 10));
    expect_revoked(&folder, &authority, "p0", 2, 1);
    assert_int_equal(certificate_folder_write(&folder, "copy.pem", &first, 0644, &error), KVR_OK);
    assert_true(is_revoked(&folder, &authority, "copy"));
    issue(&folder, &authority, CERTIFICATE_PREFILL, "p0", NULL, days(0, 10));
    assert_int_equal(verdict(&folder, &authority, "p0", GNUTLS_KP_TLS_WWW_CLIENT, NULL), 0);
    gnutls_free(first.data);
    close_fleet(&folder, &authority);
}

static void keys_are_for_their_owner_alone(void **state)
{
    struct certificate_folder folder;
    struct authority authority;
    struct kvr_error error = {0};
    struct stat is;

    open_fleet(*state, &folder, &authority);
    issue(&folder, &authority, CERTIFICATE_PREFILL, "p0", NULL, days(0, 10));
    assert_int_equal(fstatat(folder.fd, "ca-key.pem", &is, 0), 0);
    assert_int_equal(is.st_mode & 07777, 0600);
    assert_int_equal(fstatat(folder.fd, "p0-key.pem", &is, 0), 0);
    assert_int_equal(is.st_mode & 07777, 0600);
    assert_int_not_equal(fstatat(folder.fd, ".part", &is, 0), 0);
    close_fleet(&folder, &authority);
    assert_int_equal(chmod(*state, 0750), 0);
    assert_int_equal(certificate_folder_open(*state, false, &folder, &error), KVR_INVALID);
    assert_non_null(strstr(error.detail, "chmod 0700"));
}

static void put(struct certificate_folder *folder, const char *name, const char *text)
{
    gnutls_datum_t data = {.data = (unsigned char *)(uintptr_t)text,
                           .size = (unsigned)strlen(text)};

    assert_int_equal(certificate_folder_write(folder, name, &data, 0600, NULL), KVR_OK);
}

static void a_changed_folder_is_refused(void **state)
{
    struct certificate_folder folder;
    struct authority authority;
    struct kvr_error error = {0};
    gnutls_datum_t key;
    uint64_t number;
    unsigned count;

    open_fleet(*state, &folder, &authority);
    issue(&folder, &authority, CERTIFICATE_PREFILL, "p0", NULL, days(0, 10));
    put(&folder, "crl.pem", "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n");
    assert_int_equal(certificate_revoke(&folder, &authority, "p0", &count, &number, &error),
                     KVR_INVALID);
    assert_int_equal(certificate_folder_remove(&folder, "crl.pem", &error), KVR_OK);
    put(&folder, "issued.txt", "0g 1 p0\n");
    assert_int_equal(certificate_revoke(&folder, &authority, "p0", &count, &number, &error),
                     KVR_MALFORMED);
    assert_non_null(strstr(error.detail, "0g 1 p0"));
    authority_close(&authority);

    assert_int_equal(certificate_folder_read(&folder, "p0-key.pem", &key, &error), KVR_OK);
    assert_int_equal(certificate_folder_write(&folder, "ca-key.pem", &key, 0600, &error), KVR_OK);
    gnutls_free(key.data);
    assert_int_equal(authority_open(&folder, &authority, &error), KVR_INVALID);
    assert_non_null(strstr(error.detail, "not the key of ca.pem"));
    assert_int_equal(certificate_folder_remove(&folder, "ca.pem", &error), KVR_OK);
    assert_int_equal(authority_open(&folder, &authority, &error), KVR_NOT_FOUND);
    assert_non_null(strstr(error.detail, "kvrail certificates init"));
    certificate_folder_close(&folder);
}

static void a_ca_of_no_fleet_and_an_old_one_are_refused(void **state)
{
    struct certificate_folder folder;
    struct authority authority;
    struct kvr_error error = {0};

    assert_int_equal(certificate_folder_open(*state, true, &folder, &error), KVR_OK);
    assert_int_equal(authority_make(&folder, "a/b", days(-1, 30), &error), KVR_OK);
    assert_int_equal(authority_open(&folder, &authority, &error), KVR_INVALID);
    assert_non_null(strstr(error.detail, "names no fleet"));
    assert_int_equal(authority_make(&folder, "fleet-1", days(-3, -1), &error), KVR_OK);
    assert_int_equal(authority_open(&folder, &authority, &error), KVR_EXPIRED);
    certificate_folder_close(&folder);
}

static void names_are_checked(void **state)
{
    static const char *const fine[] = {"p0", "P-0_a.b", "9"};
    static const char *const bad[] = {"",    ".",  "..",  "-p",     "a/b",    "a b",
                                      "a\n", "ca", "crl", "ca-key", "p0-key", "\xc3\xa9"};
    char longest[KVR_NAME_BYTES + 1];
    struct kvr_error error;
    (void)state;

    for (size_t i = 0; i < sizeof(fine) / sizeof(fine[0]); i++)
        assert_int_equal(certificate_subject_check(fine[i], &error), KVR_OK);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(certificate_subject_check(bad[i], &error), KVR_INVALID);
    memset(longest, 'a', sizeof(longest));
    longest[KVR_NAME_BYTES] = '\0';
    assert_int_equal(certificate_subject_check(longest, &error), KVR_INVALID);
    longest[KVR_NAME_BYTES - 1] = '\0';
    assert_int_equal(certificate_subject_check(longest, &error), KVR_OK);
}

static void hosts_are_checked(void **state)
{
    static const struct {
        const char *host;
        int bytes; /* -1: refused */
    } cases[] = {{"10.0.0.5", 4},     {"::1", 16},    {"fe80::1%eth0", -1}, {"a.example", 0},
                 {"localhost", 0},    {"10.0.0", -1}, {"300.1.1.1", -1},    {"a..b", -1},
                 {"a.example:1", -1}, {"[::1]", -1},  {"*.example", -1},    {"", -1},
                 {"-a", -1},          {"a-", -1},     {"a.", -1},           {"1.example", 0}};
    unsigned char address[16];
    struct kvr_error error;
    (void)state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        unsigned bytes = 99;
        kvr_status status = certificate_host_check(cases[i].host, address, &bytes, &error);

        assert_int_equal(status, cases[i].bytes < 0 ? KVR_INVALID : KVR_OK);
        if (status == KVR_OK)
            assert_int_equal(bytes, cases[i].bytes);
    }
}

/* What `show` prints of a file in an hour; the text is in `shown`. */
static kvr_status show(const gnutls_datum_t *text, char shown[4096], bool *ret_expired)
{
    FILE *out = fmemopen(shown, 4096, "w");
    struct kvr_error error;
    kvr_status status;

    assert_non_null(out);
    shown[0] = '\0';
    status = certificate_show(text, time(NULL) + HOUR, out, ret_expired, &error);
    assert_int_equal(fclose(out), 0);
    return status;
}

static void show_prints_what_counts(void **state)
{
    gnutls_datum_t nothing = {.data = (unsigned char *)(uintptr_t) "no", .size = 2}, text;
    struct certificate_folder folder;
    struct authority authority;
    char shown[4096];
    bool expired;

    open_fleet(*state, &folder, &authority);
    issue(&folder, &authority, CERTIFICATE_SCHEDULER, "s", "2001:db8::7", days(0, 10));
    assert_int_equal(certificate_folder_read(&folder, "s.pem", &text, NULL), KVR_OK);
    assert_int_equal(show(&text, shown, &expired), KVR_OK);
    assert_false(expired);
    assert_non_null(strstr(shown, "kvrail://fleet-1/scheduler/s\n"));
    assert_non_null(strstr(shown, "2001:db8::7\n"));
    assert_non_null(strstr(shown, "CN=CA of fleet-1\n"));
    assert_non_null(strstr(shown, ": 9 days left\n"));
    gnutls_free(text.data);
    issue(&folder, &authority, CERTIFICATE_DECODE, "old", NULL, days(-3, -1));
    assert_int_equal(certificate_folder_read(&folder, "old.pem", &text, NULL), KVR_OK);
    assert_int_equal(show(&text, shown, &expired), KVR_OK);
    assert_true(expired);
    gnutls_free(text.data);
    assert_int_equal(show(&nothing, shown, &expired), KVR_INVALID);
    assert_int_equal(certificate_folder_read(&folder, "ca-key.pem", &text, NULL), KVR_OK);
    assert_int_equal(show(&text, shown, &expired), KVR_INVALID);
    gnutls_free(text.data);
    close_fleet(&folder, &authority);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, folder_open, folder_close)

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(certificates_verify_for_what_they_are_for),
        CASE(no_certificate_outlives_its_ca),
        CASE(revoked_certificates_stay_revoked),
        CASE(a_replaced_certificate_is_revoked_too),
        CASE(keys_are_for_their_owner_alone),
        CASE(a_changed_folder_is_refused),
        CASE(a_ca_of_no_fleet_and_an_old_one_are_refused),
        CASE(show_prints_what_counts),
        cmocka_unit_test(names_are_checked),
        cmocka_unit_test(hosts_are_checked),
    };

    return cmocka_run_group_tests(cases, NULL, NULL);
}
