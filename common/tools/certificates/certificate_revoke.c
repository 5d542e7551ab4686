#include "tools/certificates/certificate_revoke.h"

#include <string.h>

#include "tools/certificates/issued.h"

#define FILE_NAME    "crl.pem"
#define NUMBER_BYTES 8

static const char what[] = "making the list of revoked certificates";

struct revoking {
    gnutls_x509_crl_t list;
    const char *name;
    time_t now;
    unsigned issued, revoked; /* to the name and alive; of these, new on the list */
};

/* A list of another CA, or a changed one, may lack what was on it. */
static kvr_status take_list(const struct certificate_folder *folder,
                            const struct authority *authority, gnutls_x509_crl_t list,
                            struct kvr_error *error)
{
    gnutls_datum_t text;
    kvr_status status;
    unsigned bad = 0;

    if (!certificate_folder_has(folder, FILE_NAME))
        return KVR_OK;
    KVR_TRY(certificate_folder_read(folder, FILE_NAME, &text, error));
    status = certificate_try(gnutls_x509_crl_import(list, &text, GNUTLS_X509_FMT_PEM),
                             "reading " FILE_NAME, error);
    gnutls_free(text.data);
    KVR_TRY(status);
    KVR_TRY(certificate_try(gnutls_x509_crl_verify(list, &authority->certificate, 1, 0, &bad),
                            "reading " FILE_NAME, error));
    if ((bad & (GNUTLS_CERT_INVALID | GNUTLS_CERT_SIGNER_NOT_FOUND)) == 0)
        return KVR_OK;
    return kvr_error_set(error, KVR_INVALID, "certificates",
                         "%s/" FILE_NAME " was not signed by the CA in %s: move it away, and "
                         "revoke again what was on it",
                         folder->path, folder->path);
}

static bool on_list(gnutls_x509_crl_t list, const struct issued *issued)
{
    int count = gnutls_x509_crl_get_crt_count(list);

    for (int i = 0; i < count; i++) {
        unsigned char serial[ISSUED_SERIAL_BYTES];
        size_t bytes = sizeof(serial);
        time_t when;

        if (gnutls_x509_crl_get_crt_serial(list, i, serial, &bytes, &when) == 0 &&
            bytes == issued->serial_bytes && memcmp(serial, issued->serial, bytes) == 0)
            return true;
    }
    return false;
}

static kvr_status revoke_one(void *self, const struct issued *issued, struct kvr_error *error)
{
    struct revoking *revoking = self;

    if (strcmp(issued->name, revoking->name) != 0 || issued->end <= revoking->now)
        return KVR_OK;
    revoking->issued++;
    if (on_list(revoking->list, issued))
        return KVR_OK;
    revoking->revoked++;
    return certificate_try(gnutls_x509_crl_set_crt_serial(revoking->list, issued->serial,
                                                          issued->serial_bytes, revoking->now),
                           what, error);
}

static uint64_t number_of(gnutls_x509_crl_t list)
{
    unsigned char bytes[32];
    size_t count = sizeof(bytes);
    uint64_t number = 0;

    if (gnutls_x509_crl_get_number(list, bytes, &count, NULL) != 0)
        return 0;
    for (size_t i = 0; i < count; i++)
        number = number << 8 | bytes[i];
    return number;
}

static kvr_status set_number(gnutls_x509_crl_t list, uint64_t number, struct kvr_error *error)
{
    unsigned char bytes[NUMBER_BYTES];

    for (unsigned i = 0; i < NUMBER_BYTES; i++)
        bytes[i] = (unsigned char)(number >> (8 * (NUMBER_BYTES - 1 - i)));
    return certificate_try(gnutls_x509_crl_set_number(list, bytes, sizeof(bytes)), what, error);
}

/* A list that has passed its next update is not believed, and with it no certificate: this one
 * lasts as long as the CA. */
static kvr_status sign(gnutls_x509_crl_t list, const struct authority *authority, uint64_t number,
                       time_t now, struct kvr_error *error)
{
    unsigned char id[64];
    size_t bytes = sizeof(id);
    time_t last = gnutls_x509_crt_get_expiration_time(authority->certificate);

    KVR_TRY(certificate_try(
        gnutls_x509_crt_get_subject_key_id(authority->certificate, id, &bytes, NULL), what, error));
    KVR_TRY(certificate_try(gnutls_x509_crl_set_version(list, 2), what, error));
    KVR_TRY(certificate_try(gnutls_x509_crl_set_this_update(list, now), what, error));
    KVR_TRY(certificate_try(gnutls_x509_crl_set_next_update(list, last), what, error));
    KVR_TRY(certificate_try(gnutls_x509_crl_set_authority_key_id(list, id, bytes), what, error));
    KVR_TRY(set_number(list, number, error));
    return certificate_try(
        gnutls_x509_crl_sign2(list, authority->certificate, authority->key, GNUTLS_DIG_SHA256, 0),
        what, error);
}

static kvr_status write_list(const struct certificate_folder *folder, gnutls_x509_crl_t list,
                             struct kvr_error *error)
{
    gnutls_datum_t text;
    kvr_status status;

    KVR_TRY(
        certificate_try(gnutls_x509_crl_export2(list, GNUTLS_X509_FMT_PEM, &text), what, error));
    status = certificate_folder_write(folder, FILE_NAME, &text, CERTIFICATE_MODE_PUBLIC, error);
    gnutls_free(text.data);
    return status;
}

static kvr_status extend_list(const struct certificate_folder *folder,
                              const struct authority *authority, struct revoking *revoking,
                              uint64_t *ret_number, struct kvr_error *error)
{
    uint64_t number;

    KVR_TRY(take_list(folder, authority, revoking->list, error));
    number = number_of(revoking->list);
    KVR_TRY(issued_read(folder, revoke_one, revoking, error));
    if (revoking->issued == 0)
        return kvr_error_set(error, KVR_NOT_FOUND, "certificates",
                             "%s has issued no certificate to '%s' that is still valid",
                             folder->path, revoking->name);
    *ret_number = number;
    if (revoking->revoked == 0)
        return KVR_OK;
    *ret_number = number + 1;
    KVR_TRY(sign(revoking->list, authority, number + 1, revoking->now, error));
    return write_list(folder, revoking->list, error);
}

kvr_status certificate_revoke(const struct certificate_folder *folder,
                              const struct authority *authority, const char *name,
                              unsigned *ret_revoked, uint64_t *ret_number, struct kvr_error *error)
{
    struct revoking revoking = {.name = name, .now = time(NULL)};
    uint64_t number = 0;
    kvr_status status;

    KVR_TRY(certificate_try(gnutls_x509_crl_init(&revoking.list), what, error));
    status = extend_list(folder, authority, &revoking, &number, error);
    gnutls_x509_crl_deinit(revoking.list);
    if (status == KVR_OK) {
        *ret_revoked = revoking.revoked;
        *ret_number = number;
    }
    return status;
}
