#include "tools/certificates/certificate_show.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <string.h>

#include <gnutls/x509.h>

#include "base/text.h"

#define TEXT_BYTES      1024
#define DAY_SECONDS     86400
#define HOUR_SECONDS    3600
#define CERTIFICATE_MAX 64 /* of one file */

/* Bytes from outside: whatever cannot be printed is a question mark. */
static void row(FILE *out, const char *label, const char *text)
{
    char shown[TEXT_BYTES];

    kvr_text_show(text, sizeof(shown), shown);
    fprintf(out, "%-12s %s\n", label, shown);
}

/* Returns whether there was one. */
static bool show_names(FILE *out, gnutls_x509_crt_t certificate, gnutls_x509_subject_alt_name_t of,
                       const char *label)
{
    char text[TEXT_BYTES], address[INET6_ADDRSTRLEN];
    size_t bytes = sizeof(text) - 1;
    bool shown = false;
    int kind;

    for (unsigned i = 0;
         (kind = gnutls_x509_crt_get_subject_alt_name(certificate, i, text, &bytes, NULL)) !=
         GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE;
         i++, bytes = sizeof(text) - 1) {
        if (kind != (int)of)
            continue;
        shown = true;
        text[bytes] = '\0';
        if (of != GNUTLS_SAN_IPADDRESS)
            row(out, label, text);
        else if ((bytes == 4 || bytes == 16) &&
                 inet_ntop(bytes == 4 ? AF_INET : AF_INET6, text, address, sizeof(address)))
            row(out, label, address);
        else
            row(out, label, "an address of an unknown kind");
    }
    return shown;
}

static void show_tenants(FILE *out, gnutls_x509_crt_t certificate)
{
    char text[TEXT_BYTES];
    size_t bytes = sizeof(text) - 1;

    for (unsigned i = 0;
         gnutls_x509_crt_get_dn_by_oid(certificate, GNUTLS_OID_X520_ORGANIZATIONAL_UNIT_NAME, i, 0,
                                       text, &bytes) == 0;
         i++, bytes = sizeof(text) - 1)
        row(out, "tenant", text);
}

static void print_time(FILE *out, const char *label, time_t when)
{
    struct tm utc;
    char text[64];

    if (gmtime_r(&when, &utc) == NULL ||
        strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", &utc) == 0)
        snprintf(text, sizeof(text), "an unknown time");
    fprintf(out, "%-12s %s", label, text);
}

static bool show_life(FILE *out, gnutls_x509_crt_t certificate, time_t now)
{
    time_t begin = gnutls_x509_crt_get_activation_time(certificate);
    time_t end = gnutls_x509_crt_get_expiration_time(certificate);
    int64_t left = (int64_t)(end - now);

    print_time(out, "valid from", begin);
    fprintf(out, "%s\n", begin > now ? ": not valid yet" : "");
    print_time(out, "valid until", end);
    if (left <= 0)
        fprintf(out, ": EXPIRED\n");
    else if (left < DAY_SECONDS)
        fprintf(out, ": %" PRId64 " hours left\n", left / HOUR_SECONDS);
    else
        fprintf(out, ": %" PRId64 " days left\n", left / DAY_SECONDS);
    return left <= 0;
}

static void show_fingerprint(FILE *out, gnutls_x509_crt_t certificate)
{
    unsigned char hash[32];
    size_t bytes = sizeof(hash);

    if (gnutls_x509_crt_get_fingerprint(certificate, GNUTLS_DIG_SHA256, hash, &bytes) != 0)
        return;
    fprintf(out, "%-12s ", "sha-256");
    for (size_t i = 0; i < bytes; i++)
        fprintf(out, "%s%02X", i > 0 ? ":" : "", hash[i]);
    fputc('\n', out);
}

static void show_issuer(FILE *out, gnutls_x509_crt_t certificate)
{
    gnutls_datum_t issuer = {0};

    if (gnutls_x509_crt_get_issuer_dn3(certificate, &issuer, 0) == 0)
        row(out, "issuer", (const char *)issuer.data);
    gnutls_free(issuer.data);
}

/* Returns whether it has expired. */
static bool show_one(FILE *out, gnutls_x509_crt_t certificate, time_t now)
{
    bool expired;

    if (!show_names(out, certificate, GNUTLS_SAN_URI, "identity"))
        row(out, "identity", "none");
    if (gnutls_x509_crt_get_ca_status(certificate, NULL) > 0)
        row(out, "kind", "CA");
    show_tenants(out, certificate);
    show_names(out, certificate, GNUTLS_SAN_DNSNAME, "host");
    show_names(out, certificate, GNUTLS_SAN_IPADDRESS, "host");
    expired = show_life(out, certificate, now);
    show_issuer(out, certificate);
    show_fingerprint(out, certificate);
    return expired;
}

kvr_status certificate_show(const gnutls_datum_t *text, time_t now, FILE *out, bool *ret_expired,
                            struct kvr_error *error)
{
    gnutls_x509_crt_t certificates[CERTIFICATE_MAX];
    unsigned count = CERTIFICATE_MAX;
    bool expired = false;
    int code = gnutls_x509_crt_list_import(certificates, &count, text, GNUTLS_X509_FMT_PEM,
                                           GNUTLS_X509_CRT_LIST_IMPORT_FAIL_IF_EXCEED);

    if (code == GNUTLS_E_NO_CERTIFICATE_FOUND || code == GNUTLS_E_BASE64_UNEXPECTED_HEADER_ERROR)
        return kvr_error_set(error, KVR_INVALID, "certificates", "it has no certificate in PEM");
    if (code < 0)
        return kvr_error_set(error, KVR_INVALID, "certificates",
                             "its certificates cannot be read: %s", gnutls_strerror(code));
    for (unsigned i = 0; i < count; i++) {
        if (i > 0)
            fputc('\n', out);
        expired = show_one(out, certificates[i], now) || expired;
        gnutls_x509_crt_deinit(certificates[i]);
    }
    *ret_expired = expired;
    return KVR_OK;
}
