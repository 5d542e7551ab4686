#include "tests/support/certificates.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define CHECK(call)                                                                                \
    do {                                                                                           \
        int check_result = (call);                                                                 \
        assert(check_result >= 0);                                                                 \
        (void)check_result;                                                                        \
    } while (0)

static void write_file(const char *folder, const char *name, const char *suffix,
                       const gnutls_datum_t *content)
{
    char path[CERTIFICATES_PATH_BYTES + 64], next[CERTIFICATES_PATH_BYTES + 72];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s.%s", folder, name, suffix);
    snprintf(next, sizeof(next), "%s.next", path);
    file = fopen(next, "we");
    assert(file != NULL);
    fwrite(content->data, 1, content->size, file);
    fclose(file);
    CHECK(rename(next, path));
}

static void certificate_write(const char *folder, const char *name, gnutls_x509_crt_t certificate,
                              gnutls_x509_privkey_t key)
{
    gnutls_datum_t text;

    CHECK(gnutls_x509_crt_export2(certificate, GNUTLS_X509_FMT_PEM, &text));
    write_file(folder, name, "pem", &text);
    gnutls_free(text.data);
    CHECK(gnutls_x509_privkey_export2(key, GNUTLS_X509_FMT_PEM, &text));
    write_file(folder, name, "key", &text);
    gnutls_free(text.data);
}

static gnutls_x509_privkey_t key_make(bool rsa)
{
    gnutls_x509_privkey_t key;

    CHECK(gnutls_x509_privkey_init(&key));
    if (rsa)
        CHECK(gnutls_x509_privkey_generate(key, GNUTLS_PK_RSA, 2048, 0));
    else
        CHECK(gnutls_x509_privkey_generate(key, GNUTLS_PK_ECDSA,
                                           GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0));
    return key;
}

static gnutls_x509_crt_t blank(const char *common_name, gnutls_x509_privkey_t key, unsigned serial)
{
    uint8_t number[4] = {0x10, (uint8_t)(serial >> 16), (uint8_t)(serial >> 8), (uint8_t)serial};
    gnutls_x509_crt_t certificate;

    CHECK(gnutls_x509_crt_init(&certificate));
    CHECK(gnutls_x509_crt_set_version(certificate, 3));
    CHECK(gnutls_x509_crt_set_serial(certificate, number, sizeof(number)));
    CHECK(gnutls_x509_crt_set_key(certificate, key));
    CHECK(gnutls_x509_crt_set_dn_by_oid(certificate, GNUTLS_OID_X520_COMMON_NAME, 0, common_name,
                                        (unsigned)strlen(common_name)));
    return certificate;
}

void authority_make(struct authority *authority, const char *folder, const char *name)
{
    *authority = (struct authority){.key = key_make(false)};
    snprintf(authority->folder, sizeof(authority->folder), "%s", folder);
    snprintf(authority->name, sizeof(authority->name), "%s", name);
    authority->certificate = blank(name, authority->key, 1);
    CHECK(gnutls_x509_crt_set_basic_constraints(authority->certificate, 1, -1));
    CHECK(gnutls_x509_crt_set_key_usage(authority->certificate,
                                        GNUTLS_KEY_KEY_CERT_SIGN | GNUTLS_KEY_CRL_SIGN));
    CHECK(gnutls_x509_crt_set_activation_time(authority->certificate, time(NULL) - 86400));
    CHECK(gnutls_x509_crt_set_expiration_time(authority->certificate, time(NULL) + 864000));
    CHECK(gnutls_x509_crt_sign2(authority->certificate, authority->certificate, authority->key,
                                GNUTLS_DIG_SHA256, 0));
    certificate_write(folder, name, authority->certificate, authority->key);
    authority->serial = 1;
}

static void read_file(const char *folder, const char *name, const char *suffix,
                      gnutls_datum_t *ret_content)
{
    char path[CERTIFICATES_PATH_BYTES + 64];

    snprintf(path, sizeof(path), "%s/%s.%s", folder, name, suffix);
    CHECK(gnutls_load_file(path, ret_content));
}

/* Serials count up from the time: no state is kept. */
void authority_open(struct authority *authority, const char *folder, const char *name)
{
    struct timespec now;
    gnutls_datum_t text;

    *authority = (struct authority){0};
    snprintf(authority->folder, sizeof(authority->folder), "%s", folder);
    snprintf(authority->name, sizeof(authority->name), "%s", name);
    read_file(folder, name, "pem", &text);
    CHECK(gnutls_x509_crt_init(&authority->certificate));
    CHECK(gnutls_x509_crt_import(authority->certificate, &text, GNUTLS_X509_FMT_PEM));
    gnutls_free(text.data);
    read_file(folder, name, "key", &text);
    CHECK(gnutls_x509_privkey_init(&authority->key));
    CHECK(gnutls_x509_privkey_import(authority->key, &text, GNUTLS_X509_FMT_PEM));
    gnutls_free(text.data);
    clock_gettime(CLOCK_REALTIME, &now);
    authority->serial = (unsigned)((now.tv_sec * 1000 + now.tv_nsec / 1000000) & 0xffffff);
}

