/* The bounds of everything that could grow, in one place. Pools of these sizes are made at start;
 * what does not fit is refused with a sentence that names the limit. */
#ifndef KVR_BASE_LIMITS_H
#define KVR_BASE_LIMITS_H

/* An immediate is tag << 32 | slot << 16 | chunk; a rail may carry its lower half alone. Simulated
 * transfers are small: with short slots they too have several. */
#ifdef KVRAIL_SHORT_SLOTS
#define KVR_SLOT_CHUNK_BITS 6
#else
#define KVR_SLOT_CHUNK_BITS 16
#endif
#define KVR_SLOT_CHUNKS (1u << KVR_SLOT_CHUNK_BITS) /* that one slot can name */

#define KVR_AGENT_CARDS_MAX     32  /* cards that one agent uses; a p5 host has so many */
#define KVR_RAIL_GROUPS_MAX     16  /* rail groups of one agent, a thread each */
#define KVR_RAILS_MAX           48  /* its cards, and one rail more a group for its host's agents */
#define KVR_PEERS_MAX           256 /* agents that one agent talks to at once */
#define KVR_ENGINES_MAX         64  /* engine ranks attached to one agent */
#define KVR_TENANTS_MAX         32  /* tenants of one agent, and of one certificate; a bit each */
#define KVR_REGIONS_MAX         512 /* regions of one engine rank */
#define KVR_REGISTERING_MAX     8 /* of them, registered at once; each keeps a descriptor meanwhile */
#define KVR_EXTENTS_MAX         16384 /* allocations that one region may lie over: 320 GiB of 20 MiB */
#define KVR_LAYERS_MAX          256 /* layers of one model */
#define KVR_GROUPS_MAX          32 /* KV groups of one request, each with a page table and a bit in 32 */
#define KVR_PUBLISHES_MAX       4096  /* live publishes of one agent */
#define KVR_FETCHES_MAX         4096  /* live fetches of one agent */
#define KVR_TRANSFERS_MAX       8192  /* live transfers of one agent, tombstones included */
#define KVR_SOURCES_MAX         64    /* source ranks of one fetch */
#define KVR_CONSUMERS_MAX       64    /* target ranks of one publish */
#define KVR_SEGMENTS_MAX        1024  /* segments (prefill chunks) of one transfer */
#define KVR_WORDS_MAX           512   /* readiness words of one engine */
#define KVR_SLOTS               65536 /* slot 0 is for warm-up and is never granted */
#define KVR_WARM_UP_IMMEDIATE   0     /* slot 0, chunk 0 */
#define KVR_TRANSFER_SLOTS_MAX  64    /* slots of one transfer: 4 Mi chunks */
#define KVR_IOV_MAX             8     /* runs of bytes of one write at either end */
#define KVR_CHUNK_BYTES_MIN     4096 /* the largest write that an agent allows has at least these */
#define KVR_CHUNK_PIECES_MAX    15   /* pieces of one write: each but the first adds a run */
#define KVR_STAGED_PIECES_MAX   512  /* the same where an end is staging memory: of one copy */
#define KVR_REQUEST_BYTES       128  /* a request id, NUL included */
#define KVR_AGENT_ADDRESS_BYTES 128  /* "host:port" where an agent is dialed, NUL included */
#define KVR_NAME_BYTES          64   /* names of agents, rails, models, regions, NUL included */
#define KVR_ADDRESS_BYTES       96   /* a provider's endpoint address */
#define KVR_TAIL_BYTES_MAX      65536 /* first token, logprobs, hidden state: the engine's own bytes */
#define KVR_FRAME_BYTES_MAX     (1u << 20) /* one control message */
#define KVR_PACKET_BYTES_MAX    65536      /* one message on the engine socket */
#define KVR_DEADLINE_MS_MAX     3600000u /* of a fetch: a longer one counts as this, at both ends */
#define KVR_EPOCHS_PER_TRANSFER 64       /* (rail, epoch) pairs that one transfer may use */

#endif
