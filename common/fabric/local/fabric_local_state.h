/* What the files behind fabric_local share.
 *
 * Locks: `rail->lock` is over the rail's memories and over what links know of them. The rail's own
 * thread holds it while it copies and moves, so that no memory goes away under it. */
#ifndef KVR_FABRIC_FABRIC_LOCAL_STATE_H
#define KVR_FABRIC_FABRIC_LOCAL_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/limits.h"
#include "fabric/fabric.h"
#include "fabric/local/local_copy.h"
#include "fabric/local/local_place.h"
#include "fabric/local/local_ring.h"
#include "wire/packet_socket.h"

#define LOCAL_LINKS_MAX 1024u /* of one endpoint, in each direction */
#define LOCAL_BATCH     64u   /* writes that are copied at once */

struct kvr_rail {
    struct kvr_fabric_owner owner;
    struct kvr_rail_facts facts;
    struct local_copier *copier;
    pthread_mutex_t lock;
    struct local_memories memories; /* that peers may write to; by index */
    struct kvr_memory **registered; /* LOCAL_MEMORIES_MAX, by index; NULL: free */
    uint32_t registered_reach;      /* places above have never been used */
    uint32_t generation;
    struct kvr_endpoint *endpoints; /* those that are not stopped */
    void (*unseen)(const struct kvr_error *error);
    pthread_cond_t let_go; /* some target has let go of pages, or is gone */
};

/* A registration. As a target's it is a row of rail->memories; as a writer's it is a descriptor
 * that each target gets before the first write from it. */
struct kvr_memory {
    struct kvr_fabric_owner owner;
    struct kvr_rail *rail;
    uint32_t name; /* generation and index; another one after each registration */
    const uint8_t *base;
    uint64_t key, bytes;
    bool local, pages; /* it is written from; it is a device's */
    /* For memory that is written from: a memfd, or the import of a device's pages. The descriptor
     * is ours; -1: there is none. */
    struct kvr_device_import import;
};

/* A target that we write to. */
struct local_target {
    int socket; /* -1: it is gone */
    bool broken;
    bool unrung; /* writes were added since the last check whether the target sleeps */
    struct local_shared *shared;
    uint32_t posted, settled;
    uint64_t contexts[LOCAL_WRITES];
    /* By index: the name of the memory of which the target has the descriptor, or will find it in
     * its socket before the next command. */
    _Atomic uint32_t *told;
    /* By index: how many extents the target has, until it has all. Under the rail's lock. NULL:
     * there were none so far. */
    uint32_t *told_extents;
    uint32_t awaited; /* pages of a FORGET that the target still imports */
};

/* Descriptors of a writer's memory, until its PAGES come. */
struct local_told {
    struct local_told *next;
    uint32_t name, count, total;
    struct kvr_extents *extents; /* NULL: `refused` says why they cannot be kept */
    struct kvr_error refused;
};

/* A writer that writes to us. */
struct local_writer {
    int socket;
    struct local_shared *shared; /* NULL: no HELLO came yet */
    uint32_t taken, untold;      /* untold: done since the writer was last woken, or found awake */
    bool looked;                 /* its packets were read since this command named unknown memory */
    uint32_t looked_for;
    struct local_mappings mappings;
    struct local_told *told;
};

struct kvr_endpoint {
    struct kvr_fabric_owner owner;
    struct kvr_rail *rail;
    struct kvr_endpoint *next;
    uint64_t nonce;
    int listener, epoll_fd;              /* -1: stopped */
    uint32_t polls;                      /* since its sockets were looked at */
    bool slept;                          /* since it was polled: links say so */
    uint32_t target_reach, writer_reach; /* places above have never been used */
    uint32_t turn;                       /* of the writers */
    struct local_target *targets[LOCAL_LINKS_MAX];
    struct local_writer *writers[LOCAL_LINKS_MAX];
    struct local_batch *batch; /* of fabric_local_land.c */
};

/* fabric_local_memory.c */
kvr_status local_memory_register(struct kvr_rail *rail, const struct kvr_memory_span *span,
                                 struct kvr_memory **ret_memory, struct kvr_error *error);
void local_memory_release(struct kvr_memory *memory);
struct kvr_remote_key local_memory_key(const struct kvr_memory *memory);
/* Under the rail's lock: sends the target what it needs to read from there. */
KVR_MUST_CHECK kvr_status local_memory_introduce(const struct kvr_memory *memory,
                                                 struct local_target *target);
