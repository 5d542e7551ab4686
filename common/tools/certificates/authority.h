/* The CA of a small fleet: a certificate that signs all others, with its key, in the fleet's
 * folder. Main thread. */
#ifndef KVR_TOOLS_AUTHORITY_H
#define KVR_TOOLS_AUTHORITY_H

#include <time.h>

#include <gnutls/x509.h>

#include "base/limits.h"
#include "tools/certificates/certificate_folder.h"

struct authority {
    gnutls_x509_crt_t certificate;
    gnutls_x509_privkey_t key;
    char fleet[KVR_NAME_BYTES];
};

/* When a certificate is valid, UTC. */
struct certificate_life {
    time_t begin, end;
};

/* Writes ca.pem and ca-key.pem; takes the place of those that are there. */
KVR_MUST_CHECK kvr_status authority_make(const struct certificate_folder *folder, const char *fleet,
                                         struct certificate_life life, struct kvr_error *error);
/* Refuses a CA that is no CA of a fleet, has another's key, or has expired. */
KVR_MUST_CHECK kvr_status authority_open(const struct certificate_folder *folder,
                                         struct authority *ret_authority, struct kvr_error *error);
void authority_close(struct authority *authority);

/* A new ECDSA key on P-256, and its text: PKCS #8, not encrypted. The caller ends both, the text
 * with certificate_key_text_free(). */
KVR_MUST_CHECK kvr_status certificate_key_make(gnutls_x509_privkey_t *ret_key,
                                               gnutls_datum_t *ret_text, struct kvr_error *error);
void certificate_key_text_free(gnutls_datum_t *text);
/* What every certificate has: version, a random serial, life, key and its id. */
KVR_MUST_CHECK kvr_status certificate_begin(gnutls_x509_crt_t certificate,
                                            gnutls_x509_privkey_t key, struct certificate_life life,
                                            struct kvr_error *error);
/* Signs it and writes the PEM file; mode CERTIFICATE_MODE_PUBLIC. */
KVR_MUST_CHECK kvr_status certificate_end(gnutls_x509_crt_t certificate, gnutls_x509_crt_t issuer,
                                          gnutls_x509_privkey_t issuer_key,
                                          const struct certificate_folder *folder, const char *name,
                                          struct kvr_error *error);

#endif
