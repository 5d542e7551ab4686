/* The name of a program in its certificate: a URI among the subject's alternative names.
 *
 *     kvrail://FLEET/ROLE/NAME
 *
 * A pattern stands for another form, as SPIFFE's: spiffe://example.org/kvrail/{role}/{name}. Each
 * of {fleet}, {role} and {name} stands for the whole of one part between slashes; {role} and {name}
 * must be there. Without {fleet} the fleet is what the pattern has between the first two slashes
 * and the next, example.org. A part has letters, digits and "-._~" only: what a URI needs no escape
 * for. Pure. */
#ifndef KVR_TLS_IDENTITY_H
#define KVR_TLS_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "base/names.h"
#include "base/plain_name.h"
#include "base/status.h"

#define KVR_IDENTITY_PATTERN   "kvrail://{fleet}/{role}/{name}"
#define KVR_IDENTITY_URI_BYTES 512 /* a longer URI names no program */

/* X(symbol, name in the URI, what it says) */
#define KVR_IDENTITY_ROLE_LIST(X)                                                                  \
    X(KVR_IDENTITY_PREFILL, "prefill", "a prefill-agent: decode-agents dial it")                   \
    X(KVR_IDENTITY_DECODE, "decode", "a decode-agent: it may fetch")                               \
    X(KVR_IDENTITY_SCHEDULER, "scheduler", "a scheduler: it may order")                            \
    X(KVR_IDENTITY_CLIENT, "client", "a person or a tool")

typedef enum kvr_identity_role {
    KVR_IDENTITY_ROLE_LIST(KVR_SYMBOL) KVR_IDENTITY_ROLE_END
} kvr_identity_role;

/* The tenants that it may serve: organizational units (OU) of the certificate's subject. */
struct kvr_identity_tenants {
    uint32_t count; /* 0: KVR_TENANT_DEFAULT alone */
    char names[KVR_TENANTS_MAX][KVR_NAME_BYTES];
};

struct kvr_identity {
    char fleet[KVR_NAME_BYTES];
    kvr_identity_role role;
    char name[KVR_NAME_BYTES];
    struct kvr_identity_tenants tenants;
};

const char *kvr_identity_role_name(kvr_identity_role role); /* "prefill" */
/* KVR_INVALID: {role} or {name} is missing or stands twice, or a brace stands for nothing. */
KVR_MUST_CHECK kvr_status kvr_identity_pattern_check(const char *pattern, struct kvr_error *error);
/* uri: `bytes` without a NUL. KVR_NOT_FOUND: it has another form than the pattern. KVR_INVALID: it
 * has that form, but a part is empty, too long, no role, or has characters that are not allowed. */
KVR_MUST_CHECK kvr_status kvr_identity_parse(const char *pattern, const char *uri, size_t bytes,
                                             struct kvr_identity *ret_identity,
                                             struct kvr_error *error);
/* One more tenant, of `bytes` bytes without a NUL. KVR_INVALID: it has not the form of a name, or
 * there are too many. One that is there already stays one. */
KVR_MUST_CHECK kvr_status kvr_identity_tenant_add(struct kvr_identity_tenants *tenants,
                                                  const char *name, size_t bytes,
                                                  struct kvr_error *error);
bool kvr_identity_serves(const struct kvr_identity *identity, const char *tenant);
/* The same program, whatever tenants its certificate has: a renewed one may have others. */
bool kvr_identity_same(const struct kvr_identity *a, const struct kvr_identity *b);

#endif
