/* One epoch of a rail: an endpoint with an address table and a completion queue of its own. */
#include "fabric/fabric_ofi_state.h"

#include <assert.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The kernel may hand out a port again that an ended epoch had, and a peer that has not heard of
 * its end would write there. Ports count as used until this many others were opened. */
#define PORTS_APART 16384u
#define PORT_TRIES  64

static pthread_mutex_t port_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t port_used[65536]; /* number of the opening that last used it; 0: never */
static uint64_t port_openings;

static bool claim_port(uint16_t port)
{
    bool fresh;

    pthread_mutex_lock(&port_lock);
    fresh = port_used[port] == 0 || port_openings - port_used[port] > PORTS_APART;
    port_used[port] = ++port_openings;
    pthread_mutex_unlock(&port_lock);
    return fresh;
}

/* True when no epoch of this boot had the address before. Other formats than IP addresses carry a
 * number that the provider counts up. */
static bool claim_address(const struct kvr_endpoint *endpoint)
{
    struct sockaddr_in6 v6;
    struct sockaddr_in v4;

    switch (endpoint->rail->info->addr_format) {
    case FI_SOCKADDR_IN:
        memcpy(&v4, endpoint->address, sizeof(v4));
        return claim_port(ntohs(v4.sin_port));
    case FI_SOCKADDR_IN6:
        memcpy(&v6, endpoint->address, sizeof(v6));
        return claim_port(ntohs(v6.sin6_port));
    default:
        return true;
    }
}

static bool trywait_works(const struct kvr_rail *rail)
{
    uint32_t since = rail->provider->trywait_since;

    return since == 0 || !FI_VERSION_LT(fi_version(), since);
}

static bool is_epoll(int fd)
{
    static const char wanted[] = "anon_inode:[eventpoll]";
    char path[64], target[sizeof(wanted)];

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return readlink(path, target, sizeof(target)) == sizeof(wanted) - 1 &&
           memcmp(target, wanted, sizeof(wanted) - 1) == 0;
}

/* A queue's descriptor is a set of two: the provider's own set of sockets, which becomes quiet when
 * the queue is read, and a signal that only a working fi_trywait would reset. The signal says that
 * another thread has added to the queue; every endpoint has one thread, so it is not missed. */
static int find_socket_set(int queue_fd)
{
    char line[256];
    int member, found = -1;
    FILE *file;

    snprintf(line, sizeof(line), "/proc/self/fdinfo/%d", queue_fd);
    file = fopen(line, "re");
    while (file != NULL && found < 0 && fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, "tfd: %d", &member) == 1 && is_epoll(member))
            found = member;
    }
    if (file != NULL)
        fclose(file);
    return found;
}

int ofi_queue_open(struct kvr_rail *rail, struct fid_cq **ret_cq, int *ret_wait_fd)
{
    struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_FD};
    int fd = -1;

    *ret_wait_fd = -1;
    if (fi_cq_open(rail->domain, &attr, ret_cq, NULL) == 0) {
        if (fi_control(&(*ret_cq)->fid, FI_GETWAIT, &fd) == 0)
            *ret_wait_fd = trywait_works(rail) ? fd : find_socket_set(fd);
        return 0;
    }
    attr = (struct fi_cq_attr){.format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_NONE};
    return fi_cq_open(rail->domain, &attr, ret_cq, NULL);
}

static kvr_status open_contexts(struct kvr_endpoint *endpoint, struct kvr_error *error)
{
    const struct kvr_rail *rail = endpoint->rail;

    if ((rail->info->mode & (FI_CONTEXT | FI_CONTEXT2)) == 0 && !rail->acknowledges &&
        rail->congestion[0] == '\0')
        return KVR_OK;
    endpoint->context_count = rail->facts.write.outstanding_max;
    endpoint->contexts = calloc(endpoint->context_count, sizeof(endpoint->contexts[0]));
    if (endpoint->contexts == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "fabric", "no memory for %u write contexts",
                             endpoint->context_count);
    for (uint32_t i = 0; i < endpoint->context_count; i++)
        ofi_context_free(endpoint, &endpoint->contexts[i]);
    return KVR_OK;
}

static kvr_status enable(struct kvr_endpoint *endpoint, struct kvr_error *error)
{
    struct kvr_rail *rail = endpoint->rail;
    size_t bytes = sizeof(endpoint->address);
    int code = fi_endpoint(rail->domain, rail->info, &endpoint->ep, NULL);

    if (code != 0)
        return ofi_error(error, KVR_SYSTEM, code, "fi_endpoint", rail, "");
    code = fi_ep_bind(endpoint->ep, &endpoint->av->fid, 0);
    if (code == 0)
        code = fi_ep_bind(endpoint->ep, &endpoint->cq->fid, FI_TRANSMIT | FI_RECV);
    if (code != 0)
        return ofi_error(error, KVR_SYSTEM, code, "fi_ep_bind", rail, "");
    code = fi_enable(endpoint->ep);
    if (code != 0)
        return ofi_error(error, KVR_SYSTEM, code, "fi_enable", rail,
                         "; is the address free and the interface up?");
    code = fi_getname(&endpoint->ep->fid, endpoint->address, &bytes);
    if (code != 0)
        return ofi_error(error, KVR_UNSUPPORTED, code, "fi_getname", rail,
                         "; is its address longer than 96 bytes?");
    endpoint->address_bytes = (uint32_t)bytes;
    return KVR_OK;
}

