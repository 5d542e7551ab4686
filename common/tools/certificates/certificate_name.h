/* What may stand in a certificate of a fleet: roles, names, hosts. A name is also a file's name and
 * a part of a URI, so that it has fewer characters than --name of an agent allows. Pure. */
#ifndef KVR_TOOLS_CERTIFICATE_NAME_H
#define KVR_TOOLS_CERTIFICATE_NAME_H

#include <stdbool.h>

#include "base/limits.h"
#include "base/status.h"

#define CERTIFICATE_URI_BYTES (3 * KVR_NAME_BYTES + 16)

/*  X(symbol, name, listens): whether others dial a program of that role. */
#define CERTIFICATE_ROLE_LIST(X)                                                                   \
    X(CERTIFICATE_PREFILL, "prefill", true)                                                        \
    X(CERTIFICATE_DECODE, "decode", true)                                                          \
    X(CERTIFICATE_SCHEDULER, "scheduler", true)                                                    \
    X(CERTIFICATE_CLIENT, "client", false)

typedef enum certificate_role {
#define X(symbol, name, listens) symbol,
    CERTIFICATE_ROLE_LIST(X)
#undef X
        CERTIFICATE_ROLES
} certificate_role;

const char *certificate_role_name(certificate_role role);
bool certificate_role_listens(certificate_role role);
/* "a scheduler", for sentences. */
KVR_MUST_CHECK kvr_status certificate_role_find(const char *text, certificate_role *ret_role,
                                                struct kvr_error *error);

/* A fleet's, a tenant's or an agent's name; `what` begins the sentence: "the fleet". */
KVR_MUST_CHECK kvr_status certificate_name_check(const char *what, const char *name,
                                                 struct kvr_error *error);
/* The name of a certificate, which is its file's too: not one of the folder's other files. */
KVR_MUST_CHECK kvr_status certificate_subject_check(const char *name, struct kvr_error *error);
/* An IPv4 or IPv6 address of *ret_bytes (4 or 16), or a DNS name, then *ret_bytes is 0. */
KVR_MUST_CHECK kvr_status certificate_host_check(const char *host, unsigned char ret_address[16],
                                                 unsigned *ret_bytes, struct kvr_error *error);

/* kvrail://FLEET/ROLE/NAME. Returns ret_uri. */
char *certificate_uri(const char *fleet, certificate_role role, const char *name,
                      char ret_uri[CERTIFICATE_URI_BYTES]);

#endif
