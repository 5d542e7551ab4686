/* Providers by name: one table says what kvrail knows about each. All other files ask the table
 * or a rail's facts, and compare no provider's name. ADDING.md says how to add a row. */
#ifndef KVR_FABRIC_FABRIC_PROVIDER_H
#define KVR_FABRIC_FABRIC_PROVIDER_H

#include "fabric/fabric.h"
#include "topology/topology.h"

#define KVR_PROVIDERS_MAX 16

/* As --rail: every usable card of the provider (kvr_host_cards_usable). */
#define KVR_RAIL_ALL "all"

/* Code that carries out a provider: libfabric, or a fabric of our own. */
struct kvr_provider_code {
    void (*open)(struct kvr_fabric *ret_fabric); /* fills it; nothing to close */
    unsigned (*list)(const char *provider, struct kvr_rail_facts *ret_facts, unsigned capacity,
                     struct kvr_error *error); /* see kvr_fabric_list */
    const char *(*version)(void);              /* "libfabric 1.17.0" */
};

/* What no attribute of a libfabric provider says. */
struct kvr_libfabric_facts {
    /* libfabric's exact names, the preferred one first: layered ones carry ";ofi_rxm". */
    const char *prov_names[2];
    const char *fabric_name; /* NULL: any */
    unsigned pieces_local;   /* of a write with an immediate; 0: the advertised limits hold */
    unsigned pieces_remote;
    uint64_t bytes_max;    /* the same for a write's bytes */
    uint64_t window_bytes; /* that suit a rail; 0: nothing is known */
    uint64_t pages_max;    /* that a card maps for all regions together; 0: nothing is known */
    bool doorbells;        /* FI_MORE holds a write back */
    bool completes_early;  /* when the kernel has taken a write, unless asked to wait longer */
    bool injects;          /* takes small writes with their bytes, and completes them like others */
    bool sized_queues;     /* an endpoint's queue that runs over loses arrivals */
    bool needs_senders;    /* a target's endpoint takes writes only from addresses that it knows */
    bool efa_options;      /* its endpoints have the options of libfabric's EFA */
    bool device_memory;    /* the cards reach GPU memory, where libfabric and the drivers help */
    uint32_t api_since;    /* the API that kvrail must be built with, at least; 0: any */
    uint32_t library_since; /* the libfabric that kvrail finds at run time, at least; 0: any */
    uint32_t trywait_since; /* fi_trywait works from this libfabric on; 0: always */
    bool by_address;        /* rails are told apart by a local IP address */
    bool memory_unlocked;   /* registrations and progress share a table without a lock */
    bool memory_cheap;      /* a registration is an entry of a table, whatever its size */
    bool closes_removed;    /* a connection ends with the address of its peer */
    kvr_ns rest_ns;         /* see kvr_rail_facts */
    bool hang_up_first;     /* closing an endpoint leaves its half-open connections dangling */
    const char *environment, *environment_value; /* set unless the user has set it */
    /* Buffers that each endpoint pins for messages, which we never send: how many, and by how much
     * each is larger than the value of `environment`. 0: none. */
    uint32_t own_buffers, own_buffer_extra;
};

struct kvr_provider {
    const char *name; /* as --provider takes it */
    const struct kvr_provider_code *code;
    const char *default_rail; /* where one rail is enough; "": the first that the provider lists */
    bool all_cards; /* agents open every usable card without --rail; else the default rail alone */
    bool loopback;  /* two processes of this host reach each other without a card: benchmarks */
    bool same_host_only; /* comes beside cards as CARDS+NAME, and has one rail */
    bool target_copies;  /* the target's processor copies */
    /* An endpoint accepts a connection from any host that can reach the rail's address, and nothing
     * is encrypted: agents with certificates warn of other addresses than loopback. */
    bool exposed;
    /* Connections are TCP sockets of the kernel: their congestion control can be chosen, and
     * network namespaces separate them. */
    bool kernel_tcp;
    bool rail_ports; /* endpoints listen on IP ports: --rail-ports */
    /* Cards that the provider is made for. device_mask 0: of any vendor. */
    struct kvr_provider_card {
        bool some; /* else none */
        kvr_card_kind kind;
        uint16_t vendor, device, device_mask;
    } card;
    /* Usual costs where no calibration exists, in nanoseconds: of a write, of each piece, of a byte
     * on the wire. processors: a processor of each end pays them, not a card. */
    struct kvr_provider_costs {
        double write, piece, wire_byte;
        bool processors;
    } costs;
    struct kvr_libfabric_facts libfabric; /* where libfabric is the code */
};

/* The row of that name; NULL: there is none. */
const struct kvr_provider *kvr_provider_find(const char *name);
/* Its endpoints are connected by rdma_cm: their addresses are those of IP interfaces. */
bool kvr_provider_by_rdma_cm(const char *name);
/* Rows in the order of preference for one card; NULL beyond the last. */
const struct kvr_provider *kvr_provider_at(unsigned index);

/* The provider that a card is made for: the first row that fits. */
const char *kvr_provider_of_card(const struct kvr_topology_card *card);

/* Names for the choices of an option, as "efa|verbs|tcp|local": all; those that an agent takes,
 * with mixed names ("tcp+local") for peers of its own host; those that need no card. */
const char *kvr_provider_choices(void);
const char *kvr_provider_choices_mixed(void);
const char *kvr_provider_choices_loopback(void);

/* The part before "+local"; true: local comes beside it. */
bool kvr_provider_cards(const char *mixed, char ret_provider[16]);

/* Fills *ret_fabric; nothing to close. A name without a row is refused by the fabric's rail_open.
 */
void kvr_fabric_of(const char *provider, struct kvr_fabric *ret_fabric);

/* The code's name and version: "libfabric 1.17.0", "kvrail 0.1.0". */
const char *kvr_fabric_version(const char *provider);

/* Rails that a provider offers on this host: fills at most capacity facts, returns how many there
 * are. 0 with a sentence in *error when there is none. */
unsigned kvr_fabric_list(const char *provider, struct kvr_rail_facts *ret_facts, unsigned capacity,
                         struct kvr_error *error);

/* Several providers in one agent: cards for peers on any host, and `local` for those of its own.
 * Each rail is of the provider that its options name, and what is opened on it goes to the same.
 * Nothing to close. */
void kvr_fabric_mixed(struct kvr_fabric *ret_fabric);

#endif
