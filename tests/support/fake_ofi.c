#include "tests/support/fake_ofi.h"

#include <arpa/inet.h>
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#define EFA_ADDRESS_BYTES 32

struct fake_ofi fake_ofi;

struct fake_ep {
    struct fid_ep ep;
    bool enabled, cuda_permitted, shared_memory_permitted;
    size_t rnr_retry;
};

int __wrap_fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
                      const struct fi_info *hints, struct fi_info **info);
int __wrap_fi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
uint32_t __wrap_fi_version(void);
uint32_t __wrap_kvr_libfabric_api(void);

/* ---- memory ---------------------------------------------------------------------------------- */

static int free_fid(struct fid *fid) /* each of ours begins with its fid */
{
    free(fid);
    return 0;
}

static struct fi_ops plain_ops = {.size = sizeof(struct fi_ops), .close = free_fid};

static int mr_answer(const struct fi_mr_attr *attr)
{
    if (attr->iface != FI_HMEM_SYSTEM)
        return fake_ofi.device_answer;
    return fake_ofi.bytes_max > 0 && attr->mr_iov->iov_len > fake_ofi.bytes_max ? -FI_ENOMEM : 0;
}

static int mr_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags,
                      struct fid_mr **ret_mr)
{
    int code = mr_answer(attr);

    (void)fid, (void)flags;
    if (code != 0)
        return code;
    *ret_mr = calloc(1, sizeof(**ret_mr));
    assert(*ret_mr != NULL);
    (*ret_mr)->fid.ops = &plain_ops;
    (*ret_mr)->mem_desc = *ret_mr;
    (*ret_mr)->key = 1;
    return 0;
}

static struct fi_ops_mr mr_ops = {.size = sizeof(struct fi_ops_mr), .regattr = mr_regattr};

/* ---- endpoints ------------------------------------------------------------------------------- */

static int ep_close(struct fid *fid)
{
    fake_ofi.endpoints--;
    return free_fid(fid);
}

static int ep_bind(struct fid *fid, struct fid *bound, uint64_t flags)
{
    (void)fid, (void)bound, (void)flags;
    return 0;
}

static int ep_control(struct fid *fid, int command, void *argument)
{
    struct fake_ep *ep = (struct fake_ep *)fid;

    (void)argument;
    if (command != FI_ENABLE)
        return -FI_ENOSYS;
    ep->enabled = true;
    fake_ofi.enabled++;
    fake_ofi.cuda_permitted = ep->cuda_permitted;
    fake_ofi.shared_memory_permitted = ep->shared_memory_permitted;
    fake_ofi.rnr_retry = ep->rnr_retry;
    return 0;
}

static struct fi_ops ep_fid_ops = {
    .size = sizeof(struct fi_ops), .close = ep_close, .bind = ep_bind, .control = ep_control};

static int set_flag(bool *flag, int answer, const void *value, size_t bytes)
{
    if (bytes != sizeof(bool))
        return -FI_EINVAL;
    if (answer == 0)
        memcpy(flag, value, sizeof(bool));
    return answer;
}

static int ep_setopt(struct fid *fid, int level, int name, const void *value, size_t bytes)
{
    struct fake_ep *ep = (struct fake_ep *)fid;

    fake_ofi.late += ep->enabled;
    if (level != FI_OPT_ENDPOINT)
        return -FI_ENOPROTOOPT;
    switch (name) {
    case FAKE_CUDA_API:
        return set_flag(&ep->cuda_permitted, fake_ofi.cuda_answer, value, bytes);
    case FAKE_SHARED_MEMORY:
        return set_flag(&ep->shared_memory_permitted, fake_ofi.shared_memory_answer, value, bytes);
    case FAKE_RNR_RETRY:
        if (bytes != sizeof(size_t) || ep->enabled)
            return -FI_EINVAL;
        if (fake_ofi.rnr_answer == 0)
            memcpy(&ep->rnr_retry, value, sizeof(size_t));
        return fake_ofi.rnr_answer;
    default:
        return -FI_ENOPROTOOPT;
    }
}

static int ep_getopt(struct fid *fid, int level, int name, void *value, size_t *bytes)
{
    (void)fid;
    if (level != FI_OPT_ENDPOINT || name != FAKE_EMULATED_WRITE)
        return -FI_ENOPROTOOPT;
    if (*bytes < sizeof(bool))
        return -FI_ETOOSMALL;
    if (fake_ofi.emulated_answer != 0)
        return fake_ofi.emulated_answer;
    memcpy(value, &fake_ofi.emulated_write, sizeof(bool));
    *bytes = sizeof(bool);
    return 0;
}

static struct fi_ops_ep ep_ops = {
    .size = sizeof(struct fi_ops_ep), .getopt = ep_getopt, .setopt = ep_setopt};

static int ep_getname(struct fid *fid, void *address, size_t *bytes)
{
    static uint32_t number;

    (void)fid;
    if (*bytes < EFA_ADDRESS_BYTES)
        return -FI_ETOOSMALL;
    *bytes = EFA_ADDRESS_BYTES;
    memset(address, 0, EFA_ADDRESS_BYTES);
    number++;
    memcpy(address, &number, sizeof(number));
    return 0;
}

