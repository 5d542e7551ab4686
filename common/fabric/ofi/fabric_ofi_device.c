/* Device memory on libfabric's rails. What 1.20 brought is compiled only where its headers are. */
#include "fabric/ofi/fabric_ofi_state.h"

#define DMABUF_SINCE FI_VERSION(1, 20)

#if FI_MAJOR_VERSION > 1 || FI_MINOR_VERSION >= 20
#define HAVE_DMABUF 1
#else
#define HAVE_DMABUF 0
#endif

struct kvr_rail_device_facts ofi_device_facts(const struct kvr_provider *provider,
                                              const struct fi_info *device_info, uint32_t version)
{
    struct kvr_rail_device_facts facts = {.hmem = KVR_WHY_NOTHING, .dmabuf = KVR_WHY_NOTHING};

    if (!provider->libfabric.device_memory)
        facts.hmem = KVR_WHY_HOST_ONLY;
    else if (device_info == NULL)
        facts.hmem = KVR_WHY_NO_HMEM;
    if (facts.hmem != KVR_WHY_NOTHING)
        facts.dmabuf = facts.hmem; /* FI_MR_DMABUF needs FI_HMEM */
    else if (!HAVE_DMABUF)
        facts.dmabuf = KVR_WHY_OLD_BUILD;
    else if (FI_VERSION_LT(version, DMABUF_SINCE))
        facts.dmabuf = KVR_WHY_OLD_LIBRARY;
    return facts;
}

bool ofi_device_wanted(const struct kvr_rail_device_facts *facts)
{
    return facts->dmabuf == KVR_WHY_NOTHING || facts->hmem == KVR_WHY_NOTHING;
}

#if HAVE_DMABUF

/* A provider calls the region's first byte base_addr + offset: that is what span->base is. Whether
 * the descriptor's own byte 0 has an address does not matter. */
static int register_dmabuf(struct kvr_rail *rail, const struct kvr_memory_span *span,
                           struct fi_mr_attr *attr, struct fid_mr **ret_mr)
{
    uintptr_t start = (uintptr_t)span->base - span->fd_offset;
    struct fi_mr_dmabuf dmabuf = {
        .fd = span->fd, .offset = span->fd_offset, .len = span->bytes, .base_addr = (void *)start};

    attr->dmabuf = &dmabuf;
    return fi_mr_regattr(rail->domain, attr, FI_MR_DMABUF, ret_mr);
}

#else

static int register_dmabuf(struct kvr_rail *rail, const struct kvr_memory_span *span,
                           struct fi_mr_attr *attr, struct fid_mr **ret_mr)
{
    (void)rail, (void)span, (void)attr, (void)ret_mr;
    return -FI_ENOSYS;
}

#endif

int ofi_device_register(struct kvr_rail *rail, const struct kvr_memory_span *span,
                        struct fi_mr_attr *attr, struct fid_mr **ret_mr)
{
    attr->iface = FI_HMEM_CUDA;
    attr->device.cuda = span->device;
    if (span->kind == KVR_SPAN_DMABUF)
        return register_dmabuf(rail, span, attr, ret_mr);
    return fi_mr_regattr(rail->domain, attr, 0, ret_mr);
}
