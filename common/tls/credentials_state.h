/* Shared by credentials.c and credentials_judge.c; no other file may include it. */
#ifndef KVR_TLS_CREDENTIALS_STATE_H
#define KVR_TLS_CREDENTIALS_STATE_H

#include "tls/credentials.h"

struct kvr_generation {
    unsigned holds;
    gnutls_certificate_credentials_t x509; /* what a session shows */
    gnutls_x509_trust_list_t trust;        /* the CA, and what it has revoked */
    char pattern[KVR_TLS_PATTERN_BYTES];
    struct kvr_identity identity;
    int64_t activation, expiry;
    uint8_t print[32]; /* SHA-256 of the certificate */
};

/* The identity in a certificate, its tenants included. KVR_NOT_FOUND: it has no URI of that form.
 * KVR_INVALID: a part of it, or a tenant, is malformed. */
KVR_MUST_CHECK kvr_status kvr_certificate_identity(gnutls_x509_crt_t certificate,
                                                   const char *pattern,
                                                   struct kvr_identity *ret_identity,
                                                   struct kvr_error *error);
/* purpose: an object identifier, or NULL for any. KVR_TLS_REFUSAL_END: it is fine. */
kvr_tls_refusal kvr_chain_verify(gnutls_x509_trust_list_t trust, gnutls_x509_crt_t *chain,
                                 unsigned count, const char *purpose, struct kvr_error *error);

#endif