static struct fi_ops_cm cm_ops = {.size = sizeof(struct fi_ops_cm), .getname = ep_getname};

static int open_ep(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ret_ep,
                   void *context)
{
    struct fake_ep *ep = calloc(1, sizeof(*ep));

    (void)domain, (void)info, (void)context;
    assert(ep != NULL);
    ep->ep.fid.ops = &ep_fid_ops;
    ep->ep.ops = &ep_ops;
    ep->ep.cm = &cm_ops;
    ep->cuda_permitted = true;
    ep->shared_memory_permitted = true;
    ep->rnr_retry = 3;
    fake_ofi.endpoints++;
    *ret_ep = &ep->ep;
    return 0;
}

/* ---- queues and tables ----------------------------------------------------------------------- */

static int open_cq(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **ret_cq,
                   void *context)
{
    (void)domain, (void)context;
    if (attr->wait_obj != FI_WAIT_NONE) /* as EFA before 2.4 */
        return -FI_ENOSYS;
    if (fake_ofi.queue_max > 0 && attr->size > fake_ofi.queue_max)
        return -FI_EINVAL;
    fake_ofi.queue_size = attr->size;
    *ret_cq = calloc(1, sizeof(**ret_cq));
    assert(*ret_cq != NULL);
    (*ret_cq)->fid.ops = &plain_ops;
    return 0;
}

static int open_av(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **ret_av,
                   void *context)
{
    (void)domain, (void)attr, (void)context;
    *ret_av = calloc(1, sizeof(**ret_av));
    assert(*ret_av != NULL);
    (*ret_av)->fid.ops = &plain_ops;
    return 0;
}

/* ---- domain, fabric, look-up ----------------------------------------------------------------- */

static struct fi_ops_domain domain_ops = {.size = sizeof(struct fi_ops_domain),
                                          .av_open = open_av,
                                          .cq_open = open_cq,
                                          .endpoint = open_ep};

static int open_domain(struct fid_fabric *fabric, struct fi_info *info,
                       struct fid_domain **ret_domain, void *context)
{
    (void)fabric, (void)info, (void)context;
    *ret_domain = calloc(1, sizeof(**ret_domain));
    assert(*ret_domain != NULL);
    (*ret_domain)->fid.ops = &plain_ops;
    (*ret_domain)->ops = &domain_ops;
    (*ret_domain)->mr = &mr_ops;
    return 0;
}

static struct fi_ops_fabric fabric_ops = {.size = sizeof(struct fi_ops_fabric),
                                          .domain = open_domain};

int __wrap_fi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
    (void)attr, (void)context;
    *fabric = calloc(1, sizeof(**fabric));
    assert(*fabric != NULL);
    (*fabric)->fid.ops = &plain_ops;
    (*fabric)->ops = &fabric_ops;
    return 0;
}

static bool at_address(const struct fi_info *info, const char *node)
{
    const struct sockaddr_in *have = info->src_addr;
    struct in_addr wanted;

    return info->addr_format == FI_SOCKADDR_IN && inet_pton(AF_INET, node, &wanted) == 1 &&
           have->sin_addr.s_addr == wanted.s_addr;
}

static bool fits(const struct fi_info *info, const char *node, const struct fi_info *hints)
{
    return strcmp(info->fabric_attr->prov_name, hints->fabric_attr->prov_name) == 0 &&
           (node == NULL || at_address(info, node)) &&
           !(fake_ofi.no_hmem && (hints->caps & FI_HMEM) != 0);
}

int __wrap_fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
                      const struct fi_info *hints, struct fi_info **info)
{
    struct fi_info **end = info;

    (void)version, (void)service, (void)flags;
    *info = NULL;
    for (const struct fi_info *at = fake_ofi.infos; at != NULL; at = at->next) {
        struct fi_info *copy = fits(at, node, hints) ? fi_dupinfo(at) : NULL;

        if (copy == NULL)
            continue;
        if ((hints->caps & FI_HMEM) != 0) {
            copy->caps |= FI_HMEM;
            copy->domain_attr->mr_mode |= FI_MR_HMEM;
        }
        *end = copy;
        end = &copy->next;
    }
    return *info != NULL ? 0 : -FI_ENODATA;
}

uint32_t __wrap_fi_version(void)
{
    return fake_ofi.version;
}

uint32_t __wrap_kvr_libfabric_api(void)
{
    return fake_ofi.api;
}

/* ---- the script ------------------------------------------------------------------------------ */

void fake_ofi_reset(void)
{
    fi_freeinfo(fake_ofi.infos);
    fake_ofi = (struct fake_ofi){.api = FI_VERSION(1, 20), .version = FI_VERSION(2, 6)};
}

static struct fi_info *add(const char *provider, const char *fabric, const char *domain)
{
    struct fi_info **end = &fake_ofi.infos, *info = fi_allocinfo();

