/* crl.pem in the fleet's folder: the list of certificates that are not believed any more. Main
 * thread. */
#ifndef KVR_TOOLS_CERTIFICATE_REVOKE_H
#define KVR_TOOLS_CERTIFICATE_REVOKE_H

#include <stdint.h>

#include "tools/certificates/authority.h"

/* Puts every certificate that was issued to this name and has not expired on the list, keeps those
 * that are on it, and raises the list's number. *ret_revoked: how many are new on it; 0 when all
 * were there, and then the file stays as it was. KVR_NOT_FOUND: none was issued to this name. */
KVR_MUST_CHECK kvr_status certificate_revoke(const struct certificate_folder *folder,
                                             const struct authority *authority, const char *name,
                                             unsigned *ret_revoked, uint64_t *ret_number,
                                             struct kvr_error *error);

#endif
