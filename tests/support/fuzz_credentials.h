/* Certificates for fuzzers of TLS: of a decode-agent, which dials, and of a prefill-agent. */
#ifndef KVR_TESTS_FUZZ_CREDENTIALS_H
#define KVR_TESTS_FUZZ_CREDENTIALS_H

#include "tls/credentials.h"

/* Made once for the process. */
struct kvr_credentials *fuzz_credentials(bool server);
/* The same certificate for a session of GnuTLS itself, which believes any other side. */
gnutls_certificate_credentials_t fuzz_raw_credentials(bool server);

#endif
