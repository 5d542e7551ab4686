/* Names of people's choice that also stand in files' names, URIs and metrics: of fleets, tenants,
 * agents in certificates. 1 to KVR_NAME_BYTES - 1 letters, digits, dots, hyphens and underscores,
 * the first a letter or digit. Pure. */
#ifndef KVR_BASE_PLAIN_NAME_H
#define KVR_BASE_PLAIN_NAME_H

#include <stdbool.h>
#include <stddef.h>

#include "base/limits.h"

#define KVR_PLAIN_NAME_FORM                                                                        \
    "1 to 63 letters, digits, dots, hyphens and underscores, and begin with a letter or digit"

/* The tenant of all that names none. */
#define KVR_TENANT_DEFAULT "default"

/* `bytes` bytes without a NUL. */
bool kvr_plain_name(const char *name, size_t bytes);
/* A plain name, or "": none is given. `name` has KVR_NAME_BYTES bytes. */
bool kvr_plain_name_or_none(const char *name);

#endif
