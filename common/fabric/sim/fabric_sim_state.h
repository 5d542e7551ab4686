/* What the files of the simulated fabric share. Private to fabric_sim*.c. */
#ifndef KVR_FABRIC_FABRIC_SIM_STATE_H
#define KVR_FABRIC_FABRIC_SIM_STATE_H

#include <string.h>

#include "fabric/sim/fabric_sim.h"

#define SIM_NONE UINT32_MAX

struct kvr_sim_host {
    struct kvr_sim_net *net;
    struct kvr_sim_host *next;
    void *cookie;
    bool dead;
    struct kvr_rail_facts facts;
};

struct kvr_rail {
    struct kvr_sim_host *host;
    struct kvr_rail *next;
    struct kvr_rail_facts facts;
    bool closed;
    kvr_ns busy_until; /* its bandwidth is used up to here */
    kvr_ns silent_until, failed_until, slow_until;
    uint64_t slow_bps;
};

struct kvr_memory {
    struct kvr_rail *rail;
    uint8_t *base;
    uint64_t bytes;
    struct kvr_remote_key key;
    bool local, remote, released;
    bool granted; /* its key was asked for */
    bool pages;   /* a device's, moved by the target */
};

struct kvr_endpoint {
    struct kvr_rail *rail;
    uint32_t number; /* its address: unique in the net, never used again */
    bool stopped, closed;
    bool failed; /* its card is gone: writes are refused, and none lands */
    /* Of a rail that needs to know its senders: addresses that were inserted, each once. */
    struct sim_sender {
        uint32_t number;
        bool removed; /* since then */
    } * senders;
    uint32_t sender_count, sender_capacity;
    uint32_t outstanding; /* accepted and not completed */
    struct kvr_completion *queue;
    uint32_t queue_first, queue_count, queue_capacity;
};

struct sim_write {
    struct kvr_endpoint *endpoint, *target;
    struct kvr_fabric_piece pieces[KVR_CHUNK_PIECES_MAX];
    unsigned piece_count;
    uint64_t immediate;
    uint64_t context;
    uint8_t *bytes; /* as read */
    uint64_t byte_count, byte_capacity;
    uint32_t pending; /* moments in the heap */
    uint32_t tries;   /* reads without an answer */
    bool was_read, landing, completed, fails, lost, unmoved;
    uint32_t next_free;
};

typedef enum sim_moment_kind {
    SIM_READ,
    SIM_COMPLETE,
    SIM_COMPLETE_TWICE,
    SIM_LAND,
    SIM_ARRIVE,
} sim_moment_kind;

struct sim_moment {
    kvr_ns at;
    uint64_t order; /* equal times: as they were made */
    uint32_t write;
    sim_moment_kind kind;
};

struct kvr_sim_net {
    struct kvr_sim_options options;
    struct kvr_sim_counts counts;
    kvr_ns now;
    struct kvr_sim_host *hosts;
    struct kvr_rail *rails;
    struct kvr_endpoint **endpoints;
    struct kvr_memory **memories;
    struct kvr_memory **granted; /* of these, those with keys that were asked for; not released */
    struct sim_write *writes;
    struct sim_moment *moments; /* a heap */
    uint32_t endpoint_count, endpoint_capacity, memory_count, memory_capacity;
    uint32_t granted_count, granted_capacity;
    uint32_t write_capacity, free_write, moment_count, moment_capacity;
    uint64_t order;
};

void *sim_grown(void *array, uint32_t count, uint32_t *capacity, size_t bytes);
/* NULL: it never was inserted there. */
struct sim_sender *sim_sender_of(const struct kvr_endpoint *endpoint, uint32_t number);
/* NULL: none with that key is registered there. */
struct kvr_memory *sim_granted_find(const struct kvr_sim_net *net, const struct kvr_rail *rail,
                                    uint64_t key);
static inline bool sim_apart(const struct kvr_rail *a, const struct kvr_rail *b)
{
    return a->facts.network[0] != '\0' && b->facts.network[0] != '\0' &&
           strcmp(a->facts.network, b->facts.network) != 0;
}
bool sim_chance(struct kvr_sim_net *net, uint32_t of_10000);
/* An accepted write sets out. */
void sim_write_begin(struct kvr_sim_net *net, uint32_t index);
/* Everything that the endpoint had accepted fails now, and its queue says that it is broken. */
void sim_endpoint_fail(struct kvr_sim_net *net, struct kvr_endpoint *endpoint);

#endif
