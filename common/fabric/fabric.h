/* The contract between kvrail and a network provider.
 *
 *   rail      one card: opened once; owns the memory registrations; outlives its endpoints
 *   endpoint  one epoch of a rail: where writes leave and arrive; replaced after a failure
 *   memory    one region registered on one rail
 *
 * A write carries an immediate that arrives at the target after (never before) its bytes; of its 64
 * bits the lower `immediate_bits` of the facts arrive, the others as 0. Writes arrive in any order.
 * A stranger that reaches an endpoint may be able to write with an immediate of its choice (rule
 * 5). A completion at the writer says that the local bytes may be reused; it does not say that they
 * arrived. Everything that differs between providers is in `struct kvr_rail_facts`; only the table
 * of fabric_provider.c knows a provider by name.
 *
 * Threads: rail_open, memory_register and memory_release may be called from any thread; all calls
 * on one endpoint come from one thread (the rail group's). Nothing blocks but open, register,
 * release and close; with grant_keys the group's thread registers and releases, and neither blocks;
 * another thread does so with at_once.
 * What a device's pages are, release waits until targets have let go of. */
#ifndef KVR_FABRIC_FABRIC_H
#define KVR_FABRIC_FABRIC_H

#include <stddef.h>

#include "base/clock.h"
#include "base/status.h"
#include "base/types.h"
#include "device/device.h"
#include "fabric/device_path.h"
#include "fabric/rail_ports.h"

struct kvr_rail;
struct kvr_endpoint;
struct kvr_memory;

struct kvr_rail_options {
    char provider[16];         /* kvrail's spelling: tcp, local, verbs, efa */
    char name[KVR_NAME_BYTES]; /* an address ("127.0.0.2"), an interface or a domain; "" = the first
                                */
    struct kvr_rail_ports ports; /* that endpoints listen on, where the provider has rail_ports */
    kvr_ns port_rest;            /* how long such a port rests after its epoch */
    uint32_t copy_threads; /* of a target that copies itself (local): its own and helpers; 0: one */
    bool device_memory;    /* GPU memory will be registered, where facts.device allows it */
    bool device_emulated; /* GPU memory is host memory in disguise (tests): every card reaches it */
    /* That may write to an endpoint at once, and how many writes each of them may have on the way:
     * its queue has room for them, where the provider lets it be sized. peers 0: the provider's own
     * size; window_writes 0: as many as the provider takes. */
    uint32_t peers, window_writes;
    uint32_t inline_bytes; /* writes of up to so many bytes are injected, where the provider allows
                              it; 0: none */
    /* This host's device could not import the pages of a neighbour, so the transfer takes another
     * path. The rail's thread calls it once for each region and device. May be NULL. */
    void (*unseen)(const struct kvr_error *error);
    char congestion[16]; /* congestion control of connections, where the provider uses sockets: a
                            name, "auto": cubic instead of bbr, "host" or "": the host's own */
    bool acknowledge;    /* complete a write only when the target has the bytes, also where the
                            provider would report it earlier */
};

/* Of a provider that can do both. */
typedef enum kvr_writes {
    KVR_WRITES_UNKNOWN,  /* it does not say */
    KVR_WRITES_RDMA,     /* the card writes */
    KVR_WRITES_EMULATED, /* the provider sends, and the target's processor copies */
} kvr_writes;

struct kvr_rail_facts {
    char provider[16];                  /* kvrail's spelling */
    char provider_path[KVR_NAME_BYTES]; /* libfabric's own, e.g. "net" or "verbs;ofi_rxm" */
    char name[KVR_NAME_BYTES];          /* the domain */
    char interface[KVR_NAME_BYTES];     /* or "" */
    char source[KVR_NAME_BYTES];        /* local address as text */
    char network[KVR_PLANE_BYTES];      /* its network (rail_network.h), or "" */
    char pci[16];                       /* "0000:9d:00.0", or "" */
    char congestion[16]; /* congestion control of the connections; "": none, or unknown */
    uint64_t speed_bps;  /* 0: the provider does not say */
    struct kvr_write_facts {
        uint32_t pieces_local; /* of one write with an immediate */
        uint32_t pieces_remote;
        uint64_t bytes_max;       /* of one write */
        uint32_t outstanding_max; /* writes that the provider takes before EAGAIN */
        uint32_t inject_bytes;
        uint64_t window_bytes; /* on the way, that suit the rail; 0: nothing is known */
        bool doorbells; /* a write with `more` waits for one without; else `more` is ignored */
    } write;
    uint32_t immediate_bits; /* that arrive of a write's immediate: 32 or 64 */
    kvr_writes writes;       /* of this end; the other end may still emulate them */
    bool has_wait_fd;        /* endpoint_wait_fd works */
    bool progress_manual;    /* nothing moves unless the endpoint is polled */
    bool same_host_only;
    bool needs_senders; /* a write arrives only from an endpoint that was inserted here */
    bool exposed;       /* any host that reaches `source` may connect, and nothing is encrypted */
    bool target_copies; /* the target reads the source's memory itself: rule 11 */
    bool moves_pages;   /* such a target's device copies pages of another device (KVR_SPAN_PAGES) */
    bool pins_memory;   /* registered memory counts towards the limit of locked memory */
    bool pins_writable; /* memory_register takes only pages that this process may write */
    bool closes;        /* peer_close works */
    kvr_ns rest_ns;     /* all arrivals of a connection have been read when it has rested so long */
    bool grant_keys;    /* a registration of host memory costs next to nothing and takes the key
                           that it is asked for: a target opens its regions for each GRANT alone */
    struct kvr_rail_device_facts device; /* of one opened for device_memory */
};

