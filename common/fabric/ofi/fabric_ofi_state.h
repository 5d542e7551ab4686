/* What the files behind fabric_ofi share: libfabric's objects under our three nouns. */
#ifndef KVR_FABRIC_FABRIC_OFI_STATE_H
#define KVR_FABRIC_FABRIC_OFI_STATE_H

#include <pthread.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <sys/socket.h>

#include "base/pace.h"
#include "fabric/fabric.h"
#include "fabric/fabric_provider.h"

struct kvr_rail {
    struct kvr_fabric_owner owner;
    struct fi_info *info;
    const struct kvr_provider *provider;
    struct kvr_rail_facts facts;
    uint64_t immediate_mask; /* of the bits that arrive */
    uint32_t inline_bytes;   /* of a write that is injected, at most */
    uint32_t queue_entries;  /* of an endpoint's queue; 0: the provider's own size */
    bool acknowledges;       /* writes are completed when the target has them (fabric_ofi_ack.c) */
    char congestion[16]; /* control of its connections (fabric_ofi_congestion.c); "": the host's */
    struct kvr_rail_ports ports; /* first 0: whichever the kernel gives */
    kvr_ns port_rest;
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
    struct ofi_context *next; /* in the list of free, held or ready ones */
    uint64_t peer;
    /* Where the rail acknowledges. */
    struct ofi_context *held; /* completions that wait for this write's acknowledgement */
    uint64_t paced;           /* bytes that it acknowledges, for the line's pace */
    bool asks;                /* for an acknowledgement */
};

/* Writes to one peer, or to several peers that share the entry: then fewer are held. */
struct ofi_line {
    uint64_t bytes;            /* posted since one that asked */
    uint64_t ask_bytes;        /* a write asks at so many; 0: the most, no pace is known */
    struct ofi_context *asker; /* the last that did and is on its way; NULL */
    struct kvr_pace pace;      /* of acknowledged bytes */
};
#define OFI_LINES 64

/* Of an endpoint, that have bits below. Connections to others are neither tuned nor closed. */
#define OFI_PEERS 16384u

struct kvr_endpoint {
    struct kvr_fabric_owner owner;
    struct kvr_rail *rail;
    struct fid_ep *ep; /* NULL once stopped */
    struct fid_cq *cq;
    struct fid_av *av;
    int wait_fd;
    struct kvr_completion held; /* found while falling asleep; goes before the queue */
    bool has_held;
    bool queue_broken; /* its queue cannot be read any more, and that was reported */
    uint8_t address[KVR_ADDRESS_BYTES];
    uint32_t address_bytes;
    uint16_t port;                /* entered in the book of ports; 0: none */
    struct ofi_context *contexts; /* NULL where the provider needs none */
    struct ofi_context *free_contexts;
    uint32_t context_count;
    struct ofi_line lines[OFI_LINES]; /* where the rail acknowledges, as the next */
    struct ofi_context *ready;        /* were held, and will be reported next */
    uint64_t untuned[OFI_PEERS / 64]; /* no write to that peer has completed yet */
    uint64_t refused[OFI_PEERS / 64]; /* the provider refused the last write to it */
};

/* fabric_ofi_info.c */
/* The list for a name of kvrail's, native providers only; free it with fi_freeinfo. source: a local
 * address, or NULL. */
kvr_status ofi_getinfo(const char *name, const char *source, struct fi_info **ret_list,
                       struct kvr_error *error);
/* The same domain, at the same address, able to register device memory; or NULL. Free it with
 * fi_freeinfo. */
struct fi_info *ofi_getinfo_device(const struct kvr_provider *provider, const struct fi_info *info);
bool ofi_usable(const struct kvr_provider *provider, const struct fi_info *info);
uint64_t ofi_own_buffer_bytes(const struct kvr_provider *provider); /* of one endpoint */
bool ofi_name_is_address(const char *name);
void ofi_facts(const struct kvr_provider *provider, const struct fi_info *info,
               struct kvr_rail_facts *ret_facts);

