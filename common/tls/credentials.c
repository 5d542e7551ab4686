/* Files into generations. */
#include "tls/credentials.h"

#include <fcntl.h>
#include <gnutls/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file_stamp.h"
#include "tls/credentials_state.h"
#include "tls/pem_file.h"

#define AGING_SECONDS_MAX (7 * 86400)

typedef enum file_kind { CERTIFICATE, KEY, CA, CRL, FILES_END } file_kind;

static const char *const option_names[] = {"--tls-certificate", "--tls-key", "--tls-ca",
                                           "--tls-crl"};

struct kvr_credentials {
    struct kvr_tls_config config;
    struct kvr_generation *newest;
    struct kvr_file_stamp seen[FILES_END]; /* at the last look */
    bool due;                              /* a file has changed since the last reading */
    bool aging_said;                       /* of the newest */
};

/* ---- files ---- */

static const char *path_of(const struct kvr_tls_config *config, file_kind kind)
{
    const char *paths[] = {config->certificate, config->key, config->ca, config->crl};

    return paths[kind];
}

/* For gnutls_free. */
static kvr_status file_read(const struct kvr_tls_config *config, file_kind kind,
                            gnutls_datum_t *ret_content, struct kvr_error *error)
{
    struct kvr_error why = {0};
    kvr_status status = kvr_pem_file_read(AT_FDCWD, path_of(config, kind), ret_content, &why);

    if (status == KVR_OK)
        return KVR_OK;
    return kvr_error_set(error, status == KVR_NOT_FOUND ? KVR_SYSTEM : status, "tls", "%s: %.200s",
                         option_names[kind], why.detail);
}

static void content_free(gnutls_datum_t *content, bool secret)
{
    if (content->data != NULL && secret)
        gnutls_memset(content->data, 0, content->size);
    gnutls_free(content->data);
    content->data = NULL;
}

static kvr_status wrong(const struct kvr_tls_config *config, file_kind kind, int result,
                        struct kvr_error *error)
{
    return kvr_error_set(error, KVR_INVALID, "tls", "%s %s: %s", option_names[kind],
                         path_of(config, kind), gnutls_strerror(result));
}

static void stamps_take(const struct kvr_tls_config *config,
                        struct kvr_file_stamp ret_stamps[FILES_END])
{
    for (int kind = 0; kind < FILES_END; kind++)
        ret_stamps[kind] = kvr_file_stamp(path_of(config, (file_kind)kind));
}

static bool stamps_same(const struct kvr_file_stamp a[FILES_END],
                        const struct kvr_file_stamp b[FILES_END])
{
    int kind = 0;

    while (kind < FILES_END && kvr_file_stamp_same(&a[kind], &b[kind]))
        kind++;
    return kind == FILES_END;
}

/* ---- one generation ---- */

static kvr_status trust_read(const struct kvr_tls_config *config, struct kvr_generation *generation,
                             struct kvr_error *error)
{
    gnutls_datum_t content = {NULL, 0};
    int result;

    KVR_TRY(file_read(config, CA, &content, error));
    result = gnutls_x509_trust_list_add_trust_mem(generation->trust, &content, NULL,
                                                  GNUTLS_X509_FMT_PEM, 0, 0);
    content_free(&content, false);
    if (result == 0)
        result = GNUTLS_E_NO_CERTIFICATE_FOUND;
    if (result < 0)
        return wrong(config, CA, result, error);
    if (config->crl[0] == '\0')
        return KVR_OK;
    KVR_TRY(file_read(config, CRL, &content, error));
    /* Every list must be signed by a CA of ours, and still be valid. */
    result = gnutls_x509_trust_list_add_trust_mem(
        generation->trust, NULL, &content, GNUTLS_X509_FMT_PEM,
        GNUTLS_TL_VERIFY_CRL | GNUTLS_TL_FAIL_ON_INVALID_CRL, 0);
    content_free(&content, false);
    if (result == 0 || result == GNUTLS_E_CRL_VERIFICATION_ERROR)
        return kvr_error_set(error, KVR_INVALID, "tls",
                             "--tls-crl %s has a list that the CA of --tls-ca has not signed, or "
                             "that has expired, or it has none: make a new one",
                             config->crl);
    return result < 0 ? wrong(config, CRL, result, error) : KVR_OK;
}

