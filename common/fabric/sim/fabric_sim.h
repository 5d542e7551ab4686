/* A fabric of virtual cards in virtual time, behind the contract of fabric.h: what the simulator
 * runs rail groups on.
 *
 * A net has hosts (processes); a host opens rails, endpoints and memories through its kvr_fabric. A
 * write that was accepted has moments, each at a time drawn from the net's generator:
 *
 *   read      the card reads the local bytes; a card that gets no answer reads them again and again
 *   complete  the writer's completion, not before the read
 *   land      the bytes are in the target's memory; before or after the completion
 *   arrive    the target's queue has the immediate, not before the bytes
 *
 * so writes overtake each other, and a completion says nothing about the target. Endpoints that are
 * stopped neither read nor land; writes on their way to one are lost although they may have
 * completed. A rail that is opened with a name is in the network of that name; rails of two
 * networks do not reach each other. A hook may say that a way from one rail to another is lost,
 * slow, or lets bytes through and no answer. Writes may fail, be lost after they completed, or
 * arrive twice, at the rates given. Both entries of a write that arrives twice come in a row: a
 * second entry that comes when the slot names another transfer could not be recognised.
 *
 * The hooks report every read and every landing before it happens, so that a simulated world can
 * check which memory it touches. One thread; the same seed and the same calls give the same
 * moments. */
#ifndef KVR_FABRIC_FABRIC_SIM_H
#define KVR_FABRIC_FABRIC_SIM_H

#include "base/rng.h"
#include "fabric/fabric.h"

struct kvr_sim_net;
struct kvr_sim_host;

struct kvr_sim_access {
    void *host; /* as given to kvr_sim_host_open: the owner of the memory */
    void *from; /* landing: the writer */
    void *address;
    uint64_t bytes;
    uint64_t immediate;
    const uint8_t *incoming; /* landing: the bytes that come */
    bool copied;             /* landing: they are read only now (kvr_rail_facts.target_copies) */
};

/* Faults of a write. */
typedef enum kvr_sim_fault {
    KVR_SIM_FAILED,
    KVR_SIM_LOST,
    KVR_SIM_LATE,
    KVR_SIM_TWICE,
    KVR_SIM_UNMOVED, /* by the target's device, half done */
} kvr_sim_fault;

/* A way from one rail to another that is not well. Its owner fills it in. */
struct kvr_sim_way {
    bool lost;  /* what is sent gets no answer */
    bool mute;  /* what is sent lands, and gets no answer */
    bool hangs; /* without one the card never gives up: the endpoint's end ends a write */
    uint32_t times_slower; /* in latency and in time for each byte; 0: it is not slow */
    kvr_ns busy_until;     /* of a slow one: its bandwidth is used up to here; the net's */
};

struct kvr_sim_hooks {
    void *self;
    /* The way between these rails of two hosts now; NULL: it is well. May be NULL. */
    struct kvr_sim_way *(*way)(void *self, void *host, const struct kvr_rail *rail,
                               void *target_host, const struct kvr_rail *target_rail);
    /* A write was accepted; both are as given to kvr_sim_host_open. May be NULL. */
    void (*posted)(void *self, void *host, void *target_host);
    /* Before that, also for a warm-up: it goes from one network to another. May be NULL. */
    void (*across)(void *self, void *host, void *target_host);
    /* until: when a write that is late comes; else now. May be NULL. */
    void (*fault)(void *self, kvr_sim_fault fault, kvr_ns until);
    void (*read)(void *self, const struct kvr_sim_access *access);
    void (*land)(void *self, const struct kvr_sim_access *access);
    /* After it has landed: one of its bytes is not what was sent. */
    void (*corrupted)(void *self, const struct kvr_sim_access *access);
    /* The host's queues have something to poll. */
    void (*wake)(void *self, void *host);
    /* A call or a write that no user of a fabric may make: a use of released memory, a key that
     * belongs to nothing. */
    void (*misuse)(void *self, const char *sentence);
};

