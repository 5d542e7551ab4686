/* Connections that were accepted and are not trusted yet: which of them keep their places, and
 * which may take a step of their TLS handshake in this turn of the loop.
 *
 * Each host may have KVR_YOUNG_SHARE places: one more closes its oldest. When all places are taken,
 * the host that has the most loses its oldest. So a host with few connections loses none of them
 * while others have more.
 *
 * A step costs up to a millisecond of CPU. KVR_YOUNG_STEPS are taken in a turn, so that a flood of
 * handshakes does not hold up the sessions that are there. Those that wait get their steps in the
 * order in which they came.
 *
 * Pure; loop thread. */
#ifndef KVR_WIRE_YOUNG_H
#define KVR_WIRE_YOUNG_H

#include <stdbool.h>
#include <stdint.h>

#define KVR_YOUNG_MAX   64u
#define KVR_YOUNG_SHARE 32u /* of one host */
#define KVR_YOUNG_STEPS 4u  /* a turn */

struct kvr_young_place {
    void *who;
    uint64_t host;  /* kvr_address_network */
    uint64_t waits; /* for a step, since this number was drawn; 0: it does not wait */
    bool its_turn;  /* it has waited, and takes its step now */
};

struct kvr_young {
    struct kvr_young_place places[KVR_YOUNG_MAX]; /* the oldest first */
    uint32_t count;
    uint32_t steps;  /* taken or promised in this turn */
    uint32_t queued; /* of the places, those that wait */
    uint64_t drawn;  /* the last number */
};

typedef enum kvr_young_why {
    KVR_YOUNG_ROOM,  /* nothing must go */
    KVR_YOUNG_CROWD, /* its host has its share */
    KVR_YOUNG_FULL,  /* all places are taken, and its host has the most */
} kvr_young_why;

/* Which connection must be closed before one of that host comes. NULL: none. */
void *kvr_young_leaver(const struct kvr_young *young, uint64_t host, kvr_young_why *ret_why);
/* There must be room. */
void kvr_young_come(struct kvr_young *young, uint64_t host, void *who);
void kvr_young_go(struct kvr_young *young, const void *who); /* one that is not there is fine */

/* A new turn of the loop. */
void kvr_young_turn(struct kvr_young *young);
/* The next of those that wait: it takes a step now. NULL: none waits, or this turn has no step
 * left. */
void *kvr_young_next(struct kvr_young *young);
/* Whether it may take a step now, which is then counted; else it waits. */
bool kvr_young_step(struct kvr_young *young, const void *who);
/* Nothing waits, and this turn's steps are all left. */
bool kvr_young_rests(const struct kvr_young *young);

#endif