    assert(info != NULL);
    info->fabric_attr->prov_name = strdup(provider);
    info->fabric_attr->name = strdup(fabric);
    info->domain_attr->name = strdup(domain);
    info->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    info->domain_attr->mr_key_size = sizeof(uint64_t);
    info->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    info->ep_attr->max_msg_size = UINT64_MAX;
    info->tx_attr->rma_iov_limit = 1;
    info->tx_attr->iov_limit = 4;
    while (*end != NULL)
        end = &(*end)->next;
    *end = info;
    return info;
}

struct fi_info *fake_ofi_add_efa(const char *domain)
{
    struct fi_info *info = add("efa", "efa", domain);

    info->addr_format = FI_ADDR_EFA;
    info->domain_attr->cq_data_size = 4;
    info->tx_attr->size = 4096;
    return info;
}

/* As libfabric 2.6 lists it: before the entry of fabric efa. */
struct fi_info *fake_ofi_add_efa_direct(const char *domain)
{
    struct fi_info *info = fake_ofi_add_efa(domain);

    free(info->fabric_attr->name);
    info->fabric_attr->name = strdup("efa-direct");
    info->mode |= FI_CONTEXT2;
    info->domain_attr->data_progress = FI_PROGRESS_AUTO;
    info->ep_attr->max_msg_size = 1 << 30;
    info->tx_attr->iov_limit = 2;
    info->tx_attr->inject_size = 32;
    return info;
}

static struct fi_info *add_verbs(const char *domain, const void *address, size_t bytes)
{
    struct fi_info *info = add("verbs;ofi_rxm", "IB-0xfe80000000000000", domain);

    info->domain_attr->cq_data_size = 8;
    info->tx_attr->size = 1024;
    info->src_addr = malloc(bytes);
    assert(info->src_addr != NULL);
    memcpy(info->src_addr, address, bytes);
    info->src_addrlen = bytes;
    return info;
}

struct fi_info *fake_ofi_add_verbs(const char *domain, const char *address)
{
    struct sockaddr_in source = {.sin_family = AF_INET};
    struct fi_info *info;
    int parsed = inet_pton(AF_INET, address, &source.sin_addr);

    assert(parsed == 1);
    (void)parsed;
    info = add_verbs(domain, &source, sizeof(source));
    info->addr_format = FI_SOCKADDR_IN;
    return info;
}

struct fi_info *fake_ofi_add_ib(const char *domain)
{
    static const uint8_t address[48] = {AF_IB}; /* a sockaddr_ib */
    struct fi_info *info = add_verbs(domain, address, sizeof(address));

    info->addr_format = FI_SOCKADDR_IB;
    return info;
}

struct fake_nic {
    struct fid_nic nic;
    struct fi_device_attr device;
    struct fi_bus_attr bus;
    struct fi_link_attr link;
};

static int nic_control(struct fid *fid, int command, void *argument);
static struct fi_ops nic_ops = {
    .size = sizeof(struct fi_ops), .close = free_fid, .control = nic_control};

static struct fake_nic *add_nic(const struct fi_bus_attr *bus, char *network_type)
{
    struct fake_nic *nic = calloc(1, sizeof(*nic));

    assert(nic != NULL);
    nic->nic.fid = (struct fid){.fclass = FI_CLASS_NIC, .ops = &nic_ops};
    nic->nic.device_attr = &nic->device;
    nic->nic.bus_attr = &nic->bus;
    nic->nic.link_attr = &nic->link;
    nic->bus = *bus;
    nic->link.network_type = network_type;
    return nic;
}

/* As fi_dupinfo asks for a copy. */
static int nic_control(struct fid *fid, int command, void *argument)
{
    if (command != FI_DUP)
        return -FI_ENOSYS;
    *(struct fid_nic **)argument =
        &add_nic(&((struct fake_nic *)fid)->bus, ((struct fake_nic *)fid)->link.network_type)->nic;
    return 0;
}

void fake_ofi_set_pci(struct fi_info *info, const char *pci)
{
    unsigned domain, bus, device, function;
    int parsed = sscanf(pci, "%x:%x:%x.%x", &domain, &bus, &device, &function);
    struct fi_bus_attr attr = {.bus_type = FI_BUS_PCI};

    assert(parsed == 4);
    (void)parsed;
    attr.attr.pci.domain_id = (uint16_t)domain;
    attr.attr.pci.bus_id = (uint8_t)bus;
    attr.attr.pci.device_id = (uint8_t)device;
    attr.attr.pci.function_id = (uint8_t)function;
    info->nic = &add_nic(&attr, NULL)->nic;
}

void fake_ofi_set_fabric(struct fi_info *info, const char *fabric, const char *network_type)
{
    static char types[2][16] = {"InfiniBand", "Ethernet"};

    free(info->fabric_attr->name);
    info->fabric_attr->name = strdup(fabric);
    for (unsigned i = 0; i < 2; i++)
        if (strcmp(types[i], network_type) == 0)
            info->nic = &add_nic(&(struct fi_bus_attr){0}, types[i])->nic;
}
