/* Whether certificates may be believed, and which program they name. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "tls/credentials_state.h"

static const char *const refusal_texts[] = {KVR_TLS_REFUSAL_LIST(KVR_TEXT)};

const char *kvr_tls_refusal_text(kvr_tls_refusal refusal)
{
    return refusal < KVR_TLS_REFUSAL_END ? refusal_texts[refusal] : "fine";
}

static kvr_tls_refusal refuse(struct kvr_error *error, kvr_tls_refusal refusal)
{
    kvr_error_set(error, KVR_REFUSED, "tls", "%s", kvr_tls_refusal_text(refusal));
    return refusal;
}

static kvr_tls_refusal expired(gnutls_x509_crt_t certificate, unsigned problems,
                               struct kvr_error *error)
{
    time_t at = (problems & GNUTLS_CERT_NOT_ACTIVATED) != 0
                    ? gnutls_x509_crt_get_activation_time(certificate)
                    : gnutls_x509_crt_get_expiration_time(certificate);
    char text[KVR_RFC3339_BYTES];

    kvr_clock_rfc3339_seconds(at, text);
    if ((problems & GNUTLS_CERT_NOT_ACTIVATED) != 0)
        kvr_error_set(error, KVR_REFUSED, "tls", "its certificate is not valid before %s", text);
    else
        kvr_error_set(error, KVR_REFUSED, "tls", "its certificate expired at %s", text);
    return KVR_TLS_EXPIRED;
}

unsigned kvr_chain_shown(gnutls_session_t session,
                         gnutls_x509_crt_t ret_chain[KVR_CREDENTIALS_CHAIN_MAX])
{
    unsigned shown = 0, count = 0;
    const gnutls_datum_t *list = gnutls_certificate_get_peers(session, &shown);

    for (; list != NULL && count < shown && count < KVR_CREDENTIALS_CHAIN_MAX; count++) {
        if (gnutls_x509_crt_init(&ret_chain[count]) < 0)
            break;
        if (gnutls_x509_crt_import(ret_chain[count], &list[count], GNUTLS_X509_FMT_DER) < 0) {
            gnutls_x509_crt_deinit(ret_chain[count]);
            break;
        }
    }
    return count;
}

void kvr_chain_free(gnutls_x509_crt_t *chain, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        gnutls_x509_crt_deinit(chain[i]);
}

kvr_tls_refusal kvr_chain_verify(gnutls_x509_trust_list_t trust, gnutls_x509_crt_t *chain,
                                 unsigned count, const char *purpose, struct kvr_error *error)
{
    gnutls_typed_vdata_st data = {0};
    unsigned problems = 0;
    int result;

    data.type = GNUTLS_DT_KEY_PURPOSE_OID;
    data.data = (unsigned char *)(uintptr_t)purpose;
    result = gnutls_x509_trust_list_verify_crt2(trust, chain, count, &data, purpose != NULL, 0,
                                                &problems, NULL);
    if (result < 0) {
        kvr_error_set(error, KVR_REFUSED, "tls", "its certificate cannot be verified: %s",
                      gnutls_strerror(result));
        return KVR_TLS_UNKNOWN_CA;
    }
    if ((problems & GNUTLS_CERT_REVOKED) != 0)
        return refuse(error, KVR_TLS_REVOKED);
    if ((problems & GNUTLS_CERT_SIGNER_NOT_FOUND) != 0)
        return refuse(error, KVR_TLS_UNKNOWN_CA);
    if ((problems & (GNUTLS_CERT_EXPIRED | GNUTLS_CERT_NOT_ACTIVATED)) != 0)
        return expired(chain[0], problems, error);
    if ((problems & GNUTLS_CERT_PURPOSE_MISMATCH) != 0)
        return refuse(error, KVR_TLS_PURPOSE);
    return problems == 0 ? KVR_TLS_REFUSAL_END : refuse(error, KVR_TLS_UNKNOWN_CA);
}

/* Bounded: a certificate that the CA has signed may still be anything. */
static kvr_status tenants_read(gnutls_x509_crt_t certificate, struct kvr_identity_tenants *tenants,
                               struct kvr_error *error)
{
    for (unsigned i = 0;; i++) {
        char name[KVR_IDENTITY_URI_BYTES];
        size_t bytes = sizeof(name);
        int result = gnutls_x509_crt_get_dn_by_oid(
            certificate, GNUTLS_OID_X520_ORGANIZATIONAL_UNIT_NAME, i, 0, name, &bytes);

        if (result == GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE)
            return KVR_OK;
        if (result < 0)
            return kvr_error_set(error, KVR_INVALID, "tls",
                                 "organizational unit %u of the certificate's subject, which names "
                                 "a tenant, cannot be read: %s",
                                 i + 1, gnutls_strerror(result));
        KVR_TRY(kvr_identity_tenant_add(tenants, name, bytes, error));
    }
}

