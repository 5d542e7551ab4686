#include "http/http_tls.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "tls/credentials.h"
#include "tls/pem_file.h"

#define JUDGE_AGAIN_NS (60 * KVR_S)
#define ALL_ROLES      ((1u << KVR_IDENTITY_ROLE_END) - 1)

struct http_tls {
    pthread_mutex_t lock; /* guards the next two */
    struct kvr_credentials *credentials;
    uint64_t generation;  /* grows when files have changed */
    gnutls_datum_t trust; /* the CA of the start, with a NUL */
};

static struct http_tls *in_use;

/* ---- open and close ---- */

kvr_status http_tls_open(const struct kvr_tls_config *config, struct http_tls **ret_tls,
                         struct kvr_error *error)
{
    struct http_tls *tls = calloc(1, sizeof(*tls));
    kvr_status status;

    if (tls == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "tls", "no memory for certificates");
    pthread_mutex_init(&tls->lock, NULL);
    status = kvr_credentials_open(config, &tls->credentials, error);
    if (status == KVR_OK)
        status = kvr_pem_file_read(AT_FDCWD, config->ca, &tls->trust, error);
    if (status != KVR_OK) {
        http_tls_close(tls);
        return status;
    }
    in_use = tls;
    *ret_tls = tls;
    return KVR_OK;
}

struct http_tls *http_tls_close(struct http_tls *tls)
{
    if (tls == NULL)
        return NULL;
    if (in_use == tls)
        in_use = NULL;
    kvr_credentials_close(tls->credentials);
    pthread_mutex_destroy(&tls->lock);
    gnutls_free(tls->trust.data);
    free(tls);
    return NULL;
}

const char *http_tls_trust(const struct http_tls *tls)
{
    return (const char *)tls->trust.data;
}

/* ---- renewal ---- */

void http_tls_look(struct http_tls *tls, bool always)
{
    char text[KVR_RFC3339_BYTES];
    struct kvr_error error = {0};
    kvr_credentials_news news;
    int64_t expiry;
    bool aging;

    pthread_mutex_lock(&tls->lock);
    news = always ? kvr_credentials_reload(tls->credentials, &error)
                  : kvr_credentials_look(tls->credentials, &error);
    if (news == KVR_CREDENTIALS_CHANGED)
        tls->generation++;
    expiry = kvr_credentials_expiry(tls->credentials);
    aging = kvr_credentials_aging(tls->credentials, (int64_t)(kvr_clock_wall() / KVR_S));
    pthread_mutex_unlock(&tls->lock);
    if (news == KVR_CREDENTIALS_CHANGED)
        kvr_log_info("the certificates are read again; the HTTP port's is valid until %s",
                     kvr_clock_rfc3339_seconds(expiry, text));
    if (news == KVR_CREDENTIALS_BAD)
        kvr_log_failure(KVR_LOG_ERROR, "the certificates stay as they were", &error);
    if (aging)
        kvr_log_warning("the HTTP port's certificate ends at %s, and no newer one has come: "
                        "renew it",
                        kvr_clock_rfc3339_seconds(expiry, text));
}

int64_t http_tls_expiry(struct http_tls *tls)
{
    int64_t expiry;

    pthread_mutex_lock(&tls->lock);
    expiry = kvr_credentials_expiry(tls->credentials);
    pthread_mutex_unlock(&tls->lock);
    return expiry;
}

/* ---- handshakes ---- */

static void free_certificates(gnutls_x509_crt_t *certificates, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        gnutls_x509_crt_deinit(certificates[i]);
    gnutls_free(certificates);
}

static int copy_chain(gnutls_certificate_credentials_t x509, gnutls_pcert_st **ret_chain,
                      unsigned *ret_count)
{
    gnutls_x509_crt_t *certificates;
    gnutls_pcert_st *chain;
    unsigned count = 0;
    int result = gnutls_certificate_get_x509_crt(x509, 0, &certificates, &count);

    if (result < 0)
        return result;
    chain = gnutls_calloc(count, sizeof(chain[0]));
    result = chain != NULL ? gnutls_pcert_import_x509_list(chain, certificates, &count, 0)
                           : GNUTLS_E_MEMORY_ERROR;
    free_certificates(certificates, count);
    if (result < 0) {
        gnutls_free(chain);
        return result;
    }
    *ret_chain = chain;
    *ret_count = count;
    return 0;
}

