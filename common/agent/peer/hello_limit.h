/* How many connections may begin: a bound for each host that dials, and one for all of them. Any
 * host that reaches the port may dial. Each connection costs a TLS handshake, and each HELLO a
 * table entry, a log line and notices to engines. So a connection is counted when it is accepted,
 * before its first byte. The total does not concern a host that has a session: a flood from other
 * hosts must not keep its agents from dialing again.
 *
 * Each bound is a bucket: a burst is free, and then so many a second. A fleet that comes back at
 * once fits in the burst. Pure; loop thread. */
#ifndef KVR_AGENT_HELLO_LIMIT_H
#define KVR_AGENT_HELLO_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/limits.h"

#define HELLO_HOST_BURST KVR_PEERS_MAX /* of one host: as many agents as this one can have */
#define HELLO_HOST_RATE  16u           /* a second, after that */
#define HELLO_ALL_BURST  (4u * KVR_PEERS_MAX)
#define HELLO_ALL_RATE   128u
#define HELLO_HOSTS_MAX  256 /* hosts that are remembered; one with a full bucket needs no place */

struct hello_bucket {
    uint64_t host;  /* 0: free */
    kvr_ns full_at; /* when it has its whole burst again */
};

struct hello_limit {
    struct hello_bucket all, hosts[HELLO_HOSTS_MAX];
};

/* Whether one more connection may begin now. If so it is counted. host: kvr_address_network;
 * known: it has a session. */
bool hello_limit_take(struct hello_limit *limit, kvr_ns now, uint64_t host, bool known);

#endif
