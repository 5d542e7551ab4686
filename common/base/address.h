/* Where something listens: "host:port", "10.0.0.7:18900", "[::1]:18900". The host is an IPv4 or
 * IPv6 literal or a name; the caller that connects resolves names. Plain value. */
#ifndef KVR_BASE_ADDRESS_H
#define KVR_BASE_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/status.h"

#define KVR_HOST_BYTES         256 /* a DNS name has at most 253 characters */
#define KVR_ADDRESS_TEXT_BYTES 272 /* brackets, colon, port and NUL added */

/* Default ports, also of an address without a port. */
#define KVR_SCHEDULER_PORT     9470
#define KVR_PREFILL_AGENT_PORT 9480

struct kvr_address {
    char host[KVR_HOST_BYTES]; /* without brackets */
    uint16_t port;             /* 0: chosen by the system when listening */
};

/* default_port: used when the text has none; negative: then the text must have one. Refuses, with a
 * sentence in *error (may be NULL), what cannot be a host or a port. */
KVR_MUST_CHECK kvr_status kvr_address_parse(const char *text, int default_port,
                                            struct kvr_error *error,
                                            struct kvr_address *ret_address);
/* Writes what kvr_address_parse() reads; returns text. */
char *kvr_address_print(const struct kvr_address *address, char text[KVR_ADDRESS_TEXT_BYTES]);

/* 127.0.0.0/8, ::1, their mapped form and the name localhost: reachable from this host only. */
bool kvr_address_is_loopback(const struct kvr_address *address);

/* A number for the network of "host:port", as far as one owner has it: of an IPv4 address all bits,
 * of an IPv6 address the first 64. Never 0. */
uint64_t kvr_address_network(const char *text);

/* KVR_UNSUPPORTED for a name: that must be resolved first. */
KVR_MUST_CHECK kvr_status kvr_address_to_socket(const struct kvr_address *address,
                                                struct sockaddr_storage *ret_socket,
                                                socklen_t *ret_bytes);
/* From accept() or getsockname(); KVR_UNSUPPORTED: the family is neither IPv4 nor IPv6. */
KVR_MUST_CHECK kvr_status kvr_address_from_socket(const struct sockaddr *socket,
                                                  struct kvr_address *ret_address);

#endif
