/* What the files behind fabric_ofi share: libfabric's objects under our three nouns. */
#ifndef KVR_FABRIC_FABRIC_OFI_STATE_H
#define KVR_FABRIC_FABRIC_OFI_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <sys/socket.h>

#include "fabric/fabric.h"

/* What no attribute of a provider says. Everything that is known by name is here, and only here. */
struct ofi_provider_facts {
    const char *spelling;    /* kvrail's */
    const char *prov_name;   /* libfabric's, exactly: layered ones carry ";ofi_rxm" */
    const char *fabric_name; /* NULL: any */
    unsigned pieces_local;   /* with an immediate; 0: the advertised limits hold */
    unsigned pieces_remote;
    uint64_t bytes_max;    /* the same of a write's bytes */
    uint64_t window_bytes; /* that suit a rail; 0: nothing is known */
    bool doorbells;        /* FI_MORE holds a write back */
    bool completes_early;  /* when the kernel has taken a write, unless asked to wait for more */
    bool injects;          /* takes small writes with their bytes, and completes them like others */
    bool same_host_only;
    bool target_copies;
    bool device_memory;     /* its cards reach that of GPUs, where libfabric and the drivers help */
    uint32_t trywait_since; /* fi_trywait works from this libfabric on; 0: always */
    bool by_address;        /* rails are told apart by a local IP address */
    bool memory_unlocked;   /* its registrations and its progress share a table without a lock */
    bool hang_up_first;     /* closing an endpoint leaves its half-open connections dangling */
    bool peers_stay; /* who takes the place of a removed peer inherits what was agreed with it: its
                        writes name another process at the target. So no place is given up */
    const char *environment, *environment_value; /* set unless the user has set it */
    /* Buffers that each endpoint pins for messages, which we never send: how many, and how much
     * each is larger than the value of `environment`. 0: it has none, or says when it cannot have
     * them */
    uint32_t own_buffers, own_buffer_extra;
};

struct kvr_rail {
    struct kvr_fabric_owner owner;
    struct fi_info *info;
    const struct ofi_provider_facts *provider;
    struct kvr_rail_facts facts;
    uint32_t inline_bytes; /* of a write that is injected, at most */
    bool acknowledges;     /* writes are completed when the target has them (fabric_ofi_ack.c) */
    char congestion[16]; /* control of its connections (fabric_ofi_congestion.c); "": the host's */
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    pthread_mutex_t lock; /* used where the provider has memory_unlocked */
    bool device_emulated;
};

struct kvr_memory {
    struct kvr_fabric_owner owner;
    struct kvr_rail *rail;
    struct fid_mr *mr;
    void *descriptor;
    struct kvr_remote_key key;
};

/* One write in flight, where the provider wants memory for its own notes (FI_CONTEXT) or we do. The
 * provider owns the first part until the completion gives it back. */
struct ofi_context {
    struct fi_context2 provider;
    uint64_t context;
    struct ofi_context *next; /* of those that are free, held or ready */
    uint64_t peer;
    /* Where the rail acknowledges. */
    struct ofi_context *held; /* until the target's word for this one comes */
    bool asks;                /* for that word */
};

/* Writes to one peer, or to several of the same place in the table: then less is held. */
struct ofi_line {
    uint64_t bytes;            /* posted since one that asked */
    struct ofi_context *asker; /* the last that did and is on its way; NULL */
};
#define OFI_LINES 64

#define OFI_TUNED_PEERS                                                                            \
    16384u /* of an endpoint, at most; the connections of others are the host's */

struct kvr_endpoint {
    struct kvr_fabric_owner owner;
    struct kvr_rail *rail;
    struct fid_ep *ep; /* NULL once stopped */
    struct fid_cq *cq;
    struct fid_av *av;
    int wait_fd;
    struct kvr_completion held; /* found while falling asleep; goes before the queue */
    bool has_held;
    bool queue_broken; /* its queue cannot be read any more, and that was told */
    uint8_t address[KVR_ADDRESS_BYTES];
    uint32_t address_bytes;
    struct ofi_shm_watch *own_watch; /* shm only, as the next three */
    int shm_file;                    /* held while open; -1: none */
    bool worn_told;
    struct ofi_shm_peer *peers;   /* by peer */
    _Atomic uint64_t calls;       /* into a provider that may not come back; odd: inside */
    struct ofi_context *contexts; /* NULL where the provider needs none */
    struct ofi_context *free_contexts;
    uint32_t context_count;
    struct ofi_line lines[OFI_LINES];       /* where the rail acknowledges, as the next */
    struct ofi_context *ready;              /* were held, and are to be told */
    uint64_t untuned[OFI_TUNED_PEERS / 64]; /* bits: no write to that peer has completed yet */
};

