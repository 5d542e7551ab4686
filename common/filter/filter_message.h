/* The protocol between an agent and kvrail-filter: what the packet filter of this host is to hold.
 *
 * A Unix socket of packets (SOCK_SEQPACKET). A packet is 1 to KVR_FILTER_PACKET_MAX messages of 32
 * bytes:
 *
 *   offset  bytes
 *        0      1  kind
 *        1      1  family of the address: 4, 6, or 0 where the kind has none
 *        2      2  first port, big-endian; 0 where the kind has none
 *        4      2  last port; that of a single port is the first
 *        6      2  zero
 *        8     16  address; of IPv4 the first four bytes, the rest zero
 *       24      8  value, big-endian; zero where the kind has none
 *
 *   agent → filter  HELLO        value: the protocol's version; the first message, and only that
 *                   GUARD        these ports of the address are closed, but as PORT says
 *                   PORT         a rail listens there: only peers of this agent may connect
 *                   PORT_GONE    it does not any more
 *                   PEER         the address of an authenticated peer
 *                   PEER_GONE    it is none any more
 *                   COMMIT       value: a number. All before it holds when DONE repeats it
 *   filter → agent  DONE         value: COMMIT's. HELLO is answered by DONE too
 *                   REFUSED      value: enum kvr_filter_refusal; the connection ends
 *                   COUNT        value: packets that were kept from this agent's ports
 *
 * The rules of an agent go when its connection ends. Both sides check every byte: what cannot be
 * decoded ends the connection. */
#ifndef KVR_FILTER_FILTER_MESSAGE_H
#define KVR_FILTER_FILTER_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define KVR_FILTER_VERSION       1u
#define KVR_FILTER_MESSAGE_BYTES 32u
#define KVR_FILTER_PACKET_MAX    64u /* messages of a packet */
#define KVR_FILTER_SOCKET        "/run/kvrail-filter/filter.sock"

typedef enum kvr_filter_kind {
    KVR_FILTER_HELLO = 1,
    KVR_FILTER_GUARD,
    KVR_FILTER_PORT,
    KVR_FILTER_PORT_GONE,
    KVR_FILTER_PEER,
    KVR_FILTER_PEER_GONE,
    KVR_FILTER_COMMIT,
    KVR_FILTER_DONE,
    KVR_FILTER_REFUSED,
    KVR_FILTER_COUNT,
    KVR_FILTER_KIND_END,
} kvr_filter_kind;

typedef enum kvr_filter_refusal {
    KVR_FILTER_REFUSAL_NONE,
    KVR_FILTER_REFUSAL_VERSION,
    KVR_FILTER_REFUSAL_MALFORMED,
    KVR_FILTER_REFUSAL_USER,     /* --user does not name the agent's */
    KVR_FILTER_REFUSAL_FULL,     /* it has all the agents that it takes */
    KVR_FILTER_REFUSAL_LISTENER, /* no socket of the agent's user listens there */
    KVR_FILTER_REFUSAL_RANGE,    /* the ports are not within its --rail-ports */
    KVR_FILTER_REFUSAL_LIMIT,    /* more ports or peers than one agent may have */
    KVR_FILTER_REFUSAL_TAKEN,    /* another agent has that port */
    KVR_FILTER_REFUSAL_END,
} kvr_filter_refusal;

/* A sentence for the log; never NULL. */
const char *kvr_filter_refusal_text(uint64_t refusal);

struct kvr_filter_address {
    uint8_t family; /* 4 or 6; 0: none */
    uint8_t bytes[16];
};

struct kvr_filter_message {
    kvr_filter_kind kind;
    struct kvr_filter_address address;
    uint16_t first, last;
    uint64_t value;
};

/* Orders by family and bytes; 0: equal. */
int kvr_filter_address_compare(const struct kvr_filter_address *a,
                               const struct kvr_filter_address *b);
/* From an address of a socket, as libfabric's tcp names an endpoint; IPv4 inside IPv6 becomes IPv4.
 * False: it is neither, or is no single host's (0.0.0.0). */
bool kvr_filter_address_from(const uint8_t *socket, size_t bytes,
                             struct kvr_filter_address *ret_address, uint16_t *ret_port);
void kvr_filter_address_print(const struct kvr_filter_address *address, char ret_text[48]);

void kvr_filter_encode(const struct kvr_filter_message *message,
                       uint8_t ret_bytes[KVR_FILTER_MESSAGE_BYTES]);
/* KVR_MALFORMED: no message, or one that this direction does not have. */
KVR_MUST_CHECK kvr_status kvr_filter_decode(const uint8_t bytes[KVR_FILTER_MESSAGE_BYTES],
                                            bool from_agent,
                                            struct kvr_filter_message *ret_message);

#endif
