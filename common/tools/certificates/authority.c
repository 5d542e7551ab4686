#include "tools/certificates/authority.h"

#include <stdio.h>
#include <string.h>

#include <gnutls/abstract.h>

#include "base/entropy.h"
#include "tools/certificates/certificate_name.h"

#define SERIAL_BYTES 16
#define FLEET_URI    "kvrail://" /* in the CA's subject alternative names, with the fleet's name */

kvr_status certificate_key_make(gnutls_x509_privkey_t *ret_key, gnutls_datum_t *ret_text,
                                struct kvr_error *error)
{
    gnutls_x509_privkey_t key;
    kvr_status status;

    KVR_TRY(certificate_try(gnutls_x509_privkey_init(&key), "making a key", error));
    status = certificate_try(
        gnutls_x509_privkey_generate(key, GNUTLS_PK_ECDSA,
                                     GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0),
        "making a key", error);
    if (status == KVR_OK)
        status = certificate_try(gnutls_x509_privkey_export2_pkcs8(key, GNUTLS_X509_FMT_PEM, NULL,
                                                                   GNUTLS_PKCS_PLAIN, ret_text),
                                 "writing a key", error);
    if (status != KVR_OK)
        gnutls_x509_privkey_deinit(key);
    else
        *ret_key = key;
    return status;
}

void certificate_key_text_free(gnutls_datum_t *text)
{
    if (text->data != NULL)
        gnutls_memset(text->data, 0, text->size);
    gnutls_free(text->data);
    *text = (gnutls_datum_t){0};
}

/* A key's id names it in the certificates and lists that it signs. */
static int set_key_id(gnutls_x509_crt_t certificate, gnutls_x509_privkey_t key)
{
    unsigned char id[64];
    size_t bytes = sizeof(id);
    int code = gnutls_x509_privkey_get_key_id(key, GNUTLS_KEYID_USE_SHA1, id, &bytes);

    return code < 0 ? code : gnutls_x509_crt_set_subject_key_id(certificate, id, bytes);
}

kvr_status certificate_begin(gnutls_x509_crt_t certificate, gnutls_x509_privkey_t key,
                             struct certificate_life life, struct kvr_error *error)
{
    static const char what[] = "making a certificate";
    unsigned char serial[SERIAL_BYTES];

    kvr_random_bytes(serial, sizeof(serial));
    serial[0] = (unsigned char)((serial[0] & 0x3f) | 0x40); /* positive, and of full length */
    KVR_TRY(certificate_try(gnutls_x509_crt_set_version(certificate, 3), what, error));
    KVR_TRY(certificate_try(gnutls_x509_crt_set_serial(certificate, serial, sizeof(serial)), what,
                            error));
    KVR_TRY(
        certificate_try(gnutls_x509_crt_set_activation_time(certificate, life.begin), what, error));
    KVR_TRY(
        certificate_try(gnutls_x509_crt_set_expiration_time(certificate, life.end), what, error));
    KVR_TRY(certificate_try(gnutls_x509_crt_set_key(certificate, key), what, error));
    return certificate_try(set_key_id(certificate, key), what, error);
}

kvr_status certificate_end(gnutls_x509_crt_t certificate, gnutls_x509_crt_t issuer,
                           gnutls_x509_privkey_t issuer_key,
                           const struct certificate_folder *folder, const char *name,
                           struct kvr_error *error)
{
    gnutls_datum_t text = {0};
    kvr_status status;

    KVR_TRY(certificate_try(
        gnutls_x509_crt_sign2(certificate, issuer, issuer_key, GNUTLS_DIG_SHA256, 0),
        "signing a certificate", error));
    KVR_TRY(certificate_try(gnutls_x509_crt_export2(certificate, GNUTLS_X509_FMT_PEM, &text),
                            "writing a certificate", error));
    status = certificate_folder_write(folder, name, &text, CERTIFICATE_MODE_PUBLIC, error);
    gnutls_free(text.data);
    return status;
}

static kvr_status fill(gnutls_x509_crt_t certificate, const char *fleet, struct kvr_error *error)
{
    static const char what[] = "making the CA";
    char name[KVR_NAME_BYTES + 16], uri[CERTIFICATE_URI_BYTES];

    snprintf(name, sizeof(name), "CA of %s", fleet);
    snprintf(uri, sizeof(uri), FLEET_URI "%s", fleet);
    KVR_TRY(certificate_try(gnutls_x509_crt_set_dn_by_oid(certificate, GNUTLS_OID_X520_COMMON_NAME,
                                                          0, name, (unsigned)strlen(name)),
                            what, error));
    KVR_TRY(certificate_try(gnutls_x509_crt_set_subject_alt_name(certificate, GNUTLS_SAN_URI, uri,
                                                                 (unsigned)strlen(uri),
                                                                 GNUTLS_FSAN_SET),
                            what, error));
    KVR_TRY(certificate_try(gnutls_x509_crt_set_basic_constraints(certificate, 1, 0), what, error));
    return certificate_try(
        gnutls_x509_crt_set_key_usage(certificate, GNUTLS_KEY_KEY_CERT_SIGN | GNUTLS_KEY_CRL_SIGN),
        what, error);
}

/* The key first: a CA without its key would stand in the way of the next try. */
static kvr_status write_authority(const struct certificate_folder *folder,
                                  gnutls_x509_crt_t certificate, gnutls_x509_privkey_t key,
                                  const gnutls_datum_t *key_text, struct kvr_error *error)
{
    KVR_TRY(
        certificate_folder_write(folder, "ca-key.pem", key_text, CERTIFICATE_MODE_SECRET, error));
    return certificate_end(certificate, certificate, key, folder, "ca.pem", error);
}

