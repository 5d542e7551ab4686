/* What the fuzzers of the two state machines share: bytes become small decisions, and one agent's
 * world: a simulated card, a real rail group stepped by hand, tables in a buddy, regions of
 * engines. The group answers what the machine commands, so that its events are always legal;
 * everything from peers and engines is as wild as the bytes say. */
#ifndef KVR_TESTS_FUZZ_MACHINE_H
#define KVR_TESTS_FUZZ_MACHINE_H

#include "agent/core/ports.h"
#include "base/buddy.h"
#include "fabric/sim/fabric_sim.h"
#include "wire/engine_message.h"

#define FUZZ_RAILS        2
#define FUZZ_SESSION      9  /* of every peer */
#define FUZZ_PAGES        16 /* of a region */
#define FUZZ_TOKENS       4  /* of a page */
/* One world serves so many inputs: to open one costs more than most inputs do. */
#define FUZZ_WORLD_INPUTS 256

/* ---- decisions out of bytes: 0 when they are used up ---- */

struct fuzz_input {
    const uint8_t *bytes;
    size_t left;
};

uint8_t fuzz_byte(struct fuzz_input *input);
/* Uniform enough in [0, bound). */
uint32_t fuzz_below(struct fuzz_input *input, uint32_t bound);
/* Usually `good`, else something near it, near a limit, or anything. */
uint64_t fuzz_about(struct fuzz_input *input, uint64_t good);

/* ---- the world of one agent ---- */

struct fuzz_world {
    kvr_ns now;
    struct kvr_rng rng;
    struct kvr_sim_net *net;
    struct kvr_sim_host *host, *far; /* ours, and the peers' */
    struct kvr_fabric fabric, far_fabric;
    struct kvr_rail *rails[FUZZ_RAILS], *far_rails[FUZZ_RAILS];
    struct kvr_endpoint *far_endpoints[FUZZ_RAILS];
    struct kvr_memory *far_memory[FUZZ_RAILS];
    struct kvr_group *group;
    struct kvr_buddy buddy;
    size_t used_at_start; /* set by the fuzzer after its machine was made */
    uint32_t regions_live;
    struct kvr_shared_page *pages; /* KVR_ENGINES_MAX */
};

/* Opens everything but the machine; the same for every input. */
void fuzz_world_open(struct fuzz_world *world, const struct kvr_group_user *user);
void fuzz_world_close(struct fuzz_world *world);

/* ports.command: to the group. */
void fuzz_command(struct fuzz_world *world, const struct kvr_group_message *message);
/* The group and the cards do what they can; each event of the group goes to `event`. */
void fuzz_world_run(struct fuzz_world *world,
                    void (*event)(const struct kvr_group_message *message));

/* The layout of a region that every engine here has; fields about it as the bytes say. */
struct kvr_region_layout fuzz_layout(struct fuzz_input *input, uint32_t region);
/* A region of an engine of this agent; its memory is shared by all. */
struct kvr_region *fuzz_region(struct fuzz_world *world, uint32_t region, bool local, bool remote);
void fuzz_region_done(struct fuzz_world *world, struct kvr_region *region);

/* Engine number n: uuid, generation, place. */
struct kvr_rank fuzz_rank(uint32_t number, uint64_t generation);
struct kvr_compat fuzz_compat(void);
/* A HELLO of a peer with the far rails, or with rails that are none. */
void fuzz_hello(struct fuzz_world *world, struct fuzz_input *input,
                struct kvr_rail_address rails[KVR_RAILS_MAX], struct kvr_msg_hello *ret_hello);
/* REGIONS of a peer's engine rank. */
void fuzz_regions(struct fuzz_world *world, struct fuzz_input *input, const struct kvr_rank *rank,
                  struct kvr_region_layout layouts[2], struct kvr_remote_key keys[2 * FUZZ_RAILS],
                  struct kvr_msg_regions *ret_regions);
/* A few runs of pages from page 0 on, or wild ones; returns how many. */
uint32_t fuzz_page_runs(struct fuzz_input *input, struct kvr_page_run runs[8]);
uint32_t fuzz_chunk_runs(struct fuzz_input *input, struct kvr_chunk_run runs[8]);

#endif
