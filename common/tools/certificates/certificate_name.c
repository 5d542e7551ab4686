#include "tools/certificates/certificate_name.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/names.h"
#include "base/plain_name.h"

#define LABEL_CHARACTERS 63  /* of a DNS name */
#define HOST_CHARACTERS  253 /* all its labels, with the dots between them */

static const char *const role_names[] = {CERTIFICATE_ROLE_LIST(KVR_NAME)};

const char *certificate_role_name(certificate_role role)
{
    return role_names[role];
}

bool certificate_role_listens(certificate_role role)
{
    static const bool listens[] = {
#define X(symbol, name, listens) [symbol] = (listens),
        CERTIFICATE_ROLE_LIST(X)
#undef X
    };

    return listens[role];
}

kvr_status certificate_role_find(const char *text, certificate_role *ret_role,
                                 struct kvr_error *error)
{
    int found = kvr_name_find(role_names, CERTIFICATE_ROLES, text);

    if (found == CERTIFICATE_ROLES)
        return kvr_error_set(error, KVR_INVALID, "certificates",
                             "the role is '%.64s', but must be prefill, decode, scheduler or "
                             "client",
                             text);
    *ret_role = (certificate_role)found;
    return KVR_OK;
}

static bool alphanumeric(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

kvr_status certificate_name_check(const char *what, const char *name, struct kvr_error *error)
{
    if (kvr_plain_name(name, strlen(name)))
        return KVR_OK;
    return kvr_error_set(error, KVR_INVALID, "certificates",
                         "%s is '%.64s', but must have " KVR_PLAIN_NAME_FORM, what, name);
}

kvr_status certificate_subject_check(const char *name, struct kvr_error *error)
{
    size_t length = strlen(name);

    KVR_TRY(certificate_name_check("the name", name, error));
    if (strcmp(name, "ca") == 0 || strcmp(name, "crl") == 0 ||
        (length >= 4 && strcmp(name + length - 4, "-key") == 0))
        return kvr_error_set(error, KVR_INVALID, "certificates",
                             "the name is '%s', but %s.pem is another file of the folder: choose "
                             "another name",
                             name, name);
    return KVR_OK;
}

/* Letters, digits and hyphens, with neither end a hyphen. */
static bool label_fine(const char *label, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (!alphanumeric(label[i]) && label[i] != '-')
            return false;
    }
    return length > 0 && length <= LABEL_CHARACTERS && label[0] != '-' && label[length - 1] != '-';
}

static bool dns_name_fine(const char *host)
{
    size_t length = 0;

    if (strlen(host) > HOST_CHARACTERS)
        return false;
    for (;; host += length + 1) {
        length = strcspn(host, ".");
        if (!label_fine(host, length))
            return false;
        if (host[length] == '\0')
            return strspn(host, "0123456789") != length; /* 10.0.0 and 300.1.1.1 are no names */
    }
}

kvr_status certificate_host_check(const char *host, unsigned char ret_address[16],
                                  unsigned *ret_bytes, struct kvr_error *error)
{
    *ret_bytes = 0;
    if (inet_pton(AF_INET, host, ret_address) == 1)
        *ret_bytes = 4;
    else if (inet_pton(AF_INET6, host, ret_address) == 1)
        *ret_bytes = 16;
    else if (!dns_name_fine(host))
        return kvr_error_set(error, KVR_INVALID, "certificates",
                             "--host is '%.100s', but must be a DNS name or an IPv4 or IPv6 "
                             "address, without a port",
                             host);
    return KVR_OK;
}

char *certificate_uri(const char *fleet, certificate_role role, const char *name,
                      char ret_uri[CERTIFICATE_URI_BYTES])
{
    snprintf(ret_uri, CERTIFICATE_URI_BYTES, "kvrail://%s/%s/%s", fleet, role_names[role], name);
    return ret_uri;
}
