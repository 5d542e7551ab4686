#include "tls/tls_options.h"

#include <stdio.h>
#include <string.h>

#define ROW(called, kind, field, ...)                                                              \
    {                                                                                              \
        .section = "tls", .name = (called), KVR_OPTION_##kind(struct kvr_tls_config, field),       \
        __VA_ARGS__                                                                                \
    }
#define CERTIFICATE                                                                                \
    ROW("tls-certificate", STRING, certificate, .value = "FILE",                                   \
        .help = "Certificate that this program shows, in PEM; behind it those that lead to the "   \
                "CA, if any. It names this program by a URI, kvrail://FLEET/ROLE/NAME.")
#define KEY                                                                                        \
    ROW("tls-key", STRING, key, .value = "FILE",                                                   \
        .help = "The private key of that certificate, in PEM.")
#define CA                                                                                         \
    ROW("tls-ca", STRING, ca, .value = "FILE",                                                     \
        .help = "Certificates of the CA, in PEM. The other side must show a certificate that "     \
                "leads to one of these.")

static const struct kvr_option rows[] = {
    CERTIFICATE,
    KEY,
    CA,
    ROW("tls-crl", STRING, crl, .value = "FILE",
        .help = "Lists of certificates that the CA has revoked (CRL), in PEM."),
    ROW("tls-identity", STRING, identity, .value = "PATTERN",
        .help = "How certificates name programs, if not as kvrail://{fleet}/{role}/{name}: for "
                "SPIFFE, spiffe://example.org/kvrail/{role}/{name}."),
    ROW("insecure", BOOL, insecure,
        .help = "Run without certificates: nothing is encrypted, and any program that reaches this "
                "one is believed, also on this host. Not beside --tls-certificate."),
};
const struct kvr_option_table kvr_tls_options = {rows, sizeof(rows) / sizeof(rows[0])};

static const struct kvr_option client_rows[] = {CERTIFICATE, KEY, CA};
const struct kvr_option_table kvr_tls_client_options = {client_rows, sizeof(client_rows) /
                                                                         sizeof(client_rows[0])};

static kvr_status together(const struct kvr_tls_config *config, bool ca_alone,
                           struct kvr_error *error)
{
    const struct {
        const char *option, *value;
    } three[] = {{"--tls-certificate", config->certificate},
                 {"--tls-key", config->key},
                 {"--tls-ca", config->ca}};
    char missing[64] = "", given[64] = "";

    for (size_t i = 0; i < 3; i++) {
        char *list = three[i].value[0] == '\0' ? missing : given;
        size_t used = strlen(list);

        snprintf(list + used, sizeof(missing) - used, "%s%s", used > 0 ? " and " : "",
                 three[i].option);
    }
    if (missing[0] == '\0' || given[0] == '\0')
        return KVR_OK;
    if (ca_alone && config->certificate[0] == '\0' && config->key[0] == '\0')
        return KVR_OK;
    return kvr_error_set(error, KVR_INVALID, "tls", "%s without %s: give all three, or none", given,
                         missing);
}

kvr_status kvr_tls_client_check(const struct kvr_tls_config *config, struct kvr_error *error)
{
    return together(config, true, error);
}

kvr_status kvr_tls_check(const struct kvr_tls_config *config, struct kvr_error *error)
{
    const char *lone = config->crl[0] != '\0'        ? "--tls-crl"
                       : config->identity[0] != '\0' ? "--tls-identity"
                                                     : NULL;

    KVR_TRY(together(config, false, error));
    if (kvr_tls_given(config) && config->insecure)
        return kvr_error_set(error, KVR_INVALID, "tls",
                             "--insecure and --tls-certificate contradict each other: leave one "
                             "out (--insecure is also KVRAIL_INSECURE, and `insecure` in the INI "
                             "file)");
    if (kvr_tls_given(config))
        return KVR_OK;
    if (lone != NULL)
        return kvr_error_set(error, KVR_INVALID, "tls",
                             "%s without certificates: give --tls-certificate, --tls-key and "
                             "--tls-ca",
                             lone);
    if (config->insecure)
        return KVR_OK;
    return kvr_error_set(error, KVR_INVALID, "tls",
                         "without certificates any program that reaches this one is believed: give "
                         "--tls-certificate, --tls-key and --tls-ca (`kvrail certificates` makes "
                         "them), or say --insecure");
}
