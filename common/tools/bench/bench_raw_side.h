/* One process of the raw loop. Private to bench_raw*.c. */
#ifndef KVR_TOOLS_BENCH_RAW_SIDE_H
#define KVR_TOOLS_BENCH_RAW_SIDE_H

#include <poll.h>
#include <stdatomic.h>

#include "fabric/fabric_provider.h"
#include "tools/bench/bench_raw.h"

/* Shared memory of both. A side's addresses and keys are written before it says that it is ready.
 */
struct raw_board {
    struct raw_address {
        uint8_t address[KVR_ADDRESS_BYTES];
        uint32_t bytes;
        struct kvr_remote_key key;
    } writer[KVR_RAILS_MAX], reader[KVR_RAILS_MAX];
    _Atomic uint64_t posted; /* writes of this turn, once `finished` */
    _Atomic bool finished;
    uint32_t pieces_max; /* of one write on any of the writer's rails; before it is ready */
};

struct raw_rail {
    struct kvr_rail *rail;
    struct kvr_endpoint *endpoint;
    struct kvr_memory *memory;
    uint64_t peer;
    struct kvr_remote_key key; /* of the other side's pool */
    uint32_t on_their_way;
};

struct raw_side {
    const struct bench_raw *raw;
    const struct kvrail_memory *memory;
    struct kvr_fabric fabric;
    uint32_t rail_count;
    struct raw_rail rails[KVR_RAILS_MAX];
    struct pollfd descriptors[KVR_RAILS_MAX];
    bool blind; /* a rail has no descriptor to sleep on */
    bool connected;
    kvr_ns progress_at;
    uint64_t next;         /* page of the order */
    uint32_t on_their_way; /* on all rails */
    bool spins;            /* in this turn */
};

/* Opens rails, endpoints and memory; fills `own` of the board. False: *result says why. */
bool raw_side_open(struct raw_side *side, const struct bench_raw *raw, bool writes,
                   struct raw_address *own, struct bench_result *result);
/* Takes the other side's addresses in, once. */
bool raw_side_connect(struct raw_side *side, const struct raw_address *others, bool writes,
                      struct bench_result *result);
void raw_side_close(struct raw_side *side);
/* After a round: spins or sleeps, at most a millisecond. */
void raw_side_wait(struct raw_side *side, bool moved, kvr_ns now);

void raw_writer(void *self, int socket);
void raw_reader(void *self, int socket);

#endif