static kvr_status uri_read(gnutls_x509_crt_t certificate, const char *pattern,
                           struct kvr_identity *ret_identity, struct kvr_error *error)
{
    char uri[KVR_IDENTITY_URI_BYTES];

    for (unsigned i = 0;; i++) {
        size_t bytes = sizeof(uri);
        unsigned kind = 0;
        int result =
            gnutls_x509_crt_get_subject_alt_name2(certificate, i, uri, &bytes, &kind, NULL);
        kvr_status status;

        if (result == GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE)
            return kvr_error_set(error, KVR_NOT_FOUND, "tls",
                                 "its certificate names no program: it has no URI %s", pattern);
        if (result == GNUTLS_E_SHORT_MEMORY_BUFFER)
            continue; /* longer than any of ours */
        if (result < 0)
            return kvr_error_set(error, KVR_NOT_FOUND, "tls",
                                 "its certificate's alternative names cannot be read: %s",
                                 gnutls_strerror(result));
        if (kind != GNUTLS_SAN_URI)
            continue;
        status = kvr_identity_parse(pattern, uri, bytes, ret_identity, error);
        if (status != KVR_NOT_FOUND)
            return status;
    }
}

kvr_status kvr_certificate_identity(gnutls_x509_crt_t certificate, const char *pattern,
                                    struct kvr_identity *ret_identity, struct kvr_error *error)
{
    KVR_TRY(uri_read(certificate, pattern, ret_identity, error));
    return tenants_read(certificate, &ret_identity->tenants, error);
}

static kvr_tls_refusal role_refuse(const struct kvr_identity *identity, uint32_t roles,
                                   struct kvr_error *error)
{
    char allowed[64] = "";

    for (int role = 0; role < KVR_IDENTITY_ROLE_END; role++) {
        size_t used = strlen(allowed);

        if ((roles & 1u << role) != 0)
            snprintf(allowed + used, sizeof(allowed) - used, "%s%s", used > 0 ? " or " : "",
                     kvr_identity_role_name((kvr_identity_role)role));
    }
    kvr_error_set(error, KVR_REFUSED, "tls", "its certificate has the role %s, here only %s may",
                  kvr_identity_role_name(identity->role), allowed);
    return KVR_TLS_ROLE;
}

kvr_tls_refusal kvr_generation_judge(const struct kvr_generation *generation,
                                     gnutls_x509_crt_t *chain, unsigned count, bool is_server,
                                     uint32_t roles, struct kvr_identity *ret_identity,
                                     struct kvr_error *error)
{
    const char *purpose = is_server ? GNUTLS_KP_TLS_WWW_SERVER : GNUTLS_KP_TLS_WWW_CLIENT;
    struct kvr_identity identity;
    kvr_tls_refusal refusal;

    if (count == 0)
        return refuse(error, KVR_TLS_NO_CERTIFICATE);
    refusal = kvr_chain_verify(generation->trust, chain, count, purpose, error);
    if (refusal != KVR_TLS_REFUSAL_END)
        return refusal;
    if (kvr_certificate_identity(chain[0], generation->pattern, &identity, error) != KVR_OK)
        return KVR_TLS_NO_IDENTITY;
    if (strcmp(identity.fleet, generation->identity.fleet) != 0) {
        kvr_error_set(error, KVR_REFUSED, "tls", "its certificate is of the fleet %.63s, not of %s",
                      identity.fleet, generation->identity.fleet);
        return KVR_TLS_FLEET;
    }
    if ((roles & 1u << identity.role) == 0)
        return role_refuse(&identity, roles, error);
    *ret_identity = identity;
    return KVR_TLS_REFUSAL_END;
}
