#include "tests/support/fuzz_credentials.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/support/certificates.h"

static struct kvr_credentials *credentials[2];
static gnutls_certificate_credentials_t raw[2];

static void load(const char *folder, const char *name, int side)
{
    struct kvr_tls_config config = certificates_config(folder, name, "ca", NULL);
    char certificate[128], key[128];

    snprintf(certificate, sizeof(certificate), "%s/%s.pem", folder, name);
    snprintf(key, sizeof(key), "%s/%s.key", folder, name);
    if (kvr_credentials_open(&config, &credentials[side], NULL) != KVR_OK ||
        gnutls_certificate_allocate_credentials(&raw[side]) != 0 ||
        gnutls_certificate_set_x509_key_file(raw[side], certificate, key, GNUTLS_X509_FMT_PEM) < 0)
        abort();
}

static void prepare(void)
{
    char folder[] = "/tmp/kvrail-fuzz.XXXXXX";
    struct authority ca;
    char command[64];

    if (mkdtemp(folder) == NULL)
        abort();
    authority_make(&ca, folder, "ca");
    certificate_make(&ca, "decode", &(struct certificate_shape){.uri = "kvrail://f/decode/d"});
    certificate_make(&ca, "prefill", &(struct certificate_shape){.uri = "kvrail://f/prefill/p"});
    load(folder, "decode", 0);
    load(folder, "prefill", 1);
    authority_done(&ca);
    snprintf(command, sizeof(command), "rm -r %s", folder);
    if (system(command) != 0)
        abort();
}

struct kvr_credentials *fuzz_credentials(bool server)
{
    if (credentials[0] == NULL)
        prepare();
    return credentials[server];
}

gnutls_certificate_credentials_t fuzz_raw_credentials(bool server)
{
    if (credentials[0] == NULL)
        prepare();
    return raw[server];
}
