#include "tools/certificates/certificate_issue.h"

#include <stdio.h>
#include <string.h>

#include "tools/certificates/issued.h"

static const char what[] = "making a certificate";

static kvr_status add_host(gnutls_x509_crt_t certificate, const char *host, struct kvr_error *error)
{
    unsigned char address[16];
    unsigned bytes;
    int code;

    KVR_TRY(certificate_host_check(host, address, &bytes, error));
    if (bytes > 0)
        code = gnutls_x509_crt_set_subject_alt_name(certificate, GNUTLS_SAN_IPADDRESS, address,
                                                    bytes, GNUTLS_FSAN_APPEND);
    else
        code = gnutls_x509_crt_set_subject_alt_name(certificate, GNUTLS_SAN_DNSNAME, host,
                                                    (unsigned)strlen(host), GNUTLS_FSAN_APPEND);
    return certificate_try(code, what, error);
}

/* The URI, the name, the tenants as organizational units, and the hosts. */
static kvr_status add_subject(gnutls_x509_crt_t certificate, const struct authority *authority,
                              const struct certificate_wish *wish, struct kvr_error *error)
{
    char uri[CERTIFICATE_URI_BYTES];

    certificate_uri(authority->fleet, wish->role, wish->name, uri);
    KVR_TRY(
        certificate_try(gnutls_x509_crt_set_dn_by_oid(certificate, GNUTLS_OID_X520_COMMON_NAME, 0,
                                                      wish->name, (unsigned)strlen(wish->name)),
                        what, error));
    for (uint32_t i = 0; i < wish->tenants->count; i++) {
        const char *tenant = wish->tenants->items[i];

        KVR_TRY(certificate_name_check("--tenant", tenant, error));
        KVR_TRY(certificate_try(
            gnutls_x509_crt_set_dn_by_oid(certificate, GNUTLS_OID_X520_ORGANIZATIONAL_UNIT_NAME, 0,
                                          tenant, (unsigned)strlen(tenant)),
            what, error));
    }
    KVR_TRY(certificate_try(gnutls_x509_crt_set_subject_alt_name(certificate, GNUTLS_SAN_URI, uri,
                                                                 (unsigned)strlen(uri),
                                                                 GNUTLS_FSAN_APPEND),
                            what, error));
    for (uint32_t i = 0; i < wish->hosts->count; i++)
        KVR_TRY(add_host(certificate, wish->hosts->items[i], error));
    return KVR_OK;
}

/* Agents dial as well as they listen, and the scheduler may come to; a person's tool only dials. */
static kvr_status add_purposes(gnutls_x509_crt_t certificate, const struct authority *authority,
                               certificate_role role, struct kvr_error *error)
{
    unsigned char id[64];
    size_t bytes = sizeof(id);

    KVR_TRY(
        certificate_try(gnutls_x509_crt_set_basic_constraints(certificate, 0, -1), what, error));
    KVR_TRY(certificate_try(
        gnutls_x509_crt_set_key_usage(certificate, GNUTLS_KEY_DIGITAL_SIGNATURE), what, error));
    if (certificate_role_listens(role))
        KVR_TRY(certificate_try(
            gnutls_x509_crt_set_key_purpose_oid(certificate, GNUTLS_KP_TLS_WWW_SERVER, 0), what,
            error));
    KVR_TRY(certificate_try(
        gnutls_x509_crt_set_key_purpose_oid(certificate, GNUTLS_KP_TLS_WWW_CLIENT, 0), what,
        error));
    KVR_TRY(certificate_try(
        gnutls_x509_crt_get_subject_key_id(authority->certificate, id, &bytes, NULL), what, error));
    return certificate_try(gnutls_x509_crt_set_authority_key_id(certificate, id, bytes), what,
                           error);
}

/* Before the certificate is there, so that there is none that cannot be revoked. */
static kvr_status note(const struct certificate_folder *folder, gnutls_x509_crt_t certificate,
                       const struct certificate_wish *wish, time_t end, struct kvr_error *error)
{
    struct issued issued = {.serial_bytes = sizeof(issued.serial), .end = end};

    snprintf(issued.name, sizeof(issued.name), "%s", wish->name);
    KVR_TRY(certificate_try(
        gnutls_x509_crt_get_serial(certificate, issued.serial, &issued.serial_bytes), what, error));
    return issued_add(folder, &issued, error);
}

/* The certificate last: a program that looks for it finds its key. */
static kvr_status write_both(const struct certificate_folder *folder,
                             const struct authority *authority, gnutls_x509_crt_t certificate,
                             const char *name, const gnutls_datum_t *key_text,
                             struct kvr_error *error)
{
    char file[KVR_NAME_BYTES + 16];

    snprintf(file, sizeof(file), "%s-key.pem", name);
    KVR_TRY(certificate_folder_write(folder, file, key_text, CERTIFICATE_MODE_SECRET, error));
    snprintf(file, sizeof(file), "%s.pem", name);
    return certificate_end(certificate, authority->certificate, authority->key, folder, file,
                           error);
}

static kvr_status make(const struct certificate_folder *folder, const struct authority *authority,
                       const struct certificate_wish *wish, struct certificate_life life,
                       gnutls_x509_crt_t certificate, struct kvr_error *error)
{
    gnutls_datum_t key_text = {0};
    gnutls_x509_privkey_t key;
    kvr_status status;

    KVR_TRY(certificate_key_make(&key, &key_text, error));
    status = certificate_begin(certificate, key, life, error);
    if (status == KVR_OK)
        status = add_subject(certificate, authority, wish, error);
    if (status == KVR_OK)
        status = add_purposes(certificate, authority, wish->role, error);
    if (status == KVR_OK)
        status = note(folder, certificate, wish, life.end, error);
    if (status == KVR_OK)
        status = write_both(folder, authority, certificate, wish->name, &key_text, error);
    certificate_key_text_free(&key_text);
    gnutls_x509_privkey_deinit(key);
    return status;
}

kvr_status certificate_issue(const struct certificate_folder *folder,
                             const struct authority *authority, const struct certificate_wish *wish,
                             time_t *ret_end, struct kvr_error *error)
{
    time_t last = gnutls_x509_crt_get_expiration_time(authority->certificate);
    struct certificate_life life = wish->life;
    gnutls_x509_crt_t certificate;
    kvr_status status;

    if (life.end > last)
        life.end = last;
    KVR_TRY(certificate_try(gnutls_x509_crt_init(&certificate), what, error));
    status = make(folder, authority, wish, life, certificate, error);
    gnutls_x509_crt_deinit(certificate);
    if (status == KVR_OK)
        *ret_end = life.end;
    return status;
}
