/* Options of endpoints that libfabric's EFA has, set between fi_endpoint and fi_enable. */
#include "fabric/ofi/fabric_ofi_state.h"

#include <assert.h>
#include <rdma/fi_ext.h>

/* Their numbers, which are libfabric's ABI: the headers of 1.17 name only one of them. A library
 * that is too old for an option answers -FI_ENOPROTOOPT. */
enum {
    CUDA_API = 10,                              /* FI_OPT_CUDA_API_PERMITTED, since 1.18 */
    SHARED_MEMORY = 11,                         /* FI_OPT_SHARED_MEMORY_PERMITTED, since 1.21 */
    RNR_RETRY = -FI_PROV_SPECIFIC_EFA,          /* FI_OPT_EFA_RNR_RETRY */
    EMULATED_WRITE = -FI_PROV_SPECIFIC_EFA + 2, /* FI_OPT_EFA_EMULATED_WRITE, since 1.18 */
};
static_assert(RNR_RETRY == (int)FI_OPT_EFA_RNR_RETRY, "libfabric's");
#if FI_MAJOR_VERSION > 1 || FI_MINOR_VERSION >= 18
static_assert(CUDA_API == (int)FI_OPT_CUDA_API_PERMITTED, "libfabric's");
static_assert(EMULATED_WRITE == (int)FI_OPT_EFA_EMULATED_WRITE, "libfabric's");
#endif
#if FI_MAJOR_VERSION > 1 || FI_MINOR_VERSION >= 21
static_assert(SHARED_MEMORY == (int)FI_OPT_SHARED_MEMORY_PERMITTED, "libfabric's");
#endif

#define RETRY_FOREVER 7 /* of RNR_RETRY, as for verbs: no smaller number means without end */

static int forbid(struct fid_ep *ep, int option)
{
    bool permitted = false;

    return fi_setopt(&ep->fid, FI_OPT_ENDPOINT, option, &permitted, sizeof(permitted));
}

/* Where a write takes a receive buffer of the target, and there is none just then, the source's
 * card tries again by itself. After fewer tries libfabric would queue the write and wait ever
 * longer. A target that is gone is found by its silence. Some cards keep their own number. */
static void retry_forever(struct fid_ep *ep)
{
    size_t times = RETRY_FOREVER;

    (void)fi_setopt(&ep->fid, FI_OPT_ENDPOINT, RNR_RETRY, &times, sizeof(times));
}

/* Left to itself, the provider calls CUDA with the address of each registration of a GPU's memory
 * when it is first written from. That fails for memory of VMM, and a region that is known only by a
 * dmabuf has no address here. */
int ofi_options_set(const struct kvr_rail *rail, struct fid_ep *ep)
{
    if (!rail->provider->libfabric.efa_options)
        return 0;
    retry_forever(ep);
    (void)forbid(ep, SHARED_MEMORY); /* the environment has switched it off, too */
    return ofi_device_wanted(&rail->facts.device) ? forbid(ep, CUDA_API) : 0;
}

static kvr_path_why why_refused(int code)
{
    /* -FI_EINVAL: there is no CUDA to be permitted or not. */
    return code == -FI_EINVAL ? KVR_WHY_NO_CUDA : KVR_WHY_CUDA_CALLS;
}

static kvr_writes writes_of(struct fid_ep *ep)
{
    bool emulated = false;
    size_t bytes = sizeof(emulated);

    if (fi_getopt(&ep->fid, FI_OPT_ENDPOINT, EMULATED_WRITE, &emulated, &bytes) != 0 ||
        bytes != sizeof(emulated))
        return KVR_WRITES_UNKNOWN;
    return emulated ? KVR_WRITES_EMULATED : KVR_WRITES_RDMA;
}

/* An endpoint that cannot be opened is reported when one is needed. */
void ofi_options_try(struct kvr_rail *rail)
{
    struct fid_ep *ep;
    int code;

    if (!rail->provider->libfabric.efa_options ||
        fi_endpoint(rail->domain, rail->info, &ep, NULL) != 0)
        return;
    code = ofi_options_set(rail, ep);
    if (code != 0)
        rail->facts.device =
            (struct kvr_rail_device_facts){.dmabuf = why_refused(code), .hmem = why_refused(code)};
    rail->facts.writes = writes_of(ep);
    fi_close(&ep->fid);
}