/* Chances are of 10,000 writes. */
struct kvr_sim_options {
    struct kvr_rng *rng; /* borrowed */
    struct kvr_sim_hooks hooks;
    kvr_ns latency_ns;    /* of one way; every moment varies around it */
    kvr_ns late_ns;       /* how late a late moment may be */
    uint32_t late_chance; /* of each moment to be late */
    uint32_t
        fail_chance; /* the completion says FAILED; the bytes may land all the same, or later */
    uint32_t lost_chance;    /* the completion says WRITTEN, and nothing ever lands */
    uint32_t twice_chance;   /* of each entry of a queue to come twice */
    uint32_t corrupt_chance; /* a byte is altered on its way */
    uint32_t unmoved_chance; /* of pages (KVR_SPAN_PAGES) not to be moved */
    uint32_t unseen_chance;  /* of a write of no bytes from such pages: they are not seen */
    uint32_t again_chance;   /* refused with KVR_AGAIN although there is room */
};

struct kvr_sim_counts {
    uint64_t writes, landed, hung, dropped, across;
};

struct kvr_sim_net *kvr_sim_net_open(const struct kvr_sim_options *options);
void kvr_sim_net_close(
    struct kvr_sim_net *net); /* after every host's rails are closed or it died */
/* The time of the next moment; KVR_NEVER: nothing is on its way. */
kvr_ns kvr_sim_net_next(const struct kvr_sim_net *net);
/* When the last accepted write has left its card, unless it fails before. */
kvr_ns kvr_sim_net_busy_until(const struct kvr_sim_net *net);
/* Goes through every moment up to `now`, in order. */
void kvr_sim_net_run(struct kvr_sim_net *net, kvr_ns now);
struct kvr_sim_counts kvr_sim_net_counts(const struct kvr_sim_net *net);

/* facts: what every rail of this host says of itself (write limits, speed_bps); one of provider
 * "local" says that its target copies, beside others that do not. Where a rail needs to know its
 * senders, a write from an endpoint that was never inserted is a misuse, and one from an endpoint
 * that was removed is not answered.
 *
 * Where the target copies, as with provider local, the bytes are read where they land, and when.
 * The end of the source's endpoint or process does not stop a copy that the target has begun:
 * `read` is not called, and the memory may have another owner by then. */
struct kvr_sim_host *kvr_sim_host_open(struct kvr_sim_net *net, void *host,
                                       const struct kvr_rail_facts *facts);
struct kvr_fabric kvr_sim_host_fabric(struct kvr_sim_host *host);
/* Keys that were asked for (kvr_memory_span.key) and are registered: the one at *at or behind it,
 * and *at moves past it; 0: there are no more. */
uint64_t kvr_sim_host_key(const struct kvr_sim_host *host, uint32_t *at);
bool kvr_sim_rail_has_key(const struct kvr_rail *rail, uint64_t key);
/* Until then nothing that this rail sends is answered, and nothing reaches it: cards go on trying,
 * and what they hold goes through when the silence ends, or fails before. */
void kvr_sim_rail_silence(struct kvr_rail *rail, kvr_ns until);
/* The card is gone: what its endpoints had accepted fails, nothing lands through them any more, and
 * until then none can be opened. */
void kvr_sim_rail_fail(struct kvr_rail *rail, kvr_ns until);
/* A stranger's write without a segment arrives there. False: the rail has no endpoint to reach. */
bool kvr_sim_rail_forge(struct kvr_rail *rail, uint64_t immediate);
/* One that has a key hangs up in mid write. False: the same. */
bool kvr_sim_rail_break_off(struct kvr_rail *rail);
/* Until then it sends at speed_bps. */
void kvr_sim_rail_slow(struct kvr_rail *rail, uint64_t speed_bps, kvr_ns until);
/* The process is gone: endpoints and memories with it. What its cards have read may still land
 * elsewhere. Its handles may still be closed. */
void kvr_sim_host_die(struct kvr_sim_host *host);

#endif
