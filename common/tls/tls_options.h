/* Which certificate a program shows, which CA it believes, and --insecure: the options that every
 * program on the network has. Main thread, at start. */
#ifndef KVR_TLS_TLS_OPTIONS_H
#define KVR_TLS_TLS_OPTIONS_H

#include "base/options.h"
#include "base/status.h"

#define KVR_TLS_PATH_BYTES    512
#define KVR_TLS_PATTERN_BYTES 256

/* PEM files; "" = not given. */
struct kvr_tls_config {
    char certificate[KVR_TLS_PATH_BYTES]; /* of this program, then those that lead to the CA */
    char key[KVR_TLS_PATH_BYTES];
    char ca[KVR_TLS_PATH_BYTES];          /* one or several certificates */
    char crl[KVR_TLS_PATH_BYTES];         /* one or several lists */
    char identity[KVR_TLS_PATTERN_BYTES]; /* tls/identity.h; "" = kvrail://FLEET/ROLE/NAME */
    bool insecure;
};

/* For a program that listens: all rows. */
extern const struct kvr_option_table kvr_tls_options;
/* For a command that only calls: certificate, key and CA. The CA may stand alone there. */
extern const struct kvr_option_table kvr_tls_client_options;

/* The program authenticates and encrypts. */
static inline bool kvr_tls_given(const struct kvr_tls_config *config)
{
    return config->certificate[0] != '\0';
}

/* KVR_INVALID with the remedy: certificate, key and CA are not all there, and --insecure is not
 * either; or both are; or a CRL or pattern stands without them. */
KVR_MUST_CHECK kvr_status kvr_tls_check(const struct kvr_tls_config *config,
                                        struct kvr_error *error);
/* The same for a command that only calls, where the CA may stand alone. */
KVR_MUST_CHECK kvr_status kvr_tls_client_check(const struct kvr_tls_config *config,
                                               struct kvr_error *error);

#endif
