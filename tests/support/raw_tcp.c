#include "tests/support/raw_tcp.h"

#include <stdio.h>
#include <string.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "fabric/ofi/fabric_ofi_library.h"

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_av *av;
static struct fid_cq *cq;
struct fid_ep *raw_ep;
fi_addr_t raw_target;

int raw_failed(const char *call, ssize_t code)
{
    fprintf(stderr, "%s failed: %s\n", call, fi_strerror((int)-code));
    return 1;
}

/* 1.17 calls the native provider net, later ones call it tcp. */
static struct fi_info *info_find(void)
{
    static const char *const names[] = {"net", "tcp"};
    struct fi_info *found = NULL;

    for (size_t i = 0; i < 2 && found == NULL; i++) {
        struct fi_info *hints = fi_allocinfo();

        if (hints == NULL)
            return NULL;
        hints->ep_attr->type = FI_EP_RDM;
        hints->caps = FI_MSG | FI_RMA | FI_WRITE | FI_REMOTE_WRITE;
        hints->fabric_attr->prov_name = strdup(names[i]);
        if (fi_getinfo(kvr_libfabric_api(), "127.0.0.1", NULL, FI_SOURCE, hints, &found) != 0)
            found = NULL;
        fi_freeinfo(hints);
    }
    return found;
}

static int endpoint_open(void)
{
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_NONE};
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
    int code = fi_fabric(info->fabric_attr, &fabric, NULL);

    if (code == 0)
        code = fi_domain(fabric, info, &domain, NULL);
    if (code == 0)
        code = fi_cq_open(domain, &cq_attr, &cq, NULL);
    if (code == 0)
        code = fi_av_open(domain, &av_attr, &av, NULL);
    if (code == 0)
        code = fi_endpoint(domain, info, &raw_ep, NULL);
    if (code == 0)
        code = fi_ep_bind(raw_ep, &cq->fid, FI_TRANSMIT | FI_RECV);
    if (code == 0)
        code = fi_ep_bind(raw_ep, &av->fid, 0);
    if (code == 0)
        code = fi_enable(raw_ep);
    return code == 0 ? 0 : raw_failed("opening an endpoint", code);
}

int raw_open(const void *address)
{
    struct kvr_error error;

    if (kvr_libfabric_load(&error) != KVR_OK || (info = info_find()) == NULL) {
        fprintf(stderr, "libfabric has no tcp\n");
        return 77;
    }
    if (endpoint_open() != 0)
        return 1;
    if (fi_av_insert(av, address, 1, &raw_target, 0, NULL) != 1)
        return raw_failed("fi_av_insert", -FI_EINVAL);
    return 0;
}

void raw_close(void)
{
    fi_close(&raw_ep->fid);
    fi_close(&av->fid);
    fi_close(&cq->fid);
    fi_close(&domain->fid);
    fi_close(&fabric->fid);
    fi_freeinfo(info);
}

bool raw_take(uint64_t *ended)
{
    struct fi_cq_data_entry entries[16];
    struct fi_cq_err_entry error = {0};
    ssize_t got = fi_cq_read(cq, entries, 16);

    if (got > 0)
        *ended += (uint64_t)got;
    if (got != -FI_EAVAIL)
        return got >= 0 || got == -FI_EAGAIN;
    (void)fi_cq_readerr(cq, &error, 0);
    (void)raw_failed("a write", -error.err);
    return false;
}

time_t raw_seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}
