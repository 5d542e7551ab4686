/* Worlds in which single ways, each from one card of a source to one card of a target, are not
 * well.
 *
 * A way may be lost for good, lost now and then, many times slower than the others, or mute:
 * bytes that are sent there land, and no answer comes back. All ways from one agent to another may
 * be lost: these agents are cut off. Ways outlive their agents. */
#ifndef KVR_TOOLS_SIM_WAYS_H
#define KVR_TOOLS_SIM_WAYS_H

#include "base/rng.h"
#include "fabric/sim/fabric_sim.h"
#include "tools/sim/sim_fault.h"
#include "tools/sim/sim_limits.h"
#include "trace/event.h"

struct kvr_group_message;
struct sim_agent;
struct sim_fetch;
struct sim_world;

struct sim_way {
    sim_fault fault; /* SIM_FAULT_COUNT: none */
    bool late;       /* it strikes with the world's other late ones, not from the start */
    bool met;        /* a write went there since it struck */
    bool broke;      /* a pair of this way did, with or without a fault of it */
    kvr_ns from, until;
    kvr_ns away_ns, well_ns; /* of one that flaps, by turns */
    uint32_t one_in;         /* of one that loses writes */
    kvr_ns carried_first_at; /* of one without a fault: its first write; 0: none */
    kvr_ns carried_at;       /* and the last one */
    struct kvr_sim_way way;
};

struct sim_ways {
    bool any;
    struct kvr_rng rng; /* of its own: a world without such ways is the one that it was before */
    bool cut[SIM_SOURCES][SIM_TARGETS];
    struct sim_way ways[SIM_SOURCES][SIM_TARGETS][SIM_RAILS][SIM_RAILS];
};

void sim_ways_begin(struct sim_world *world);
/* When those strike that do not from the start. */
void sim_ways_schedule(struct sim_world *world);
/* A hook of the net. */
struct kvr_sim_way *sim_ways_find(void *self, void *host, const struct kvr_rail *rail,
                                  void *target_host, const struct kvr_rail *target_rail);
/* An agent reports this of a transfer. */
void sim_ways_heard(struct sim_agent *agent, const struct kvr_event *event);
/* No way leads to it from one of its sources, and every source may write. */
bool sim_ways_cut(const struct sim_fetch *fetch);
/* When that fetch must be over at the latest, but for the grace of sim_time.c. */
kvr_ns sim_ways_due(const struct sim_fetch *fetch);
/* Bytes to it are so slow that a warm-up may not come through, over a way from one of its sources.
 */
bool sim_ways_crawl(const struct sim_fetch *fetch);
/* Nothing else than ways hinders a rail or a session. */
bool sim_ways_calm(const struct sim_world *world);
/* sim_grey.c. A source's rail group says so: what hangs beside a rail that carries is given up in
 * time. */
void sim_grey_heard(struct sim_agent *agent, const struct kvr_group_message *message);
/* At the end of a fetch: no_rail is right only where a pair may have failed. */
void sim_ways_check(const struct sim_fetch *fetch);

#endif
