/* Where a scheduler is, as a person writes it: "HOST", "HOST:PORT", "http://HOST:PORT/",
 * "https://HOST:PORT". Plain value. */
#ifndef KVR_BASE_URL_H
#define KVR_BASE_URL_H

#include "base/address.h"

#define KVR_URL_BYTES (KVR_ADDRESS_TEXT_BYTES + 8)

/* https: what is meant without a scheme. The result is "http://HOST:PORT" or "https://HOST:PORT",
 * without a slash at its end. Refuses with a sentence what cannot be that: a user or a token before
 * the host, a path. */
KVR_MUST_CHECK kvr_status kvr_url_parse(const char *text, int default_port, bool https,
                                        char ret_url[KVR_URL_BYTES], struct kvr_error *error);
/* Bytes of "http://" or "https://" before a host; 0: neither. */
size_t kvr_url_scheme(const char *text);
bool kvr_url_encrypted(const char *url);
/* Its host is this host's loopback. */
bool kvr_url_is_loopback(const char *url);

#endif