/* The same for all memories, for a new target. */
void local_memories_introduce(struct kvr_rail *rail, struct local_target *target);

/* fabric_local_socket.c: packets over sockets. */
int local_listen(uint64_t nonce, struct kvr_error *error); /* -1: see *error */
int local_connect(uint64_t nonce, struct kvr_error *error);
KVR_MUST_CHECK kvr_status local_say_hello(int socket, uint64_t nonce, int shared_fd);
KVR_MUST_CHECK kvr_status local_say_memory(int socket, const struct kvr_memory *memory);
/* For memory over several allocations, before local_say_memory: sends extents from *said on.
 * KVR_AGAIN: there is no room for all of them now. */
KVR_MUST_CHECK kvr_status local_say_extents(int socket, const struct kvr_memory *memory,
                                            uint32_t *said);
KVR_MUST_CHECK kvr_status local_say_forget(int socket, uint32_t name);
void local_ring_bell(int socket);
/* Takes a writer's packet. On any other status than KVR_OK and KVR_AGAIN, drop the writer. */
kvr_status local_hear(struct local_writer *writer, uint64_t nonce);
/* Takes a target's packet: a bell, or GONE, which is counted. */
kvr_status local_hear_target(int socket, uint32_t *ret_gone);
KVR_MUST_CHECK kvr_status local_say_gone(int socket, uint32_t name);
void local_told_close(struct local_writer *writer); /* frees incomplete extents */

/* fabric_local_pages.c: a device's pages. */
/* Pages as a writer announced them; copies a descriptor, shares extents. refused: why no device can
 * import them, or NULL. */
KVR_MUST_CHECK kvr_status local_pages_open(const struct kvr_device_import *import,
                                           const struct kvr_error *refused,
                                           struct local_pages **ret_pages);
/* The moves that a command asks for, between memories that the device knows. KVR_COPY_FAILED: the
 * device cannot import the source's memory. Else as local_place. */
KVR_MUST_CHECK kvr_status local_pages_place(struct kvr_rail *rail,
                                            const struct local_command *command,
                                            const struct local_mappings *sources,
                                            struct kvr_device **ret_device,
                                            struct kvr_device_move *ret_moves, uint32_t *ret_count);
void local_mapping_close(struct local_mapping *row); /* nothing is copied from it just now */

/* fabric_local_link.c: targets and writers come and go. */
kvr_status local_peer_insert(struct kvr_endpoint *endpoint, const uint8_t *address, uint32_t bytes,
                             uint64_t *ret_peer, struct kvr_error *error);
void local_peer_remove(struct kvr_endpoint *endpoint, uint64_t peer);
/* Its writes still settle, as failed. */
void local_target_close(struct kvr_rail *rail, struct local_target *target);
void local_target_shut(struct local_target *target); /* any thread: as if it had hung up */
/* The target has released so many pages. */
void local_target_lets_go(struct kvr_rail *rail, struct local_target *target, uint32_t count);
void local_writer_close(struct kvr_endpoint *endpoint, uint32_t index);
/* Takes the writer's packets; on any other status than KVR_OK and KVR_AGAIN the writer was closed.
 */
kvr_status local_writer_hear(struct kvr_endpoint *endpoint, uint32_t index);
bool local_watch_listener(const struct kvr_endpoint *endpoint);
void local_sockets_look(struct kvr_endpoint *endpoint);
void local_links_close(struct kvr_endpoint *endpoint);
#define LOCAL_MAGIC UINT64_C(0x6b76722d6c6f6333)
struct local_address {
    uint64_t magic, nonce;
};

/* fabric_local_write.c */
kvr_status local_write(struct kvr_endpoint *endpoint, const struct kvr_fabric_write *write);
unsigned local_settle(struct kvr_endpoint *endpoint, struct kvr_completion *ret_completions,
                      unsigned capacity);
void local_ring_targets(struct kvr_endpoint *endpoint);  /* for writes that had `more` */
bool local_settles(const struct kvr_endpoint *endpoint); /* local_settle has something */

/* fabric_local_land.c */
unsigned local_land(struct kvr_endpoint *endpoint, struct kvr_completion *ret_completions,
                    unsigned capacity);
struct local_batch *local_batch_new(void);             /* free() ends it */
bool local_lands(const struct kvr_endpoint *endpoint); /* a command waits */

#endif
