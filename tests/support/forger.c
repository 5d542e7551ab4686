/* A stranger that can dial a rail's port and knows nothing else: it forges arrivals.
 *
 *   forger ADDRESS PORT SLOTS CHUNKS
 *
 * An ordinary endpoint of libfabric's tcp, as any user of a host can open one. It sends writes of
 * no segments with immediate data, for every slot from 1 to SLOTS and each of its first CHUNKS
 * chunks. Such a write needs no key, and the target's queue shows its immediate as it shows a
 * peer's. The bits above slot and chunk are 0, then random. Prints how many writes libfabric took.
 * Exit 0: it took all of them. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "base/entropy.h"
#include "fabric/ofi/fabric_ofi_library.h"

#define PATIENCE_S 30

static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_av *av;
static struct fid_cq *cq;
static struct fid_ep *ep;
static fi_addr_t target;

static int failed(const char *call, ssize_t code)
{
    fprintf(stderr, "forger: %s failed: %s\n", call, fi_strerror((int)-code));
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

static int endpoint_open(struct fi_info *info)
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
        code = fi_endpoint(domain, info, &ep, NULL);
    if (code == 0)
        code = fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV);
    if (code == 0)
        code = fi_ep_bind(ep, &av->fid, 0);
    if (code == 0)
        code = fi_enable(ep);
    return code == 0 ? 0 : failed("opening an endpoint", code);
}

static int target_insert(const char *host, const char *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)strtoul(port, NULL, 10))};

    if (inet_pton(AF_INET, host, &address.sin_addr) != 1 ||
        fi_av_insert(av, &address, 1, &target, 0, NULL) != 1)
        return failed("fi_av_insert", -FI_EINVAL);
    return 0;
}

/* Takes completions, so that there is room. False: a write failed. */
static bool take(uint64_t *ended)
{
    struct fi_cq_data_entry entries[16];
    struct fi_cq_err_entry error = {0};
    ssize_t got = fi_cq_read(cq, entries, 16);

    if (got > 0)
        *ended += (uint64_t)got;
    if (got != -FI_EAVAIL)
        return got >= 0 || got == -FI_EAGAIN;
    (void)fi_cq_readerr(cq, &error, 0);
    (void)failed("a write", -error.err);
    return false;
}

static time_t seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

static bool forge(uint64_t immediate, uint64_t *ended)
{
    struct fi_msg_rma message = {.addr = target, .data = immediate};
    time_t until = seconds() + PATIENCE_S;
    ssize_t code;

    while ((code = fi_writemsg(ep, &message, FI_REMOTE_CQ_DATA | FI_COMPLETION)) == -FI_EAGAIN)
        if (!take(ended) || seconds() > until)
            return false;
    if (code != 0)
        (void)failed("fi_writemsg", code);
    return code == 0 && take(ended);
}

static bool forge_all(uint32_t slots, uint32_t chunks, uint64_t *ret_sent)
{
    time_t until;
    uint64_t ended = 0;

    for (uint64_t slot = 1; slot <= slots; slot++)
        for (uint64_t chunk = 0; chunk < chunks; chunk++) {
            if (!forge(slot << 16 | chunk, &ended) ||
                !forge(kvr_random_u64() << 32 | slot << 16 | chunk, &ended))
                return false;
            *ret_sent += 2;
        }
    until = seconds() + PATIENCE_S;
    while (ended < *ret_sent && seconds() < until)
        if (!take(&ended))
            return false;
    return ended == *ret_sent;
}

int main(int argc, char **argv)
{
    struct kvr_error error;
    struct fi_info *info;
    uint64_t sent = 0;
    bool all;

    if (argc != 5) {
        fprintf(stderr, "usage: forger ADDRESS PORT SLOTS CHUNKS\n");
        return 2;
    }
    if (kvr_libfabric_load(&error) != KVR_OK || (info = info_find()) == NULL) {
        fprintf(stderr, "forger: libfabric has no tcp\n");
        return 77;
    }
    if (endpoint_open(info) != 0 || target_insert(argv[1], argv[2]) != 0)
        return 1;
    all = forge_all((uint32_t)strtoul(argv[3], NULL, 10), (uint32_t)strtoul(argv[4], NULL, 10),
                    &sent);
    printf("%llu writes forged\n", (unsigned long long)sent);
    fi_close(&ep->fid);
    fi_close(&av->fid);
    fi_close(&cq->fid);
    fi_close(&domain->fid);
    fi_close(&fabric->fid);
    fi_freeinfo(info);
    return all ? 0 : 1;
}