kvr_status authority_make(const struct certificate_folder *folder, const char *fleet,
                          struct certificate_life life, struct kvr_error *error)
{
    gnutls_x509_crt_t certificate;
    gnutls_x509_privkey_t key;
    gnutls_datum_t key_text = {0};
    kvr_status status;

    KVR_TRY(certificate_try(gnutls_x509_crt_init(&certificate), "making the CA", error));
    status = certificate_key_make(&key, &key_text, error);
    if (status == KVR_OK) {
        status = certificate_begin(certificate, key, life, error);
        if (status == KVR_OK)
            status = fill(certificate, fleet, error);
        if (status == KVR_OK)
            status = write_authority(folder, certificate, key, &key_text, error);
        certificate_key_text_free(&key_text);
        gnutls_x509_privkey_deinit(key);
    }
    gnutls_x509_crt_deinit(certificate);
    return status;
}

static kvr_status take_certificate(const struct certificate_folder *folder,
                                   gnutls_x509_crt_t certificate, struct kvr_error *error)
{
    gnutls_datum_t text;
    kvr_status status = certificate_folder_read(folder, "ca.pem", &text, error);

    if (status == KVR_NOT_FOUND)
        return kvr_error_set(error, status, "certificates",
                             "%s has no CA: `kvrail certificates init %s` makes one", folder->path,
                             folder->path);
    KVR_TRY(status);
    status = certificate_try(gnutls_x509_crt_import(certificate, &text, GNUTLS_X509_FMT_PEM),
                             "reading ca.pem", error);
    gnutls_free(text.data);
    return status;
}

static kvr_status take_key(const struct certificate_folder *folder, gnutls_x509_privkey_t key,
                           struct kvr_error *error)
{
    gnutls_datum_t text;
    kvr_status status;

    KVR_TRY(certificate_folder_read(folder, "ca-key.pem", &text, error));
    status = certificate_try(gnutls_x509_privkey_import(key, &text, GNUTLS_X509_FMT_PEM),
                             "reading ca-key.pem", error);
    certificate_key_text_free(&text);
    return status;
}

/* The fleet is the host of the CA's own URI. */
static kvr_status take_fleet(struct authority *authority, struct kvr_error *error)
{
    char uri[sizeof(FLEET_URI) + KVR_NAME_BYTES] = "";
    size_t bytes = sizeof(uri) - 1, scheme = strlen(FLEET_URI);
    int kind = gnutls_x509_crt_get_subject_alt_name(authority->certificate, 0, uri, &bytes, NULL);

    if (kind != GNUTLS_SAN_URI || bytes >= sizeof(uri) || strncmp(uri, FLEET_URI, scheme) != 0 ||
        certificate_name_check("the fleet", uri + scheme, error) != KVR_OK)
        return kvr_error_set(error, KVR_INVALID, "certificates",
                             "ca.pem names no fleet: it was not made by `kvrail certificates "
                             "init`");
    memcpy(authority->fleet, uri + scheme, strlen(uri + scheme) + 1);
    return KVR_OK;
}

static kvr_status check_pair(const struct certificate_folder *folder,
                             const struct authority *authority, struct kvr_error *error)
{
    unsigned char of_key[64], of_certificate[64];
    size_t bytes = sizeof(of_key);

    KVR_TRY(certificate_try(gnutls_x509_privkey_get_key_id(authority->key, 0, of_key, &bytes),
                            "reading ca-key.pem", error));
    bytes = sizeof(of_certificate);
    KVR_TRY(certificate_try(
        gnutls_x509_crt_get_key_id(authority->certificate, 0, of_certificate, &bytes),
        "reading ca.pem", error));
    if (memcmp(of_key, of_certificate, bytes) != 0)
        return kvr_error_set(error, KVR_INVALID, "certificates",
                             "%s: ca-key.pem is not the key of ca.pem", folder->path);
    if (gnutls_x509_crt_get_expiration_time(authority->certificate) <= time(NULL))
        return kvr_error_set(error, KVR_EXPIRED, "certificates",
                             "the CA in %s has expired: `kvrail certificates init %s --force` "
                             "makes another, and every certificate must be issued again",
                             folder->path, folder->path);
    return KVR_OK;
}

kvr_status authority_open(const struct certificate_folder *folder, struct authority *ret_authority,
                          struct kvr_error *error)
{
    struct authority authority = {0};
    kvr_status status;

    KVR_TRY(certificate_try(gnutls_x509_crt_init(&authority.certificate), "opening the CA", error));
    status = certificate_try(gnutls_x509_privkey_init(&authority.key), "opening the CA", error);
    if (status == KVR_OK)
        status = take_certificate(folder, authority.certificate, error);
    if (status == KVR_OK)
        status = take_key(folder, authority.key, error);
    if (status == KVR_OK)
        status = take_fleet(&authority, error);
    if (status == KVR_OK)
        status = check_pair(folder, &authority, error);
    if (status != KVR_OK)
        authority_close(&authority);
    else
        *ret_authority = authority;
    return status;
}

void authority_close(struct authority *authority)
{
    gnutls_x509_privkey_deinit(authority->key);
    gnutls_x509_crt_deinit(authority->certificate);
}
