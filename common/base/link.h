/* The link of a rail, as far as both ends of it should agree. Plain values. */
#ifndef KVR_BASE_LINK_H
#define KVR_BASE_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/names.h"

/* X(symbol, name, what a rail's packets are) */
#define KVR_LINK_LIST(X)                                                                           \
    X(KVR_LINK_ETHERNET, "ethernet", "of IP, on Ethernet")                                         \
    X(KVR_LINK_ROCE_V1, "roce-v1", "of RoCE v1: they pass no router")                              \
    X(KVR_LINK_ROCE_V2, "roce-v2", "of RoCE v2")                                                   \
    X(KVR_LINK_INFINIBAND, "infiniband", "of InfiniBand")                                          \
    X(KVR_LINK_IPOIB, "ipoib", "of IP, on InfiniBand")

typedef enum kvr_link_kind {
    KVR_LINK_UNKNOWN,
    KVR_LINK_LIST(KVR_SYMBOL) KVR_LINK_END
} kvr_link_kind;

const char *kvr_link_name(kvr_link_kind kind);      /* "" for KVR_LINK_UNKNOWN */
kvr_link_kind kvr_link_from_name(const char *name); /* KVR_LINK_UNKNOWN: it is none of them */

struct kvr_link {
    kvr_link_kind kind;
    uint32_t mtu; /* of the interface; 0: unknown */
    /* Of Ethernet, where the kernel says so: a bit for each priority. */
    bool pfc_known, ecn_known;
    uint32_t pfc; /* that pauses instead of dropping */
    uint32_t ecn; /* on which RoCE slows down when a switch marks its packets */
};

#endif
