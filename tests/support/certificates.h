/* Small CAs and certificates for tests, made with GnuTLS in a folder: NAME.pem and NAME.key. */
#ifndef KVR_TESTS_CERTIFICATES_H
#define KVR_TESTS_CERTIFICATES_H

#include <gnutls/x509.h>

#include "tls/tls_options.h"

#define CERTIFICATES_PATH_BYTES 256

struct authority {
    char folder[CERTIFICATES_PATH_BYTES];
    char name[32];
    gnutls_x509_crt_t certificate;
    gnutls_x509_privkey_t key;
    unsigned serial; /* of the last certificate */
};

#define CERTIFICATE_TENANTS_MAX 4

/* What a certificate has; zeros: valid from an hour ago for a day, for both purposes. */
struct certificate_shape {
    const char *uri;                              /* NULL: none */
    const char *tenants[CERTIFICATE_TENANTS_MAX]; /* of the subject, up to the first NULL */
    long begins, ends;                            /* seconds from now */
    bool only_server, only_client;
    bool rsa;
    bool loopback; /* it also names localhost and 127.0.0.1, for clients that check the host */
};

void authority_make(struct authority *authority, const char *folder, const char *name);
/* One that was made before, in this process or another. */
void authority_open(struct authority *authority, const char *folder, const char *name);
void authority_done(struct authority *authority);
/* Returns its serial number. */
unsigned certificate_make(struct authority *authority, const char *name,
                          const struct certificate_shape *shape);
/* NAME.pem: a list that revokes those serials. */
void crl_make(struct authority *authority, const char *name, const unsigned *serials,
              unsigned count);
/* --tls-certificate FOLDER/name.pem …; crl may be NULL. */
struct kvr_tls_config certificates_config(const char *folder, const char *name, const char *ca,
                                          const char *crl);

#endif
