/* IP ports on which the endpoints of this process's rails listen: which was used when, and which to
 * take next.
 *
 * A peer that has not heard of an epoch's end may still write to the old address, with keys that
 * outlive the endpoint. So a port rests after its epoch, and the port that has rested longest comes
 * first. Pure: the caller brings the time and holds a lock. */
#ifndef KVR_FABRIC_RAIL_PORTS_H
#define KVR_FABRIC_RAIL_PORTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/status.h"

#define KVR_PORTS         65536u
#define KVR_PORTS_OF_RAIL 2u /* of its endpoint, and of the successor while it is replaced */

/* --rail-ports. first 0: whichever the kernel gives. */
struct kvr_rail_ports {
    uint16_t first, last;
};

struct port_book {
    uint64_t openings;
    struct port_use {
        uint64_t opening; /* the number of the opening that took the port last; 0: none did */
        kvr_ns closed;    /* when its epoch ended */
        bool open;
    } uses[KVR_PORTS];
};

/* Ports that an attempt leaves out, as another program listens there. */
struct port_set {
    uint64_t bits[KVR_PORTS / 64];
};

/* Why a range has no port to give. */
struct port_shortage {
    unsigned taken;   /* left out */
    unsigned open;    /* endpoints of this process have them */
    unsigned resting; /* closed too recently */
};

/* Reads "9500-9599". KVR_INVALID: *error says what must stand there. */
KVR_MUST_CHECK kvr_status kvr_rail_ports_parse(const char *text, struct kvr_rail_ports *ret_ports,
                                               struct kvr_error *error);
unsigned
kvr_rail_ports_count(const struct kvr_rail_ports *ports); /* 0: whichever the kernel gives */

void port_set_add(struct port_set *set, uint16_t port);

/* The port of the range to try next: one that was never used, else the one used longest ago among
 * those that were closed `rest` ago. Never-used ports come in a circle from `start` on, so that the
 * processes of a host do not all try the same. 0: there is none; then *ret_shortage says why. */
uint16_t port_book_choose(const struct port_book *book, const struct kvr_rail_ports *ports,
                          unsigned start, kvr_ns now, kvr_ns rest, const struct port_set *taken,
                          struct port_shortage *ret_shortage);
/* Whether no endpoint has the port, and so many others were opened since one had it. */
bool port_book_fresh(const struct port_book *book, uint16_t port, uint64_t apart);
void port_book_open(struct port_book *book, uint16_t port);
void port_book_close(struct port_book *book, uint16_t port, kvr_ns now);

#endif