/* fabric_ofi_info.c */
const struct ofi_provider_facts *ofi_provider_list(unsigned *ret_count);
/* The list for one of kvrail's spellings, native providers only; free it with fi_freeinfo. source:
 * a local address, or NULL. */
kvr_status ofi_getinfo(const char *spelling, const char *source, struct fi_info **ret_list,
                       struct kvr_error *error);
/* The same domain able to register device memory, or NULL; free it with fi_freeinfo. */
struct fi_info *ofi_getinfo_device(const struct ofi_provider_facts *provider,
                                   const struct fi_info *info);
bool ofi_usable(const struct ofi_provider_facts *provider, const struct fi_info *info);
const struct ofi_provider_facts *ofi_provider_of(const char *spelling, const struct fi_info *info);
uint64_t ofi_own_buffer_bytes(const struct ofi_provider_facts *provider); /* of one endpoint */
bool ofi_name_is_address(const char *name);
void ofi_facts(const struct ofi_provider_facts *provider, const struct fi_info *info,
               struct kvr_rail_facts *ret_facts);

/* fabric_ofi_device.c */
/* What a rail can do with device memory, whose domain able to register it is device_info (or NULL),
 * with a libfabric of that version. */
struct kvr_rail_device_facts ofi_device_facts(const struct ofi_provider_facts *provider,
                                              const struct fi_info *device_info, uint32_t version);
/* libfabric's code. attr: access and key are set. */
int ofi_device_register(struct kvr_rail *rail, const struct kvr_memory_span *span,
                        struct fi_mr_attr *attr, struct fid_mr **ret_mr);

/* fabric_ofi_shm.c */
#define OFI_SHM_PEERS        256 /* the provider has no more on one endpoint */
#define OFI_SHM_HEADER_BYTES 4096
#define OFI_SHM_LAYOUT_KNOWN 4   /* the version that the file's first byte names */
#define OFI_SHM_LAYOUT_ENDED 255 /* our own mark: only the name is left */
struct ofi_shm_watch;
struct ofi_shm_peer {
    struct ofi_shm_watch *watch;
    uint32_t uses; /* an address may be inserted twice */
    bool asked;    /* it was sent our name */
    bool answered; /* and has looked it up: it takes writes */
};
/* Watches the process behind an address; *ret_watch is NULL where nothing can be watched.
 * own_calls: of the endpoint whose address it is, else NULL. KVR_PEER_LOST: that process or that
 * endpoint is gone. */
kvr_status ofi_shm_watch_open(const char *address, const _Atomic uint64_t *own_calls,
                              struct ofi_shm_watch **ret_watch);
bool ofi_shm_watch_dead(const struct ofi_shm_watch *watch);
bool ofi_shm_watch_worn(const struct ofi_shm_watch *own_watch); /* needs a new epoch */
void ofi_shm_watch_close(struct ofi_shm_watch *watch);
/* Closing the endpoint of that name, whose file is open, will not take the name away. Nothing
 * happens where the file is not laid out as is known. */
void ofi_shm_watch_keep_name(const struct ofi_shm_watch *own_watch, int file, const char *name);

/* fabric_ofi_shm_file.c */
/* Keeps the file of an endpoint of ours from being removed by others until the descriptor is
 * closed. -1: it cannot be held, and nobody removes it. */
int ofi_shm_file_hold(const char *address);
void ofi_shm_clean(void); /* removes what dead processes left in /dev/shm, or replaces it */

/* fabric_ofi_shm_name.c */
/* Before an endpoint is closed: when somebody has yet to look up its name, closing leaves that. */
void ofi_shm_before_close(const struct kvr_endpoint *endpoint);
/* The name of an ended endpoint's open file becomes that of a small stand-in, which is dropped
 * later. False: not done, it is laid out in another way or there is no room. */
bool ofi_shm_replace(const char *name, int file);
void ofi_shm_drop_old_names(kvr_ns now);
/* All that are held; waits until a peer that idles has looked. */
void ofi_shm_drop_names(void);
#define OFI_SHM_ASIDE ".aside" /* what a stand-in is called at first, after the name */
/* What the file of an endpoint is called. */
const char *ofi_shm_name(const char *address);

