/* TLS 1.3 under malformed sessions: the certificate is good, and what is said within is not. */
#ifndef KVR_TESTS_GARBAGE_TLS_H
#define KVR_TESTS_GARBAGE_TLS_H

#include <sys/types.h>

#include "tests/support/garbage.h"

/* PEM files of the certificate that every session shows. False: they cannot be read. */
bool garbage_tls_load(const char *certificate, const char *key);
bool garbage_tls_loaded(void);
/* Shakes hands on the socket. False: the other side has refused, or does not answer. */
bool garbage_tls_begin(struct garbage *garbage, bool server);
void garbage_tls_end(struct garbage *garbage);
/* As send and recv with MSG_DONTWAIT; -1 with errno EAGAIN: not now. */
ssize_t garbage_tls_send(struct garbage *garbage, const void *bytes, size_t count);
ssize_t garbage_tls_receive(struct garbage *garbage, void *bytes, size_t capacity);
/* Asks for another key. */
bool garbage_tls_update(struct garbage *garbage);
/* A server gives one session ticket more. */
bool garbage_tls_ticket(struct garbage *garbage);

#endif
