/* The actions of a party on its own side, ordered by the test or by a message to the child. */
#ifndef KVR_TESTS_FABRIC_PARTY_SIDE_H
#define KVR_TESTS_FABRIC_PARTY_SIDE_H

#include "tests/support/fabric_party.h"

struct party {
    struct kvr_fabric fabric;
    struct party_shared *shared;
    int shared_fd;
    int side;
    uint32_t rail_count;
    struct kvr_rail *rails[PARTY_RAILS];
    struct kvr_endpoint *endpoints[PARTY_RAILS];
    struct kvr_memory *memory[PARTY_RAILS];
    uint64_t peers[PARTY_RAILS];
    bool connected;
    uint8_t *bytes;
    int bytes_fd;
    struct party_command stream; /* count > 0: goes on */
    uint32_t stream_next;
    uint64_t in_flight;
    /* the test's process */
    pid_t child;
    int control;
};

kvr_ns party_step_ns(void); /* no step takes longer */
struct party_answer party_run(struct party *party, const struct party_command *command);
/* Everything that is due; how much that was. */
unsigned party_step(struct party *party);
void party_close_rails(struct party *party);

#endif
