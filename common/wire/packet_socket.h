/* Whole packets and descriptors over a non-blocking SOCK_SEQPACKET socket. No state; any thread. */
#ifndef KVR_WIRE_PACKET_SOCKET_H
#define KVR_WIRE_PACKET_SOCKET_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define KVR_PACKET_FDS_MAX 128 /* Linux takes 253 */

/* Descriptors that came beside a packet; their holder closes them. */
struct kvr_packet_fds {
    uint32_t count;
    int fds[KVR_PACKET_FDS_MAX];
};

/* Sends one packet and copies of `fds` (may be NULL; borrowed). KVR_AGAIN: no room, or too many
 * descriptors are under way (a user's may be RLIMIT_NOFILE); nothing was sent. KVR_PEER_LOST: the
 * other end is closed. KVR_TOO_LARGE: the socket takes no packet of this size, and never will. */
KVR_MUST_CHECK kvr_status kvr_packet_send(int socket, const uint8_t *packet, size_t bytes,
                                          const struct kvr_packet_fds *fds);

/* Whether the socket takes packets of this size at all, before one is sent or queued. KVR_TOO_LARGE
 * with both sizes and what to do. */
KVR_MUST_CHECK kvr_status kvr_packet_check(int socket, size_t bytes, struct kvr_error *error);

/* Receives one packet. KVR_AGAIN: none at this moment. KVR_PEER_LOST: every packet was read and the
 * other end is closed. KVR_MALFORMED: longer than capacity, or more descriptors than allowed.
 * KVR_FULL: this process may open no more descriptors. The packet is gone then, and its descriptors
 * are closed. */
KVR_MUST_CHECK kvr_status kvr_packet_receive(int socket, uint8_t *packet, size_t capacity,
                                             size_t *ret_bytes, struct kvr_packet_fds *ret_fds);

/* Closes what is left of them; count becomes 0. */
void kvr_packet_fds_close(struct kvr_packet_fds *fds);

#endif
