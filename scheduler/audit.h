/* One entry of the audit log: an action, or a sign-in or sign-out, that was done or refused.
 *
 * An order's entry is committed together with the order. Each is also a line of the program's log.
 * Plain value. */
#ifndef KVR_SCHEDULER_AUDIT_H
#define KVR_SCHEDULER_AUDIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/address.h"
#include "base/limits.h"
#include "http/access.h"

struct audit_entry {
    char action[24];                /* "abandon", "renew", "sign_in", "sign_out"; "": no entry */
    char actor[ACCESS_NAME_BYTES];  /* as struct access_actor; "": not known */
    char via[16];                   /* "token", "session", "certificate", "open", or "" */
    char object[KVR_REQUEST_BYTES]; /* the request, or "" */
    char from[KVR_ADDRESS_TEXT_BYTES];
    char outcome[24]; /* "done", or the name of a refusal or of a status */
    char detail[KVR_DETAIL_BYTES];
};

/* As the store gives it back. */
struct stored_audit {
    int64_t id, at_ns;
    const char *action, *actor, *via, *object, *from, *outcome,
        *detail; /* borrowed for the visit */
};

/* For a reader of the log, in the order of the commits. */
void audit_log(const struct audit_entry *entry, bool stored);

#endif