typedef enum kvr_span_kind {
    KVR_SPAN_HOST,
    KVR_SPAN_DMABUF, /* of a GPU, by descriptor; base is only what its byte 0 is called */
    KVR_SPAN_CUDA,   /* of a GPU, base is its device pointer in this process */
    KVR_SPAN_PAGES,  /* of a device that moves them itself; base is only what byte 0 is called. Read
                        from as `import` says, written to as `pages` of `device` */
} kvr_span_kind;

/* Memory that is to be registered. */
struct kvr_memory_span {
    void *base;
    uint64_t bytes;
    bool local, remote; /* it is read from by writes; peers may write to it */
    uint64_t key;       /* that peers are to have, where the rail has grant_keys; 0: any */
    bool at_once;       /* with key: KVR_AGAIN where the rail's own thread is at work */
    int fd; /* the sealed memfd that lies at base, or the dmabuf; borrowed. -1: there is none */
    uint64_t fd_offset;
    kvr_span_kind kind;
    int32_t device; /* the GPU's number */
    const struct kvr_device_import *import;
    struct kvr_device *mover; /* with pages: outlives the registration, and is used by its rail's
                                 thread alone */
    struct kvr_device_memory *pages;
};

struct kvr_fabric_piece {
    void *local;
    struct kvr_memory *memory; /* the local registration */
    uint64_t remote, key;      /* remote address as the key's base + offset */
    uint64_t bytes;
};

struct kvr_fabric_write {
    const struct kvr_fabric_piece *pieces;
    unsigned piece_count; /* ≤ KVR_CHUNK_PIECES_MAX, and once joined ≤ facts.write.pieces_* */
    uint64_t peer;        /* from peer_insert on the same endpoint */
    uint64_t immediate;
    uint64_t context;  /* comes back in the completion */
    bool more;         /* another write follows at once */
    bool acknowledged; /* complete it when the target has the bytes, if the provider could do so
                          earlier */
};

/* Pieces that touch at an end are one run of bytes there. A card reads and writes runs, so it is
 * those that its limits count. */
static inline bool kvr_fabric_joins_local(const struct kvr_fabric_piece *before,
                                          const struct kvr_fabric_piece *piece)
{
    return before->memory == piece->memory &&
           (const uint8_t *)before->local + before->bytes == (const uint8_t *)piece->local;
}

static inline bool kvr_fabric_joins_remote(const struct kvr_fabric_piece *before,
                                           const struct kvr_fabric_piece *piece)
{
    return before->key == piece->key && before->remote + before->bytes == piece->remote;
}

/* Whether a provider with these limits takes the pieces in one write. */
static inline bool kvr_fabric_takes(const struct kvr_write_facts *facts,
                                    const struct kvr_fabric_piece *pieces, unsigned piece_count)
{
    unsigned locals = 1, remotes = 1;

    for (unsigned i = 1; i < piece_count; i++) {
        locals += !kvr_fabric_joins_local(&pieces[i - 1], &pieces[i]);
        remotes += !kvr_fabric_joins_remote(&pieces[i - 1], &pieces[i]);
    }
    return piece_count >= 1 && piece_count <= KVR_CHUNK_PIECES_MAX &&
           locals <= facts->pieces_local && remotes <= facts->pieces_remote;
}

typedef enum kvr_completion_kind {
    KVR_COMPLETION_WRITTEN, /* context: local bytes may be reused */
    KVR_COMPLETION_ARRIVED, /* immediate: a peer's write is in our memory */
    KVR_COMPLETION_UNMOVED, /* immediate: a peer's write came, and our device could not move it */
    KVR_COMPLETION_FAILED,  /* context when has_context; status says why: KVR_COPY_FAILED, the
                               target cannot move these pages, and the pair is as good as before.
                               Without: KVR_PEER_LOST, a peer's write has broken off, and the
                               others' go on; any other, the endpoint is of no more use. The
                               endpoint has lost something: end its epoch */
} kvr_completion_kind;

