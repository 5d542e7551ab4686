/* Which rails of ours are paired with which rails of a peer's group.
 *
 * Pure: it reads the planes of the rails, and calls nothing.
 *
 * A plane names what a rail is connected to: the operator's label ("red"), or the rail's IP network
 * ("10.1.0.0/24"), or "" where neither is known. Behind the rail's network may stand others that
 * its card is in, after commas: the planes of two rails are equal if each one's card is in the
 * network of the other rail. Rails of one plane reach each other. A rail of an unknown plane may
 * reach any. Whether rails of two planes reach each other is not known here.
 *
 * A pair is near unless its planes are known and differ. The pairs, in this order of importance:
 *
 *   1. As many near pairs as there can be, each rail in at most one of them.
 *   2. Each rail that is left over gets a near pair: with a partner of an equal plane before one
 *      of an unknown plane, and of these with the one that has the fewest pairs.
 *   3. A rail for which the other side has no near rail gets a far pair: with another such rail if
 *      there is one, else with any.
 *
 * The places in the lists decide ties. So planes change nothing where all are equal, all are
 * unknown, or none of ours occurs there. Our rail i is then paired with theirs i mod m, and their
 * rail j ≥ n with ours j mod n. */
#ifndef KVR_RAIL_GROUP_RAIL_PAIRS_H
#define KVR_RAIL_GROUP_RAIL_PAIRS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"

#define KVR_RAIL_PAIRS_MAX (2 * KVR_RAILS_MAX)

struct kvr_rail_pair {
    uint32_t ours, theirs; /* places in the lists */
    bool far;
};

/* What to do with far pairs. */
typedef enum kvr_other_planes {
    KVR_OTHER_PLANES_AS_NEEDED, /* written over where no near pair works */
    KVR_OTHER_PLANES_NEVER,     /* they are not made */
    KVR_OTHER_PLANES_ALWAYS,    /* they are as good as near ones */
} kvr_other_planes;

/* Returns how many pairs: at most our_count + their_count, 0 where a side has no rail. The first
 * their_count of them hold each of their rails once, in the order of the list; the others are for
 * rails of ours, in the order of ours. Each side has at most KVR_RAILS_MAX. */
uint32_t kvr_rail_pairs(const char *const *ours, uint32_t our_count, const char *const *theirs,
                        uint32_t their_count, struct kvr_rail_pair ret_pairs[KVR_RAIL_PAIRS_MAX]);

/* False: both planes are known, and differ. */
bool kvr_rail_planes_near(const char *a, const char *b);

#endif