static kvr_status open_watches(struct kvr_endpoint *endpoint, struct kvr_error *error)
{
    const struct kvr_rail *rail = endpoint->rail;
    kvr_status status;

    if (!rail->facts.same_host_only)
        return KVR_OK;
    endpoint->peers = calloc(OFI_SHM_PEERS, sizeof(endpoint->peers[0]));
    if (endpoint->peers == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "fabric", "no memory for an endpoint's peers");
    endpoint->shm_file = ofi_shm_file_hold((const char *)endpoint->address);
    status =
        ofi_shm_watch_open((const char *)endpoint->address, &endpoint->calls, &endpoint->own_watch);
    return status == KVR_OK
               ? KVR_OK
               : kvr_error_set(error, status, "fabric", "rail %s: its processes cannot be watched",
                               rail->facts.name);
}

static kvr_status open_once(struct kvr_rail *rail, struct kvr_endpoint **ret_endpoint,
                            struct kvr_error *error)
{
    struct kvr_endpoint *endpoint = calloc(1, sizeof(*endpoint));
    struct fi_av_attr attr = {.type = rail->info->domain_attr->av_type};
    kvr_status status;
    int code;

    if (endpoint == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "fabric", "no memory for an endpoint");
    endpoint->rail = rail;
    endpoint->wait_fd = -1;
    endpoint->shm_file = -1;
    code = fi_av_open(rail->domain, &attr, &endpoint->av, NULL);
    if (code == 0)
        code = ofi_queue_open(rail, &endpoint->cq, &endpoint->wait_fd);
    status = code == 0 ? open_contexts(endpoint, error)
                       : ofi_error(error, KVR_SYSTEM, code, "fi_av_open or fi_cq_open", rail, "");
    if (status == KVR_OK)
        status = enable(endpoint, error);
    if (status == KVR_OK)
        status = open_watches(endpoint, error);
    if (status != KVR_OK) {
        ofi_endpoint_close(endpoint);
        return status;
    }
    *ret_endpoint = endpoint;
    return KVR_OK;
}

kvr_status ofi_endpoint_open(struct kvr_rail *rail, struct kvr_endpoint **ret_endpoint,
                             struct kvr_error *error)
{
    struct kvr_endpoint *used[PORT_TRIES] = {NULL};
    unsigned used_count = 0;
    kvr_status status = ofi_memory_room(rail, error);

    if (status != KVR_OK)
        return status;
    /* One with a used address is kept open meanwhile, so that the next gets another. */
    for (;;) {
        struct kvr_endpoint *endpoint = NULL;

        status = open_once(rail, &endpoint, error);
        if (status != KVR_OK)
            break;
        assert(endpoint != NULL);
        if (claim_address(endpoint)) {
            *ret_endpoint = endpoint;
            break;
        }
        used[used_count++] = endpoint;
        if (used_count == PORT_TRIES) {
            status = kvr_error_set(error, KVR_RAIL_FAILED, "fabric",
                                   "rail %s: %d addresses in a row were in use before in this boot",
                                   rail->facts.name, PORT_TRIES);
            break;
        }
    }
    ofi_lock(rail);
    while (used_count > 0)
        ofi_endpoint_close(used[--used_count]);
    ofi_unlock(rail);
    return status;
}

void ofi_endpoint_address(const struct kvr_endpoint *endpoint, uint8_t *ret_address,
                          uint32_t *ret_bytes)
{
    memcpy(ret_address, endpoint->address, endpoint->address_bytes);
    *ret_bytes = endpoint->address_bytes;
}

/* The queue stays: what the endpoint put there before it went is read from it afterwards. */
void ofi_endpoint_stop(struct kvr_endpoint *endpoint)
{
    if (endpoint->ep == NULL)
        return;
    if (endpoint->rail->provider->hang_up_first && endpoint->address_bytes > 0)
        ofi_sockets_hang_up(endpoint);
    if (endpoint->peers != NULL)
        ofi_shm_before_close(endpoint);
    fi_close(&endpoint->ep->fid);
    endpoint->ep = NULL;
}

void ofi_endpoint_close(struct kvr_endpoint *endpoint)
{
    if (endpoint == NULL)
        return;
    ofi_endpoint_stop(endpoint);
    if (endpoint->cq != NULL)
        fi_close(&endpoint->cq->fid);
    if (endpoint->av != NULL)
        fi_close(&endpoint->av->fid);
    ofi_shm_watch_close(endpoint->own_watch);
    for (unsigned i = 0; endpoint->peers != NULL && i < OFI_SHM_PEERS; i++)
        ofi_shm_watch_close(endpoint->peers[i].watch);
    if (endpoint->shm_file >= 0)
        close(endpoint->shm_file);
    free(endpoint->peers);
    free(endpoint->contexts);
    free(endpoint);
}

int ofi_endpoint_wait_fd(const struct kvr_endpoint *endpoint)
{
    return endpoint->wait_fd;
}

bool ofi_endpoint_may_sleep(struct kvr_endpoint *endpoint)
{
    struct fid *fids[1] = {&endpoint->cq->fid};

    if (endpoint->wait_fd < 0)
        return true; /* whoever sleeps does so for a short time */
    if (endpoint->ready != NULL)
        return false;
    if (trywait_works(endpoint->rail))
        return fi_trywait(endpoint->rail->fabric, fids, 1) == FI_SUCCESS;
    if (!endpoint->has_held)
        endpoint->has_held = ofi_poll(endpoint, &endpoint->held, 1) > 0;
    return !endpoint->has_held;
}