struct kvr_completion {
    kvr_completion_kind kind;
    bool has_context;
    uint64_t immediate;
    uint64_t context;
    kvr_status status;
    int provider_code;
};

struct kvr_fabric_ops {
    kvr_status (*rail_open)(void *self, const struct kvr_rail_options *options,
                            struct kvr_rail **ret_rail, struct kvr_error *error);
    void (*rail_close)(struct kvr_rail *rail); /* after its endpoints and memories */
    const struct kvr_rail_facts *(*rail_facts)(const struct kvr_rail *rail);

    kvr_status (*memory_register)(struct kvr_rail *rail, const struct kvr_memory_span *span,
                                  struct kvr_memory **ret_memory, struct kvr_error *error);
    void (*memory_release)(struct kvr_memory *memory);
    /* key 0: no peer may write to it. */
    struct kvr_remote_key (*memory_key)(const struct kvr_memory *memory);

    /* A new endpoint on an address never used before in this boot. */
    kvr_status (*endpoint_open)(struct kvr_rail *rail, struct kvr_endpoint **ret_endpoint,
                                struct kvr_error *error);
    void (*endpoint_address)(const struct kvr_endpoint *endpoint, uint8_t *ret_address,
                             uint32_t *ret_bytes); /* at most KVR_ADDRESS_BYTES */
    /* Stops it: after this returns nothing new lands and nothing of ours is read through it. Its
     * queue can still be polled until empty. */
    void (*endpoint_stop)(struct kvr_endpoint *endpoint);
    void (*endpoint_close)(struct kvr_endpoint *endpoint);

    kvr_status (*peer_insert)(struct kvr_endpoint *endpoint, const uint8_t *address, uint32_t bytes,
                              uint64_t *ret_peer, struct kvr_error *error);
    void (*peer_remove)(struct kvr_endpoint *endpoint, uint64_t peer);
    /* Closes the connection to a peer, while no write to the peer is in flight, at both ends. The
     * next write connects anew; *peer may have another number then. KVR_AGAIN: it cannot be closed
     * just now, and stays. Anything else: the peer is removed. NULL, or it does nothing:
     * facts.closes says whether it can. */
    kvr_status (*peer_close)(struct kvr_endpoint *endpoint, uint64_t *peer);

    /* KVR_OK: accepted, and exactly one WRITTEN or FAILED follows (or endpoint_stop). KVR_AGAIN:
     * not accepted. Anything else: not accepted and the pair is broken. */
    kvr_status (*write)(struct kvr_endpoint *endpoint, const struct kvr_fabric_write *write);
    /* 0: there is nothing, so that one may think of sleeping. */
    unsigned (*poll)(struct kvr_endpoint *endpoint, struct kvr_completion *ret_completions,
                     unsigned capacity);

    /* A descriptor to sleep on, -1 where the provider has none. */
    int (*endpoint_wait_fd)(const struct kvr_endpoint *endpoint);
    /* True when it is safe to sleep on the descriptor now (nothing is pending). */
    bool (*endpoint_may_sleep)(struct kvr_endpoint *endpoint);
};

/* For a file that has every operation as a static function of its name, `write` as post. */
#define KVR_FABRIC_OPS                                                                             \
    {                                                                                              \
        .rail_open = rail_open, .rail_close = rail_close, .rail_facts = rail_facts,                \
        .memory_register = memory_register, .memory_release = memory_release,                      \
        .memory_key = memory_key, .endpoint_open = endpoint_open,                                  \
        .endpoint_address = endpoint_address, .endpoint_stop = endpoint_stop,                      \
        .endpoint_close = endpoint_close, .peer_insert = peer_insert, .peer_remove = peer_remove,  \
        .write = post, .poll = poll, .endpoint_wait_fd = endpoint_wait_fd,                         \
        .endpoint_may_sleep = endpoint_may_sleep,                                                  \
    }

/* The first member of a provider's kvr_rail, kvr_endpoint and kvr_memory that may lie beside
 * another provider's: only fabric_mixed sets and reads it. */
struct kvr_fabric_owner {
    const struct kvr_fabric_ops *ops;
};

/* One way to reach networks: fabric_ofi for real, fabric_sim for the simulator. */
struct kvr_fabric {
    const struct kvr_fabric_ops *ops;
    void *self;
};

#endif