static kvr_status key_read(const struct kvr_tls_config *config, struct kvr_generation *generation,
                           const gnutls_datum_t *certificate, struct kvr_error *error)
{
    gnutls_datum_t key = {NULL, 0};
    int result;

    KVR_TRY(file_read(config, KEY, &key, error));
    result = gnutls_certificate_set_x509_key_mem2(generation->x509, certificate, &key,
                                                  GNUTLS_X509_FMT_PEM, NULL, 0);
    content_free(&key, true);
    if (result == GNUTLS_E_CERTIFICATE_KEY_MISMATCH)
        return kvr_error_set(error, KVR_INVALID, "tls", "--tls-key %s is not the key of %s",
                             config->key, config->certificate);
    return result < 0 ? wrong(config, KEY, result, error) : KVR_OK;
}

/* The certificate itself: whether others will believe it. */
static kvr_status certificate_check(const struct kvr_tls_config *config,
                                    const struct kvr_generation *before,
                                    struct kvr_generation *generation, gnutls_x509_crt_t *chain,
                                    unsigned count, struct kvr_error *error)
{
    const char *path = config->certificate;
    size_t bytes = sizeof(generation->print);
    struct kvr_error why = {0};
    kvr_tls_refusal refusal;
    int result =
        gnutls_x509_crt_get_fingerprint(chain[0], GNUTLS_DIG_SHA256, generation->print, &bytes);

    if (result < 0)
        return wrong(config, CERTIFICATE, result, error);
    generation->activation = gnutls_x509_crt_get_activation_time(chain[0]);
    generation->expiry = gnutls_x509_crt_get_expiration_time(chain[0]);
    if (kvr_certificate_identity(chain[0], generation->pattern, &generation->identity, &why) !=
        KVR_OK)
        return kvr_error_set(error, KVR_INVALID, "tls", "--tls-certificate %.80s: %.150s", path,
                             why.detail);
    if (before != NULL && !kvr_identity_same(&before->identity, &generation->identity))
        return kvr_error_set(error, KVR_INVALID, "tls",
                             "--tls-certificate %.80s names another program: %s %.63s, not %.63s",
                             path, kvr_identity_role_name(generation->identity.role),
                             generation->identity.name, before->identity.name);
    refusal = kvr_chain_verify(generation->trust, chain, count, NULL, &why);
    /* The same certificate as before may have been revoked since: the list of revoked ones holds
     * for others all the same. */
    if (refusal == KVR_TLS_REFUSAL_END ||
        (before != NULL && memcmp(before->print, generation->print, sizeof(before->print)) == 0 &&
         (refusal == KVR_TLS_REVOKED || refusal == KVR_TLS_EXPIRED)))
        return KVR_OK;
    return kvr_error_set(error, KVR_INVALID, "tls",
                         "--tls-certificate %.80s cannot be used: %.120s", path, why.detail);
}

static kvr_status chain_read(const struct kvr_tls_config *config,
                             const struct kvr_generation *before, struct kvr_generation *generation,
                             const gnutls_datum_t *content, struct kvr_error *error)
{
    gnutls_x509_crt_t chain[KVR_CREDENTIALS_CHAIN_MAX];
    unsigned count = KVR_CREDENTIALS_CHAIN_MAX;
    int result = gnutls_x509_crt_list_import(chain, &count, content, GNUTLS_X509_FMT_PEM,
                                             GNUTLS_X509_CRT_LIST_IMPORT_FAIL_IF_EXCEED);
    kvr_status status;

    if (result < 0)
        return wrong(config, CERTIFICATE, result, error);
    status = key_read(config, generation, content, error);
    if (status == KVR_OK)
        status = certificate_check(config, before, generation, chain, count, error);
    kvr_chain_free(chain, count);
    return status;
}

static kvr_status generation_read(const struct kvr_tls_config *config,
                                  const struct kvr_generation *before,
                                  struct kvr_generation **ret_generation, struct kvr_error *error)
{
    struct kvr_generation *generation = calloc(1, sizeof(*generation));
    gnutls_datum_t content = {NULL, 0};
    kvr_status status;

