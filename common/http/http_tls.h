/* TLS of the HTTP port: the program's certificate, and the certificates that clients show.
 *
 * libmicrohttpd asks for the program's certificate at each handshake, so a renewed one is used
 * from the next connection on and no request is lost. A client need not show a certificate:
 * browsers come with a token. One that is shown is judged here, with the CA and the revocation list
 * of now, and again when these change and once a minute.
 *
 * http_tls_look: the main thread; all others: the daemon's thread. A lock of its own. One in a
 * process at a time: the callback of a handshake has no place for a pointer. */
#ifndef KVR_HTTP_TLS_H
#define KVR_HTTP_TLS_H

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>

#include "http/access.h"
#include "tls/tls_options.h"

#define HTTP_TLS_PRIORITIES "SECURE128:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

struct http_tls;

/* What a client has shown, as it was judged last. Zeroed: not judged yet. */
struct http_shown {
    bool judged, given, good;
    uint64_t generation;
    kvr_ns judged_at;
    struct access_certificate certificate;
};

KVR_MUST_CHECK kvr_status http_tls_open(const struct kvr_tls_config *config,
                                        struct http_tls **ret_tls, struct kvr_error *error);
struct http_tls *http_tls_close(struct http_tls *tls); /* NULL is fine; returns NULL */

/* About once a second, and with always after SIGHUP: reads files that have changed, logs that, and
 * logs once that the certificate ends soon. */
void http_tls_look(struct http_tls *tls, bool always);
/* When the program's certificate ends, in seconds of 1970. */
int64_t http_tls_expiry(struct http_tls *tls);

/* The CA in PEM, for MHD_OPTION_HTTPS_MEM_TRUST: with it clients are asked for a certificate. */
const char *http_tls_trust(const struct http_tls *tls);
/* MHD_OPTION_HTTPS_CERT_CALLBACK2. */
int http_tls_retrieve(gnutls_session_t session, const struct gnutls_cert_retr_st *info,
                      gnutls_pcert_st **ret_chain, unsigned *ret_count,
                      gnutls_ocsp_data_st **ret_ocsp, unsigned *ret_ocsp_count,
                      gnutls_privkey_t *ret_key, unsigned *ret_flags);

/* Brings *shown up to date. */
void http_tls_judge(struct http_tls *tls, gnutls_session_t session, kvr_ns now,
                    struct http_shown *shown);

#endif
