/* A rail group on a scripted fabric: a write completes only when the case says so, and what the
 * fabric and the group's user were asked is written down, in order. One group at a time. */
#ifndef KVR_TESTS_FAKE_GROUP_H
#define KVR_TESTS_FAKE_GROUP_H

#include "rail_group/rail_group.h"

#define FAKE_RAILS 8
#define WRITES     64
#define LOG_BYTES  8192
#define TOKENS     200000

struct fake_write {
    uint64_t context, peer;
    uint64_t immediate;
    bool more, acknowledged;
    struct kvr_fabric_piece first; /* of its pieces */
};

struct kvr_rail {
    unsigned number;
    struct kvr_rail_facts facts;
    struct kvr_endpoint *newest;
    bool refuse_open;
};

struct kvr_endpoint {
    struct kvr_rail *rail;
    unsigned number;
    bool stopped, closed;
    kvr_status next_write; /* KVR_OK, or what every write answers */
    unsigned again_once;   /* this many writes answer AGAIN first */
    uint64_t dead_peer;    /* writes to it answer AGAIN; 0: none */
    uint64_t peers;
    struct fake_write writes[WRITES];
    unsigned write_count;
    struct kvr_completion queue[2 * WRITES];
    unsigned queue_count;
};

/* What the group's user tells of each arrival, if fake.tell_arrivals. */
union fake_arrival {
    struct kvr_group_message any;
    struct {
        struct kvr_group_head head;
        uint64_t number; /* of the arrival */
    };
};

struct fake {
    char log[LOG_BYTES];
    struct kvr_endpoint endpoints[4096];
    unsigned endpoint_count;
    bool log_inserts;
    bool has_wait_fd;                                    /* else the endpoints are polled */
    void (*while_polled)(struct kvr_endpoint *endpoint); /* once; NULL: nothing happens meanwhile */
    /* the user's side */
    unsigned written_count[TOKENS];
    kvr_status written_status[TOKENS];
    unsigned arrived_count;
    uint32_t arrived_epoch;
    bool tell_arrivals;
    struct kvr_group *group;
};
extern struct fake fake;
extern const struct kvr_fabric fake_fabric;
extern bool fake_rings_by_itself; /* groups that are opened from now on: no doorbells */
extern uint32_t fake_same_host;   /* the same: bits of rails for this host alone */
extern bool fake_tags;            /* the same: rails take tags */
extern bool fake_needs_senders;   /* the same: rails must know their senders */
extern char fake_networks[FAKE_RAILS][KVR_PLANE_BYTES]; /* the same */

/* A group of `rail_count` rails with the given window, and the memory to write from and to. */
struct group_fixture {
    struct kvr_rail rails[FAKE_RAILS];
    struct kvr_rail *rail_list[FAKE_RAILS];
    struct kvr_group *group;
    struct kvr_region local;
    struct kvr_remote_region remote;
    struct kvr_peer_rails peer_rails[4];
    uint64_t token;
};

/* The fabric's side. */
void finish(struct kvr_endpoint *endpoint, unsigned i, kvr_status status); /* the i-th oldest */
void finish_all(struct kvr_endpoint *endpoint);
void arrive(struct kvr_endpoint *endpoint, uint64_t immediate);
void fake_push(struct kvr_endpoint *endpoint, struct kvr_completion completion);

/* The loop's side. The group's user only writes down what it is told, if options name none; they
 * need no fabric and no rails. */
void fixture_open(struct group_fixture *fixture, uint32_t rail_count, uint32_t window,
                  uint32_t ring_entries);
void fixture_open_as(struct group_fixture *fixture, const struct kvr_group_options *options);
/* Each letter is the plane of a rail. */
void fixture_open_in(struct group_fixture *fixture, const char *planes,
                     const struct kvr_group_options *options);
bool event(struct group_fixture *fixture, struct kvr_group_message *message);
/* One of the group's own kinds about a peer, or about a rail of ours, with what it hands over. */
void command(struct group_fixture *fixture, uint32_t kind, uint32_t index, void *pointer);
/* Steps until nothing moves any more. */
void fixture_settle(struct group_fixture *fixture, kvr_ns now);
/* A command to the group's user, and what comes of it. */
void fixture_tell(struct group_fixture *fixture, kvr_ns now,
                  const struct kvr_group_message *message);
/* The next message of that kind; those before it are dropped. */
bool fixture_told(struct group_fixture *fixture, uint32_t kind,
                  struct kvr_group_message *ret_message);
void peer_add(struct group_fixture *fixture, uint32_t peer, uint32_t rail_count);
kvr_status post_bytes(struct group_fixture *fixture, uint32_t peer, uint64_t bytes, bool more,
                      struct kvr_pair *ret_pair);
kvr_status post(struct group_fixture *fixture, uint32_t peer, struct kvr_pair *ret_pair);

#endif
