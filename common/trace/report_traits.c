/* What a report says of the host and the rails, for a comparison of two. Where the message is
 * absent, an older agent said nothing. */
#include "base/proto.h"
#include "trace/report_parts.h"

#define HOST_FIELDS(X)                                                                             \
    X(files_limit)                                                                                 \
    X(lockable_bytes)                                                                              \
    X(clock_known)                                                                                 \
    X(clock_synchronised)                                                                          \
    X(clock_error_us)                                                                              \
    X(rail_port_first)                                                                             \
    X(rail_port_last)
#define RAIL_FIELDS(X) X(pins_memory)
#define RAIL_MEMBERS(X)                                                                            \
    X(link.mtu, mtu)                                                                               \
    X(link.pfc_known, pfc_known)                                                                   \
    X(link.ecn_known, ecn_known)                                                                   \
    X(link.pfc, pfc)                                                                               \
    X(link.ecn, ecn)

bool report_host_traits_put(const struct kvr_host_traits *in, Kvrail__Report__HostTraits *out)
{
    kvrail__report__host_traits__init(out);
    HOST_FIELDS(KVR_PROTO_COPY)
    out->libfabric = kvr_proto_text(in->libfabric);
    return in->reported;
}

bool report_rail_traits_put(const struct kvr_rail_traits *in, Kvrail__Report__RailTraits *out)
{
    kvrail__report__rail_traits__init(out);
    RAIL_FIELDS(KVR_PROTO_COPY)
    RAIL_MEMBERS(KVR_PROTO_PUT)
    out->plane = kvr_proto_text(in->plane);
    out->network = kvr_proto_text(in->network);
    out->link = kvr_proto_text(kvr_link_name(in->link.kind));
    out->device_path = kvr_proto_text(kvr_path_name(in->device_path));
    return in->reported;
}

const char *report_host_traits_get(const Kvrail__Report__HostTraits *in,
                                   struct kvr_host_traits *out)
{
    if (!report_copy_text(in->libfabric, out->libfabric, sizeof(out->libfabric)))
        return "facts.traits.libfabric";
    HOST_FIELDS(KVR_PROTO_COPY)
    out->reported = true;
    return NULL;
}

/* A link or path that only a newer agent knows is unknown here. */
const char *report_rail_traits_get(const Kvrail__Report__RailTraits *in,
                                   struct kvr_rail_traits *out)
{
    if (!report_copy_text(in->plane, out->plane, sizeof(out->plane)))
        return "rails.traits.plane";
    if (!report_copy_text(in->network, out->network, sizeof(out->network)))
        return "rails.traits.network";
    RAIL_FIELDS(KVR_PROTO_COPY)
    RAIL_MEMBERS(KVR_PROTO_GET)
    out->link.kind = kvr_link_from_name(in->link);
    out->device_path = kvr_path_from_name(in->device_path);
    out->reported = true;
    return NULL;
}