void authority_done(struct authority *authority)
{
    gnutls_x509_crt_deinit(authority->certificate);
    gnutls_x509_privkey_deinit(authority->key);
}

unsigned certificate_make(struct authority *authority, const char *name,
                          const struct certificate_shape *shape)
{
    gnutls_x509_privkey_t key = key_make(shape->rsa);
    gnutls_x509_crt_t certificate = blank(name, key, ++authority->serial);
    long begins = shape->begins != 0 ? shape->begins : -3600;
    long ends = shape->ends != 0 ? shape->ends : 86400;

    if (shape->uri != NULL)
        CHECK(gnutls_x509_crt_set_subject_alt_name(certificate, GNUTLS_SAN_URI, shape->uri,
                                                   (unsigned)strlen(shape->uri), GNUTLS_FSAN_SET));
    for (size_t i = 0; i < CERTIFICATE_TENANTS_MAX && shape->tenants[i] != NULL; i++)
        CHECK(gnutls_x509_crt_set_dn_by_oid(certificate, GNUTLS_OID_X520_ORGANIZATIONAL_UNIT_NAME,
                                            0, shape->tenants[i],
                                            (unsigned)strlen(shape->tenants[i])));
    if (shape->loopback) {
        CHECK(gnutls_x509_crt_set_subject_alt_name(certificate, GNUTLS_SAN_DNSNAME, "localhost", 9,
                                                   GNUTLS_FSAN_APPEND));
        CHECK(gnutls_x509_crt_set_subject_alt_name(certificate, GNUTLS_SAN_IPADDRESS, "\x7f\0\0\1",
                                                   4, GNUTLS_FSAN_APPEND));
    }
    if (!shape->only_client)
        CHECK(gnutls_x509_crt_set_key_purpose_oid(certificate, GNUTLS_KP_TLS_WWW_SERVER, 0));
    if (!shape->only_server)
        CHECK(gnutls_x509_crt_set_key_purpose_oid(certificate, GNUTLS_KP_TLS_WWW_CLIENT, 0));
    CHECK(gnutls_x509_crt_set_key_usage(certificate, GNUTLS_KEY_DIGITAL_SIGNATURE));
    CHECK(gnutls_x509_crt_set_activation_time(certificate, time(NULL) + begins));
    CHECK(gnutls_x509_crt_set_expiration_time(certificate, time(NULL) + ends));
    CHECK(gnutls_x509_crt_sign2(certificate, authority->certificate, authority->key,
                                GNUTLS_DIG_SHA256, 0));
    certificate_write(authority->folder, name, certificate, key);
    gnutls_x509_crt_deinit(certificate);
    gnutls_x509_privkey_deinit(key);
    return authority->serial;
}

void crl_make(struct authority *authority, const char *name, const unsigned *serials,
              unsigned count)
{
    gnutls_x509_crl_t list;
    gnutls_datum_t text;

    CHECK(gnutls_x509_crl_init(&list));
    CHECK(gnutls_x509_crl_set_version(list, 2));
    CHECK(gnutls_x509_crl_set_this_update(list, time(NULL) - 60));
    CHECK(gnutls_x509_crl_set_next_update(list, time(NULL) + 86400));
    for (unsigned i = 0; i < count; i++) {
        uint8_t number[4] = {0x10, (uint8_t)(serials[i] >> 16), (uint8_t)(serials[i] >> 8),
                             (uint8_t)serials[i]};

        CHECK(gnutls_x509_crl_set_crt_serial(list, number, sizeof(number), time(NULL) - 60));
    }
    CHECK(
        gnutls_x509_crl_sign2(list, authority->certificate, authority->key, GNUTLS_DIG_SHA256, 0));
    CHECK(gnutls_x509_crl_export2(list, GNUTLS_X509_FMT_PEM, &text));
    write_file(authority->folder, name, "pem", &text);
    gnutls_free(text.data);
    gnutls_x509_crl_deinit(list);
}

struct kvr_tls_config certificates_config(const char *folder, const char *name, const char *ca,
                                          const char *crl)
{
    struct kvr_tls_config config = {0};

    snprintf(config.certificate, sizeof(config.certificate), "%s/%s.pem", folder, name);
    snprintf(config.key, sizeof(config.key), "%s/%s.key", folder, name);
    snprintf(config.ca, sizeof(config.ca), "%s/%s.pem", folder, ca);
    if (crl != NULL)
        snprintf(config.crl, sizeof(config.crl), "%s/%s.pem", folder, crl);
    return config;
}
