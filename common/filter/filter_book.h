/* What each agent has named, and which elements of the packet filter follow from it.
 *
 * PURE: messages come in, changes go out. A message that is refused ends its agent, and nothing of
 * that agent stays. The caller has checked the sender's user, and that a port is the sender's.
 *
 * Limits: FILTER_AGENTS_MAX agents; each FILTER_PORTS_MAX ports, FILTER_GUARDS_MAX guarded ranges
 * of FILTER_GUARDED_MAX ports in all, FILTER_PEERS_MAX addresses of peers. */
#ifndef KVR_FILTER_FILTER_BOOK_H
#define KVR_FILTER_FILTER_BOOK_H

#include "filter/filter_message.h"

#define FILTER_AGENTS_MAX  32u
#define FILTER_PORTS_MAX   128u  /* 48 rails, each with a successor while it is replaced */
#define FILTER_GUARDS_MAX  48u   /* one for each rail */
#define FILTER_GUARDED_MAX 8192u /* ports of all its ranges together */
#define FILTER_PEERS_MAX   8192u /* 256 peers of 32 cards */

typedef enum filter_element {
    FILTER_AGENT, /* add: before anything else of the agent */
    FILTER_USER,  /* uid: may connect over loopback */
    FILTER_GUARD, /* address, port */
    FILTER_PORT,  /* address, port → agent */
    FILTER_PEER,  /* agent, address */
} filter_element;

struct filter_change {
    filter_element element;
    bool add;
    uint32_t agent;
    uint32_t uid;
    uint16_t port;
    struct kvr_filter_address address;
};

struct filter_sink {
    void *self;
    void (*change)(void *self, const struct filter_change *change);
};

struct filter_place {
    struct kvr_filter_address address;
    uint16_t first, last;
};

struct filter_agent {
    bool used;
    uint32_t uid;
    uint32_t port_count, guard_count, guarded, peer_count;
    struct filter_place ports[FILTER_PORTS_MAX];
    struct filter_place guards[FILTER_GUARDS_MAX];
    struct kvr_filter_address peers[FILTER_PEERS_MAX]; /* in order */
};

struct filter_book {
    struct filter_sink sink;
    uint16_t first, last; /* that GUARD may name; 0: none */
    struct filter_agent agents[FILTER_AGENTS_MAX];
};

/* FULL: there is no place. */
KVR_MUST_CHECK kvr_filter_refusal filter_book_attach(struct filter_book *book, uint32_t uid,
                                                     uint32_t *ret_agent);
/* Everything of it goes. */
void filter_book_detach(struct filter_book *book, uint32_t agent);
/* GUARD, PORT, PORT_GONE, PEER or PEER_GONE. What is there already, or is gone, changes nothing. */
KVR_MUST_CHECK kvr_filter_refusal filter_book_take(struct filter_book *book, uint32_t agent,
                                                   const struct kvr_filter_message *message);

#endif
