/* The certificate, key, CA and revocation lists of this process, read from files and read again
 * when they change. What was read at one time is a generation: each TLS session holds the one that
 * it began with, so a change ends no session. A generation that cannot be used leaves the one
 * before in force.
 *
 * Loop thread only: the counts of holders are not atomic. */
#ifndef KVR_TLS_CREDENTIALS_H
#define KVR_TLS_CREDENTIALS_H

#include <gnutls/x509.h>
#include <stdint.h>

#include "tls/identity.h"
#include "tls/refusal.h"
#include "tls/tls_options.h"

#define KVR_CREDENTIALS_CHAIN_MAX 8 /* certificates that a side shows */

struct kvr_credentials;
struct kvr_generation;

/* Reads the files of *config (copied), with all three of certificate, key and CA. The error names
 * the option, the file and the remedy: KVR_INVALID for what a person must mend, KVR_SYSTEM where a
 * file cannot be read. Beyond what GnuTLS checks: the certificate leads to the CA, is valid now,
 * is not revoked, and names a program. */
KVR_MUST_CHECK kvr_status kvr_credentials_open(const struct kvr_tls_config *config,
                                               struct kvr_credentials **ret_credentials,
                                               struct kvr_error *error);
/* Sessions may outlive it. NULL is fine. */
void kvr_credentials_close(struct kvr_credentials *credentials);

typedef enum kvr_credentials_news {
    KVR_CREDENTIALS_SAME,
    KVR_CREDENTIALS_CHANGED, /* new sessions use them; older ones are to be checked against them */
    KVR_CREDENTIALS_BAD,     /* the files cannot be used, and those before stay: see the error */
} kvr_credentials_news;

/* Once a second. Looks whether a file is another (device, inode, size, time), and reads all when
 * they have been alike for one look: a renewal may replace several one after the other. */
kvr_credentials_news kvr_credentials_look(struct kvr_credentials *credentials,
                                          struct kvr_error *error);
/* SIGHUP: reads all now. */
kvr_credentials_news kvr_credentials_reload(struct kvr_credentials *credentials,
                                            struct kvr_error *error);

const struct kvr_identity *kvr_credentials_identity(const struct kvr_credentials *credentials);
/* When the certificate ends, in seconds of 1970; and what it lives in all. */
int64_t kvr_credentials_expiry(const struct kvr_credentials *credentials);
/* True once for each certificate: a third of its life is left, or 7 days if that is less, and no
 * newer one has come. */
bool kvr_credentials_aging(struct kvr_credentials *credentials, int64_t now);

/* ---- for tls_stream.c ---- */

struct kvr_generation *kvr_generation_hold(struct kvr_credentials *credentials); /* the newest */
void kvr_generation_release(struct kvr_generation *generation);                  /* NULL is fine */
gnutls_certificate_credentials_t kvr_generation_x509(const struct kvr_generation *generation);
const struct kvr_identity *kvr_generation_identity(const struct kvr_generation *generation);

/* The certificates that the other side of a session showed, its own first; any more are left out.
 * Returns how many. */
unsigned kvr_chain_shown(gnutls_session_t session,
                         gnutls_x509_crt_t ret_chain[KVR_CREDENTIALS_CHAIN_MAX]);
void kvr_chain_free(gnutls_x509_crt_t *chain, unsigned count);

/* Judges the certificates that the other side showed, its own first: CA, time, revocation, purpose
 * (TLS server or client), identity, fleet, and that the role is one of `roles` (bits 1 << role).
 * KVR_TLS_REFUSAL_END: fine, *ret_identity is filled; else the error says why. */
kvr_tls_refusal kvr_generation_judge(const struct kvr_generation *generation,
                                     gnutls_x509_crt_t *chain, unsigned count, bool is_server,
                                     uint32_t roles, struct kvr_identity *ret_identity,
                                     struct kvr_error *error);

#endif