/* fabric_ofi_memory.c */
void ofi_lock(struct kvr_rail *rail);
void ofi_unlock(struct kvr_rail *rail);
void ofi_memory_count_rail(const struct kvr_rail *rail, bool opened); /* else closed */
/* Tries whether an endpoint can be given what it pins for itself. */
kvr_status ofi_memory_room(struct kvr_rail *rail, struct kvr_error *error);
kvr_status ofi_memory_register(struct kvr_rail *rail, const struct kvr_memory_span *span,
                               struct kvr_memory **ret_memory, struct kvr_error *error);
void ofi_memory_release(struct kvr_memory *memory);
bool ofi_memory_pins_writable(struct kvr_rail *rail); /* tries it */
struct kvr_remote_key ofi_memory_key(const struct kvr_memory *memory);

/* fabric_ofi_endpoint.c */
/* *ret_wait_fd: to sleep on, or -1. */
int ofi_queue_open(struct kvr_rail *rail, struct fid_cq **ret_cq, int *ret_wait_fd);
kvr_status ofi_endpoint_open(struct kvr_rail *rail, struct kvr_endpoint **ret_endpoint,
                             struct kvr_error *error);
void ofi_endpoint_address(const struct kvr_endpoint *endpoint, uint8_t *ret_address,
                          uint32_t *ret_bytes);
void ofi_endpoint_stop(struct kvr_endpoint *endpoint);
void ofi_endpoint_close(struct kvr_endpoint *endpoint);
int ofi_endpoint_wait_fd(const struct kvr_endpoint *endpoint);
bool ofi_endpoint_may_sleep(struct kvr_endpoint *endpoint);

/* fabric_ofi_sockets.c */
void ofi_sockets_hang_up(struct kvr_endpoint *endpoint);
/* Every descriptor of this process, sockets or not. */
void ofi_sockets_each(void (*visit)(void *self, int fd), void *self);
bool ofi_same_address(const struct sockaddr *a, const struct sockaddr *b); /* IP and port */

/* fabric_ofi_congestion.c. wish: "auto" (cubic instead of bbr), a name, "host" or "". KVR_INVALID:
 * this host has no such thing. */
KVR_MUST_CHECK kvr_status ofi_congestion_choose(const char *wish, struct kvr_rail *rail,
                                                struct kvr_error *error);
void ofi_congestion_expect(struct kvr_endpoint *endpoint, uint64_t peer);    /* it was inserted */
void ofi_congestion_connected(struct kvr_endpoint *endpoint, uint64_t peer); /* a write ended */

/* fabric_ofi_write.c */
kvr_status ofi_peer_insert(struct kvr_endpoint *endpoint, const uint8_t *address, uint32_t bytes,
                           uint64_t *ret_peer, struct kvr_error *error);
void ofi_peer_remove(struct kvr_endpoint *endpoint, uint64_t peer);
void ofi_context_free(struct kvr_endpoint *endpoint, struct ofi_context *context);
kvr_status ofi_write(struct kvr_endpoint *endpoint, const struct kvr_fabric_write *write);
unsigned ofi_poll(struct kvr_endpoint *endpoint, struct kvr_completion *ret_completions,
                  unsigned capacity);

/* fabric_ofi_ack.c, where the rail acknowledges. Whether the next write is to ask for the target's
 * word; then that it was accepted. */
bool ofi_ack_asks(struct kvr_endpoint *endpoint, uint64_t peer, uint64_t bytes);
void ofi_ack_posted(struct kvr_endpoint *endpoint, struct ofi_context *write, uint64_t peer,
                    uint64_t bytes, bool asks);
/* The provider is through with it. True: to be told now; the context is no longer the caller's. */
bool ofi_ack_ended(struct kvr_endpoint *endpoint, struct ofi_context *write, bool failed);
/* Completions of those that were held. */
unsigned ofi_ack_ready(struct kvr_endpoint *endpoint, struct kvr_completion *ret_completions,
                       unsigned capacity);

/* A sentence about a failing call of libfabric, with its own number. */
kvr_status ofi_error(struct kvr_error *error, kvr_status status, ssize_t code, const char *call,
                     const struct kvr_rail *rail, const char *remedy);

#endif
