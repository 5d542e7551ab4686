/* What a certificate says, for people. Main thread. */
#ifndef KVR_TOOLS_CERTIFICATE_SHOW_H
#define KVR_TOOLS_CERTIFICATE_SHOW_H

#include <stdbool.h>
#include <stdio.h>
#include <time.h>

#include <gnutls/gnutls.h>

#include "base/status.h"

/* Prints every certificate of a PEM text. *ret_expired: at `now` one of them has expired. */
KVR_MUST_CHECK kvr_status certificate_show(const gnutls_datum_t *text, time_t now, FILE *out,
                                           bool *ret_expired, struct kvr_error *error);

#endif
