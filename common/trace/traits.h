/* What an agent says of its host and its rails. `kvrail doctor --peer` compares what two agents
 * should have in common; the dashboard groups rails by where they lie. An older agent reports none
 * of it. Plain values. */
#ifndef KVR_TRACE_TRAITS_H
#define KVR_TRACE_TRAITS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/data_path.h"
#include "base/link.h"
#include "base/names.h"
#include "base/types.h"

#define KVR_LIBFABRIC_VERSION_BYTES 32
#define KVR_GPU_TRAITS_MAX          16 /* GPUs of a host that are reported */

struct kvr_gpu_traits {
    char pci[16];               /* "0000:9d:00.0" */
    char model[KVR_NAME_BYTES]; /* from the PCI database, or "" */
    bool node_known;
    uint32_t node;   /* the system's number of its NUMA node */
    uint32_t groups; /* the rail groups that are nearest to it, a bit each */
};

struct kvr_host_traits {
    bool reported;
    char libfabric[KVR_LIBFABRIC_VERSION_BYTES]; /* "1.17.0"; "": none is loaded */
    uint64_t files_limit;                        /* of the agent; UINT64_MAX: none */
    uint64_t lockable_bytes; /* that cards may lock for it; UINT64_MAX: no limit */
    bool clock_known;        /* the next two */
    bool clock_synchronised;
    uint64_t clock_error_us; /* a bound, a power of two of milliseconds: it changes seldom */
    uint32_t rail_port_first, rail_port_last; /* --rail-ports; 0: the kernel chooses */
    uint32_t gpu_count;
    struct kvr_gpu_traits gpus[KVR_GPU_TRAITS_MAX]; /* beyond the count they are not read */
};

struct kvr_rail_traits {
    bool reported;
    char plane[KVR_PLANE_BYTES];   /* the operator's label, or the network, or "" */
    char network[KVR_PLANE_BYTES]; /* its IP network, or "" */
    struct kvr_link link;
    kvr_path device_path; /* of pages on a GPU; KVR_PATH_NONE: not asked, no GPU is served */
    bool pins_memory;     /* its regions count towards lockable_bytes */
    bool node_known;
    uint32_t node; /* the system's number of the NUMA node of all cards of its group */
};

#endif
