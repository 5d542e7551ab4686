/* issued.txt in the fleet's folder: every certificate that the CA has signed, so that it can be
 * revoked also when its file has been replaced. A line each, "SERIAL END NAME": the serial number
 * in hexadecimal, the end of its life in seconds since 1970, its name. Main thread. */
#ifndef KVR_TOOLS_ISSUED_H
#define KVR_TOOLS_ISSUED_H

#include <stddef.h>
#include <time.h>

#include "base/limits.h"
#include "tools/certificates/certificate_folder.h"

#define ISSUED_SERIAL_BYTES 20 /* the most that a certificate may have */

struct issued {
    unsigned char serial[ISSUED_SERIAL_BYTES];
    size_t serial_bytes;
    time_t end;
    char name[KVR_NAME_BYTES];
};

/* Adds a line. */
KVR_MUST_CHECK kvr_status issued_add(const struct certificate_folder *folder,
                                     const struct issued *issued, struct kvr_error *error);
/* Begins a new file: of a new CA. */
KVR_MUST_CHECK kvr_status issued_clear(const struct certificate_folder *folder,
                                       struct kvr_error *error);

/* Calls `each` for every line; stops with its status unless that is KVR_OK. A line that this file
 * does not explain is KVR_MALFORMED. */
typedef kvr_status issued_each(void *self, const struct issued *issued, struct kvr_error *error);
KVR_MUST_CHECK kvr_status issued_read(const struct certificate_folder *folder, issued_each *each,
                                      void *self, struct kvr_error *error);

#endif
