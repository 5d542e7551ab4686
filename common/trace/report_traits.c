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
#define RAIL_FIELDS(X)                                                                             \
    X(pins_memory)                                                                                 \
    X(node_known)                                                                                  \
    X(node)
#define GPU_FIELDS(X)                                                                              \
    X(node_known)                                                                                  \
    X(node)                                                                                        \
    X(groups)
#define RAIL_MEMBERS(X)                                                                            \
    X(link.mtu, mtu)                                                                               \
    X(link.pfc_known, pfc_known)                                                                   \
    X(link.ecn_known, ecn_known)                                                                   \
    X(link.pfc, pfc)                                                                               \
    X(link.ecn, ecn)

static void gpu_put(const struct kvr_gpu_traits *in, Kvrail__Report__Gpu *out)
{
    kvrail__report__gpu__init(out);
    GPU_FIELDS(KVR_PROTO_COPY)
    out->pci = kvr_proto_text(in->pci);
    out->model = kvr_proto_text(in->model);
}

bool report_host_traits_put(const struct kvr_host_traits *in, struct report_host_space *space)
{
    Kvrail__Report__HostTraits *out = &space->traits;

    kvrail__report__host_traits__init(out);
    HOST_FIELDS(KVR_PROTO_COPY)
    out->libfabric = kvr_proto_text(in->libfabric);
    for (uint32_t i = 0; i < in->gpu_count; i++) {
        gpu_put(&in->gpus[i], &space->gpus[i]);
        space->gpu_list[i] = &space->gpus[i];
    }
    out->n_gpus = in->gpu_count;
    out->gpus = space->gpu_list;
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

static bool gpu_get(const Kvrail__Report__Gpu *in, struct kvr_gpu_traits *out)
{
    GPU_FIELDS(KVR_PROTO_COPY)
    return report_copy_text(in->pci, out->pci, sizeof(out->pci)) &&
           report_copy_text(in->model, out->model, sizeof(out->model));
}

/* Of a host with more GPUs, which only a newer agent reports, the first are kept. */
const char *report_host_traits_get(const Kvrail__Report__HostTraits *in,
                                   struct kvr_host_traits *out)
{
    if (!report_copy_text(in->libfabric, out->libfabric, sizeof(out->libfabric)))
        return "facts.traits.libfabric";
    HOST_FIELDS(KVR_PROTO_COPY)
    for (; out->gpu_count < in->n_gpus && out->gpu_count < KVR_GPU_TRAITS_MAX; out->gpu_count++)
        if (!gpu_get(in->gpus[out->gpu_count], &out->gpus[out->gpu_count]))
            return "facts.traits.gpus";
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