    if (generation == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "tls", "no memory for certificates");
    generation->holds = 1;
    snprintf(generation->pattern, sizeof(generation->pattern), "%s",
             config->identity[0] != '\0' ? config->identity : KVR_IDENTITY_PATTERN);
    if (gnutls_certificate_allocate_credentials(&generation->x509) < 0 ||
        gnutls_x509_trust_list_init(&generation->trust, 0) < 0) {
        kvr_generation_release(generation);
        return kvr_error_set(error, KVR_NO_MEMORY, "tls", "no memory for certificates");
    }
    status = trust_read(config, generation, error);
    if (status == KVR_OK)
        status = file_read(config, CERTIFICATE, &content, error);
    if (status == KVR_OK)
        status = chain_read(config, before, generation, &content, error);
    content_free(&content, false);
    if (status == KVR_OK)
        *ret_generation = generation;
    else
        kvr_generation_release(generation);
    return status;
}

struct kvr_generation *kvr_generation_hold(struct kvr_credentials *credentials)
{
    credentials->newest->holds++;
    return credentials->newest;
}

void kvr_generation_release(struct kvr_generation *generation)
{
    if (generation == NULL || --generation->holds > 0)
        return;
    if (generation->x509 != NULL)
        gnutls_certificate_free_credentials(generation->x509);
    if (generation->trust != NULL)
        gnutls_x509_trust_list_deinit(generation->trust, 1);
    free(generation);
}

gnutls_certificate_credentials_t kvr_generation_x509(const struct kvr_generation *generation)
{
    return generation->x509;
}

const struct kvr_identity *kvr_generation_identity(const struct kvr_generation *generation)
{
    return &generation->identity;
}

/* ---- from one to the next ---- */

kvr_status kvr_credentials_open(const struct kvr_tls_config *config,
                                struct kvr_credentials **ret_credentials, struct kvr_error *error)
{
    struct kvr_credentials *credentials = calloc(1, sizeof(*credentials));
    kvr_status status;

    if (credentials == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "tls", "no memory for certificates");
    credentials->config = *config;
    stamps_take(config, credentials->seen);
    status =
        config->identity[0] != '\0' ? kvr_identity_pattern_check(config->identity, error) : KVR_OK;
    if (status == KVR_OK)
        status = generation_read(config, NULL, &credentials->newest, error);
    if (status != KVR_OK) {
        free(credentials);
        return status;
    }
    *ret_credentials = credentials;
    return KVR_OK;
}

void kvr_credentials_close(struct kvr_credentials *credentials)
{
    if (credentials == NULL)
        return;
    kvr_generation_release(credentials->newest);
    free(credentials);
}

kvr_credentials_news kvr_credentials_reload(struct kvr_credentials *credentials,
                                            struct kvr_error *error)
{
    struct kvr_generation *generation;

    stamps_take(&credentials->config, credentials->seen);
    credentials->due = false;
    if (generation_read(&credentials->config, credentials->newest, &generation, error) != KVR_OK)
        return KVR_CREDENTIALS_BAD;
    if (memcmp(generation->print, credentials->newest->print, sizeof(generation->print)) != 0)
        credentials->aging_said = false;
    kvr_generation_release(credentials->newest);
    credentials->newest = generation;
    return KVR_CREDENTIALS_CHANGED;
}

kvr_credentials_news kvr_credentials_look(struct kvr_credentials *credentials,
                                          struct kvr_error *error)
{
    struct kvr_file_stamp now[FILES_END];

    stamps_take(&credentials->config, now);
    if (!stamps_same(now, credentials->seen)) {
        memcpy(credentials->seen, now, sizeof(now));
        credentials->due = true;
        return KVR_CREDENTIALS_SAME;
    }
    if (!credentials->due)
        return KVR_CREDENTIALS_SAME;
    return kvr_credentials_reload(credentials, error);
}

/* ---- facts ---- */

const struct kvr_identity *kvr_credentials_identity(const struct kvr_credentials *credentials)
{
    return &credentials->newest->identity;
}

int64_t kvr_credentials_expiry(const struct kvr_credentials *credentials)
{
    return credentials->newest->expiry;
}

bool kvr_credentials_aging(struct kvr_credentials *credentials, int64_t now)
{
    const struct kvr_generation *newest = credentials->newest;
    int64_t third = (newest->expiry - newest->activation) / 3;

    if (third > AGING_SECONDS_MAX)
        third = AGING_SECONDS_MAX;
    if (credentials->aging_said || now < newest->expiry - third)
        return false;
    credentials->aging_said = true;
    return true;
}
