/* An agent in a fuzzer's world: the input's bytes decide what its engines and peers do. Checks the
 * invariants of both machines: every publish and fetch of an engine ends in exactly one terminal
 * notice. After the end nothing is live, and no region and no byte of the tables is kept. */
#ifndef KVR_TESTS_FUZZ_AGENT_H
#define KVR_TESTS_FUZZ_AGENT_H

#include "agent/core/machine.h"
#include "tests/support/fuzz_machine.h"

#define FUZZ_ENGINES 2
#define FUZZ_PEERS   3

/* The fuzzer's own decisions about its machine. */
struct fuzz_ops {
    struct kvr_machine (*open)(void); /* the world and the machine in it, once for many inputs */
    bool (*busy)(void);               /* with what only this machine has */
    uint32_t beginnings;              /* how many begin() knows */
    void (*begin)(uint32_t which);
    void (*act)(uint8_t what, uint32_t engine, uint32_t peer);
};

struct fuzz_agent {
    const struct fuzz_ops *ops;
    struct kvr_machine machine;
    struct fuzz_world world;
    struct fuzz_input *input;
    struct {
        bool up, free; /* free: the index may be used again */
        uint64_t generation;
        uint32_t opened, ended; /* of this life */
    } engines[FUZZ_ENGINES];
    struct {
        bool known; /* may get messages */
        bool up, hung_up, full;
    } peers[FUZZ_PEERS];
};
extern struct fuzz_agent fuzz;

/* One input of a fuzzer. */
int fuzz_agent_play(const struct fuzz_ops *ops, const uint8_t *data, size_t size);

/* What both machines' ports do alike: all but dial and rails. */
struct kvr_ports fuzz_ports(void);

/* Opens the world for the machine's posting or landing thread; there is none yet. */
void fuzz_agent_open(const struct kvr_group_user *user);

void fuzz_engine_up(uint32_t engine); /* if its index is free */
void fuzz_engine_down(uint32_t engine);
void fuzz_engine_region(uint32_t engine); /* comes or goes */
void fuzz_peer_up(uint32_t peer);         /* if it is known */
void fuzz_peer_lost(uint32_t peer);
void fuzz_peer_regions(uint32_t peer);
bool fuzz_peer_speaks(uint32_t peer);
/* Everything that is due happens, then time passes. */
void fuzz_run(kvr_ns later);

/* Plays what these bytes decide; without bytes every decision is a good one. */
void fuzz_script(void (*what)(uint32_t), const char *bytes, size_t count);
#define FUZZ_SCRIPT(what, bytes) fuzz_script(what, bytes, sizeof(bytes) - 1)

#endif
