/* Certificates for the two agents that a benchmark starts, of a CA of their own: made by `kvrail
 * certificates` of this executable. */
#ifndef KVR_TOOLS_BENCH_CERTIFICATES_H
#define KVR_TOOLS_BENCH_CERTIFICATES_H

#include <stdbool.h>

/* ca.pem, and NAME.pem and NAME-key.pem of both names, in the folder. False: said on stderr. */
bool bench_certificates_make(const char *folder, const char *prefill_name, const char *decode_name);

#endif