static int copy_key(gnutls_certificate_credentials_t x509, gnutls_privkey_t *ret_key)
{
    gnutls_x509_privkey_t key;
    gnutls_privkey_t copy;
    int result = gnutls_certificate_get_x509_key(x509, 0, &key);

    if (result < 0)
        return result;
    result = gnutls_privkey_init(&copy);
    if (result >= 0) {
        result = gnutls_privkey_import_x509(copy, key, GNUTLS_PRIVKEY_IMPORT_COPY);
        if (result < 0)
            gnutls_privkey_deinit(copy);
    }
    gnutls_x509_privkey_deinit(key);
    if (result >= 0)
        *ret_key = copy;
    return result < 0 ? result : 0;
}

static void free_chain(gnutls_pcert_st *chain, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        gnutls_pcert_deinit(&chain[i]);
    gnutls_free(chain);
}

/* Copies, which GnuTLS frees: the certificate may be renewed during the handshake. */
int http_tls_retrieve(gnutls_session_t session, const struct gnutls_cert_retr_st *info,
                      gnutls_pcert_st **ret_chain, unsigned *ret_count,
                      gnutls_ocsp_data_st **ret_ocsp, unsigned *ret_ocsp_count,
                      gnutls_privkey_t *ret_key, unsigned *ret_flags)
{
    struct http_tls *tls = in_use;
    struct kvr_generation *generation;
    gnutls_certificate_credentials_t x509;
    gnutls_pcert_st *chain = NULL;
    unsigned count = 0;
    int result;

    (void)info;
    if (tls == NULL)
        return -1;
    /* The daemon knows the CA of its start. Clients shall not choose by the name of that one. */
    gnutls_certificate_send_x509_rdn_sequence(session, 1);
    pthread_mutex_lock(&tls->lock);
    generation = kvr_generation_hold(tls->credentials);
    x509 = kvr_generation_x509(generation);
    result = copy_chain(x509, &chain, &count);
    if (result >= 0)
        result = copy_key(x509, ret_key);
    kvr_generation_release(generation);
    pthread_mutex_unlock(&tls->lock);
    if (result < 0) {
        free_chain(chain, count);
        kvr_log_warning("a handshake fails: the certificate cannot be copied: %s",
                        gnutls_strerror(result));
        return -1;
    }
    *ret_chain = chain;
    *ret_count = count;
    *ret_ocsp = NULL;
    *ret_ocsp_count = 0;
    *ret_flags = GNUTLS_CERT_RETR_DEINIT_ALL;
    return 0;
}

/* ---- clients ---- */

static void name_client(const struct kvr_identity *identity, struct access_certificate *certificate)
{
    *certificate = (struct access_certificate){
        .agent = identity->role == KVR_IDENTITY_PREFILL || identity->role == KVR_IDENTITY_DECODE,
        .client = identity->role == KVR_IDENTITY_CLIENT || identity->role == KVR_IDENTITY_SCHEDULER,
    };
    snprintf(certificate->uri, sizeof(certificate->uri), "kvrail://%s/%s/%s", identity->fleet,
             kvr_identity_role_name(identity->role), identity->name);
    snprintf(certificate->name, sizeof(certificate->name), "%s", identity->name);
}

void http_tls_judge(struct http_tls *tls, gnutls_session_t session, kvr_ns now,
                    struct http_shown *shown)
{
    gnutls_x509_crt_t chain[KVR_CREDENTIALS_CHAIN_MAX];
    struct kvr_generation *generation;
    struct kvr_identity identity;
    struct kvr_error error = {0};
    kvr_tls_refusal refused;
    unsigned count;

    pthread_mutex_lock(&tls->lock);
    if (shown->judged && shown->generation == tls->generation &&
        now - shown->judged_at < JUDGE_AGAIN_NS) {
        pthread_mutex_unlock(&tls->lock);
        return;
    }
    count = kvr_chain_shown(session, chain);
    *shown = (struct http_shown){
        .judged = true, .given = count > 0, .generation = tls->generation, .judged_at = now};
    generation = kvr_generation_hold(tls->credentials);
    refused = kvr_generation_judge(generation, chain, count, false, ALL_ROLES, &identity, &error);
    kvr_generation_release(generation);
    pthread_mutex_unlock(&tls->lock);
    kvr_chain_free(chain, count);
    shown->good = count > 0 && refused == KVR_TLS_REFUSAL_END;
    if (shown->good)
        name_client(&identity, &shown->certificate);
    else if (count > 0)
        kvr_log_warning("a client's certificate is not accepted: %s", error.detail);
}
