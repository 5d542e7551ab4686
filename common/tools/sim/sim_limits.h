/* How large a world is, and how long things take in it. */
#ifndef KVR_TOOLS_SIM_LIMITS_H
#define KVR_TOOLS_SIM_LIMITS_H

#include "base/clock.h"

#define SIM_SOURCES     2
#define SIM_TARGETS     2
#define SIM_AGENTS      (SIM_SOURCES + SIM_TARGETS)
#define SIM_CARDS       4 /* of one agent */
#define SIM_GROUPS      3 /* of one agent's rails */
#define SIM_RAILS       (SIM_CARDS + SIM_GROUPS)
#define SIM_ENGINES     24 /* generations included */
#define SIM_REQUESTS    24
#define SIM_RANKS       2  /* of one engine; here each rank is a struct sim_engine */
#define SIM_CONSUMERS   4  /* target ranks of one request */
#define SIM_PUBLISHES   4  /* of one request: every source rank, and those of restarted engines */
#define SIM_USERS       8  /* of one request: its publishes and its fetches */
#define SIM_PAGES       64 /* of one engine */
#define SIM_LAYERS      6
#define SIM_UNPROVEN    32 /* transfers of one world */
#define SIM_REGIONS     6
#define SIM_KV_GROUPS   2 /* layers before and behind geometry.group_split */
#define SIM_SEGMENTS    6
#define SIM_STREAMS     3
#define SIM_TAIL_BYTES  300
#define SIM_HOARD       64
#define SIM_MEMORY      ((size_t)96 << 20) /* of one agent's tables */
#define SIM_SILENCE_NS  (3 * KVR_S)
#define SIM_TICK_NS     (100 * KVR_MS) /* between two ticks of an agent, half of it more or less */
#define SIM_QUIET_NS    (KVR_S / 2)
#define SIM_RECYCLE_NS  (50 * KVR_MS) /* a rail's, without the messages that it takes */
#define SIM_PATIENCE_NS (60 * KVR_S)  /* nothing goes on for so long after the last fault */
/* At the end: a broken pair with a hanging write is tried anew after up to 32 heartbeat bounds, and
 * gets a fresh endpoint after ten. */
#define SIM_FORGETS_NS  (180 * KVR_S)
#define SIM_MOMENTS_MAX 2000000 /* of one world; most have some thousands */
#define SIM_LEASE_NS    (10 * KVR_S)
#define SIM_DEADLINE_NS (15 * KVR_S)
#define SIM_HURRY_NS    (12 * KVR_S) /* the shortest deadline of a fetch */

#define SIM_BUFFERS          64
#define SIM_SESSION_MESSAGES 1024
#define SIM_REGION_LIVES     16
#define SIM_VISITS           16

#endif
