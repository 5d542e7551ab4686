/* The folder of a small fleet's CA: ca.pem, ca-key.pem, issued.txt, crl.pem, and of each
 * certificate NAME.pem and NAME-key.pem. One process at a time holds it. A file is there whole or
 * not at all, also after the machine lost its power. Main thread. */
#ifndef KVR_TOOLS_CERTIFICATE_FOLDER_H
#define KVR_TOOLS_CERTIFICATE_FOLDER_H

#include <stdbool.h>
#include <sys/types.h>

#include <gnutls/gnutls.h>

#include "base/status.h"

#define CERTIFICATE_MODE_PUBLIC 0644
#define CERTIFICATE_MODE_SECRET 0600

struct certificate_folder {
    const char *path; /* borrowed */
    int fd;           /* locked */
};

/* `make`: makes it, mode 0700, where it is missing. Refuses a folder that others may enter. Waits
 * for another process that holds it. */
KVR_MUST_CHECK kvr_status certificate_folder_open(const char *path, bool make,
                                                  struct certificate_folder *ret_folder,
                                                  struct kvr_error *error);
void certificate_folder_close(struct certificate_folder *folder);

bool certificate_folder_has(const struct certificate_folder *folder, const char *name);
/* The whole file and a NUL behind it: gnutls_free(ret_data->data). KVR_NOT_FOUND: there is none. */
KVR_MUST_CHECK kvr_status certificate_folder_read(const struct certificate_folder *folder,
                                                  const char *name, gnutls_datum_t *ret_data,
                                                  struct kvr_error *error);
/* Replaces the file, if there is one. */
KVR_MUST_CHECK kvr_status certificate_folder_write(const struct certificate_folder *folder,
                                                   const char *name, const gnutls_datum_t *data,
                                                   mode_t mode, struct kvr_error *error);

/* KVR_OK also when there is none. */
KVR_MUST_CHECK kvr_status certificate_folder_remove(const struct certificate_folder *folder,
                                                    const char *name, struct kvr_error *error);

/* KVR_OK where code is no error of GnuTLS; else a sentence: "`what` failed: …". */
KVR_MUST_CHECK kvr_status certificate_try(int code, const char *what, struct kvr_error *error);

#endif
