/* Asks an agent at its engine socket, without an engine: one packet, then its answers. */
#ifndef KVR_TOOLS_AGENT_ASK_H
#define KVR_TOOLS_AGENT_ASK_H

#include <jansson.h>

#include "wire/engine_message.h"

/* Connects and sends. *ret_fd is the caller's to close. Errors have the sentence. */
KVR_MUST_CHECK kvr_status agent_ask(const char *path, kvr_request_kind kind, int *ret_fd,
                                    struct kvr_error *error);

/* Waits for one packet, of at most KVR_PACKET_BYTES_MAX. KVR_TIMED_OUT, KVR_PEER_LOST. */
KVR_MUST_CHECK kvr_status agent_hear(int fd, kvr_ns timeout, uint8_t *packet, size_t *ret_bytes,
                                     struct kvr_error *error);

/* How the rails of a prefill-agent reach those of its peers, in the form of the array `pairs` of
 * /api/v1/rails/matrix; the caller owns it. NULL, with a sentence. */
json_t *agent_ask_pairs(const char *path, kvr_ns timeout, json_int_t *ret_left_out,
                        struct kvr_error *error);

#endif