/* fabric_ofi_device.c */
/* What a rail can do with device memory. device_info: its domain with FI_HMEM, or NULL; version:
 * libfabric's. */
struct kvr_rail_device_facts ofi_device_facts(const struct kvr_provider *provider,
                                              const struct fi_info *device_info, uint32_t version);
/* A rail with these facts was opened for device memory, and takes it. */
bool ofi_device_wanted(const struct kvr_rail_device_facts *facts);
/* libfabric's code. attr: access and key are set. */
int ofi_device_register(struct kvr_rail *rail, const struct kvr_memory_span *span,
                        struct fi_mr_attr *attr, struct fid_mr **ret_mr);

/* fabric_ofi_memory.c */
void ofi_lock(struct kvr_rail *rail);
void ofi_unlock(struct kvr_rail *rail);
void ofi_memory_count_rail(const struct kvr_rail *rail, bool opened); /* else closed */
/* Tries whether an endpoint can pin its own buffers. */
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

/* fabric_ofi_options.c */
/* Of an endpoint that is not enabled yet. Returns libfabric's code. */
int ofi_options_set(const struct kvr_rail *rail, struct fid_ep *ep);
/* Tries them on an endpoint of its own, and corrects the rail's facts. */
void ofi_options_try(struct kvr_rail *rail);

/* fabric_ofi_ports.c. A port out of the rail's range, which was used as `before` says. */
struct ofi_port {
    uint16_t number;
    struct port_use before;
};
void ofi_ports_count_rail(const struct kvr_rail *rail, bool opened); /* else closed */
/* KVR_FULL: the range has none, and *error says why. */
kvr_status ofi_port_take(const struct kvr_rail *rail, const struct port_set *taken,
                         struct ofi_port *ret_port, struct kvr_error *error);
void ofi_port_give_back(const struct ofi_port *port); /* no peer has heard of it */
bool ofi_port_claim(uint16_t port); /* one that the kernel gave; false: used too recently */
void ofi_port_end(uint16_t port);   /* its epoch ended; 0: there was none */
uint16_t ofi_port_of(const void *address, uint32_t format); /* 0: not of IP */
/* A copy that binds to the port; free it with fi_freeinfo. */
struct fi_info *ofi_info_at_port(const struct fi_info *info, uint16_t port);

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
kvr_status ofi_peer_close(struct kvr_endpoint *endpoint, uint64_t *peer);
bool ofi_peer_may_go(const struct kvr_endpoint *endpoint, uint64_t peer); /* its address */
void ofi_peer_remove(struct kvr_endpoint *endpoint, uint64_t peer);
void ofi_context_free(struct kvr_endpoint *endpoint, struct ofi_context *context);
kvr_status ofi_write(struct kvr_endpoint *endpoint, const struct kvr_fabric_write *write);
unsigned ofi_poll(struct kvr_endpoint *endpoint, struct kvr_completion *ret_completions,
                  unsigned capacity);

/* fabric_ofi_ack.c, where the rail acknowledges. Whether the next write asks for an
 * acknowledgement; then that the provider accepted it. */
bool ofi_ack_asks(struct kvr_endpoint *endpoint, uint64_t peer, uint64_t bytes);
void ofi_ack_posted(struct kvr_endpoint *endpoint, struct ofi_context *write, uint64_t peer,
                    uint64_t bytes, bool asks);
/* The provider has completed the write. True: report it now; the context is free again. */
bool ofi_ack_ended(struct kvr_endpoint *endpoint, struct ofi_context *write, bool failed);
/* Completions that were held. */
unsigned ofi_ack_ready(struct kvr_endpoint *endpoint, struct kvr_completion *ret_completions,
                       unsigned capacity);

/* A sentence about a failing call of libfabric, with its own number. */
kvr_status ofi_error(struct kvr_error *error, kvr_status status, ssize_t code, const char *call,
                     const struct kvr_rail *rail, const char *remedy);

#endif
