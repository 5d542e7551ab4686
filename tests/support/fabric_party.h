/* One side of a conformance test of a fabric provider.
 *
 * The test process and a child (the same program, started again with "--party") are a party each:
 * own rails, own memory, own endpoints; they share only a memfd with their addresses and counters.
 * The test does everything through party_do(): on itself at once, on the child by a message, while
 * it keeps its own endpoints moving. No wait is without a bound. */
#ifndef KVR_TESTS_FABRIC_PARTY_H
#define KVR_TESTS_FABRIC_PARTY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "fabric/fabric_provider.h"

#define PARTY_RAILS  2
#define PARTY_BYTES  (8u << 20) /* of each side's memory */
#define PARTY_BITS   65536u
#define PARTY_WAIT_S 20 /* no step of a test takes longer (see party_patience) */

typedef enum party_verb {
    PARTY_OPEN,      /* rails, memory, endpoints of rail_count rails */
    PARTY_CONNECT,   /* takes the other side's present addresses into every endpoint */
    PARTY_RECONNECT, /* the same, but the address that was there goes after the new one has come */
    PARTY_FILL,      /* own memory with the pattern of `seed`, as far as those writes reach */
    PARTY_CLEAR,     /* own memory and arrival bits to zero */
    PARTY_POST,   /* `count` writes of `bytes` in `pieces`, until all are completed or time is up */
    PARTY_STREAM, /* the same without end and without waiting; count 0 ends it */
    PARTY_VERIFY, /* own memory holds what the other's PARTY_POST wrote; value: wrong bytes */
    PARTY_HANG_UP, /* closes the connections to the other side */
    PARTY_COUNT,   /* value: connections of this process; see connection_count() */
    PARTY_RECYCLE, /* new endpoint on `rail`; the old one is stopped, read empty and closed */
    PARTY_RELEASE, /* the registrations of own memory; the bytes stay */
    PARTY_DIGEST,  /* value: a hash of own memory */
    PARTY_IDLE,    /* sleeps `count` ms as an idle agent does; value: CPU time used, µs */
    PARTY_QUIT,
} party_verb;

struct party_command {
    party_verb verb;
    uint32_t rail, rail_count;
    uint32_t count, bytes, pieces;
    uint64_t first_immediate;
    uint64_t seed;
    bool wrong_key;
    bool one_target; /* a write's pieces lie side by side at the target */
};

struct party_answer {
    kvr_status status;
    uint64_t value;
    uint32_t accepted, written, failed;
    char detail[KVR_DETAIL_BYTES];
};

/* What the other side may see of a party. */
struct party_side {
    struct kvr_rail_address addresses[PARTY_RAILS];
    struct kvr_remote_key keys[PARTY_RAILS];
    uint32_t rail_count;
    _Atomic uint64_t accepted, written, failed, again;
    _Atomic uint64_t arrived, repeated; /* repeated: a bit that was set before */
    _Atomic uint64_t wrong;             /* arrivals before their bytes */
    _Atomic uint64_t queue_errors;      /* error entries that name no write */
    _Atomic uint64_t arrived_on[PARTY_RAILS];
    _Atomic uint64_t last_immediate;
    /* Set by the test: check the bytes of every arrival the moment it is seen. */
    struct party_command expected;
    _Atomic bool check_arrivals;
    _Atomic uint8_t bits[PARTY_BITS];
};

struct party_shared {
    char provider[16];
    uint32_t inline_bytes; /* of the rails of both sides, as the next */
    bool acknowledge;
    struct party_side sides[2];
};

struct party;

/* What every wait is multiplied by: KVRAIL_PATIENCE, for an emulated machine; 1 when unset. */
unsigned party_patience(void);
/* Which rail a side opens: KVRAIL_PARTY_RAILS names those of side 0 and of side 1, as "A,B C,D";
 * else tcp has two on loopback. "": the provider's first. */
void party_rail_name(const char *provider, int side, uint32_t rail, char ret_name[KVR_NAME_BYTES]);

/* In main(), before anything else: runs the child's side and exits when argv asks for it. */
void party_main(int argc, char **argv);

/* A pair of parties; both have opened and connected `rail_count` rails. */
struct party *party_open(const char *provider, uint32_t rail_count);
/* The same with rails that take these options, as far as they are not about which rail it is. */
struct party *party_open_with(const char *provider, uint32_t rail_count,
                              const struct kvr_rail_options *options);
void party_close(struct party *party);
struct party_shared *party_shared(struct party *party);
struct kvr_rail *party_rail(struct party *party, uint32_t rail); /* of the test's own side */

/* side 0: this process; 1: the child. Fails the test when the child does not answer in time. */
struct party_answer party_do(struct party *party, int side, const struct party_command *command);
/* Moves this side until *counter ≥ value, or the time (and patience) is over; false then. */
bool party_wait(struct party *party, const _Atomic uint64_t *counter, uint64_t value,
                uint32_t wait_ms);
void party_freeze(struct party *party); /* stops the child */
void party_thaw(struct party *party);
void party_kill(struct party *party);   /* kill -9 of the child */
void party_revive(struct party *party); /* a new child, opened; not connected */

#endif
