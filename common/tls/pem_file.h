/* Files of certificates, keys and lists, read whole. No state; any thread. */
#ifndef KVR_TLS_PEM_FILE_H
#define KVR_TLS_PEM_FILE_H

#include <gnutls/gnutls.h>

#include "base/status.h"

#define KVR_PEM_FILE_BYTES (4u << 20) /* at most */

/* The whole file and a NUL behind it: gnutls_free(ret_data->data). `at` as in openat(). Does not
 * wait for a pipe. The sentence names the file. KVR_NOT_FOUND: there is none. */
KVR_MUST_CHECK kvr_status kvr_pem_file_read(int at, const char *path, gnutls_datum_t *ret_data,
                                            struct kvr_error *error);

#endif
