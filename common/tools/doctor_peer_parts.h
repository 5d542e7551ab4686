/* Shared by the files that judge a pair's rails, doctor_peer*.c; no other file may include it. */
#ifndef KVR_TOOLS_DOCTOR_PEER_PARTS_H
#define KVR_TOOLS_DOCTOR_PEER_PARTS_H

#include "rail_group/rail_pairs.h"
#include "tools/doctor_peer.h"

/* The rails of a side that reach other hosts. */
struct doctor_cards {
    const struct doctor_side *side;
    uint32_t count;
    const struct kvr_rail_snapshot *list[KVR_RAILS_MAX];
    const char *planes[KVR_RAILS_MAX];
    bool paired[KVR_RAILS_MAX]; /* it is in a near pair */
    bool reported;              /* by each of them */
};

struct doctor_rail_pairs {
    struct doctor_cards ours, theirs;
    uint32_t count; /* of near ones */
    struct kvr_rail_pair list[KVR_RAIL_PAIRS_MAX];
};

/* True, after a finding for each: some rail does not report its traits. */
bool doctor_rails_unreported(const struct doctor_rail_pairs *pairs, const char *check,
                             struct doctor_findings *findings);

/* doctor_peer_compare.c: what the rails of a near pair should have in common. */
void doctor_compare_rails(const struct doctor_rail_pairs *pairs, struct doctor_findings *findings);

#endif
