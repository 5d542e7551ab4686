/* One epoch of a rail: an endpoint with an address table and a completion queue of its own. */
#include "fabric/ofi/fabric_ofi_state.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PORT_TRIES        64
#define QUEUE_ENTRIES_MIN 1024u /* a smaller queue is the provider's own choice */

static bool trywait_works(const struct kvr_rail *rail)
{
    uint32_t since = rail->provider->libfabric.trywait_since;

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

/* A card names no largest queue: one that is refused is asked for again at half the size. */
static int queue_open(struct kvr_rail *rail, enum fi_wait_obj wait, struct fid_cq **ret_cq)
{
    uint32_t entries = rail->queue_entries;

    for (;;) {
        struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_DATA, .wait_obj = wait, .size = entries};
        int code = fi_cq_open(rail->domain, &attr, ret_cq, NULL);

        if (code == 0)
            rail->queue_entries = entries;
        if (code == 0 || code == -FI_ENOSYS || entries == 0)
            return code;
        entries = entries / 2 >= QUEUE_ENTRIES_MIN ? entries / 2 : 0;
    }
}

int ofi_queue_open(struct kvr_rail *rail, struct fid_cq **ret_cq, int *ret_wait_fd)
{
    int fd = -1;

    *ret_wait_fd = -1;
    if (queue_open(rail, FI_WAIT_FD, ret_cq) == 0) {
        if (fi_control(&(*ret_cq)->fid, FI_GETWAIT, &fd) == 0)
            *ret_wait_fd = trywait_works(rail) ? fd : find_socket_set(fd);
        return 0;
    }
    return queue_open(rail, FI_WAIT_NONE, ret_cq);
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

static kvr_status enable(struct kvr_endpoint *endpoint, struct fi_info *info,
                         struct kvr_error *error)
{
    struct kvr_rail *rail = endpoint->rail;
    size_t bytes = sizeof(endpoint->address);
    int code = fi_endpoint(rail->domain, info, &endpoint->ep, NULL);

    if (code != 0)
        return ofi_error(error, KVR_SYSTEM, code, "fi_endpoint", rail, "");
    code = fi_ep_bind(endpoint->ep, &endpoint->av->fid, 0);
    if (code == 0)
        code = fi_ep_bind(endpoint->ep, &endpoint->cq->fid, FI_TRANSMIT | FI_RECV);
    if (code != 0)
        return ofi_error(error, KVR_SYSTEM, code, "fi_ep_bind", rail, "");
    code = ofi_options_set(rail, endpoint->ep);
    if (code != 0)
        return ofi_error(error, KVR_SYSTEM, code, "fi_setopt", rail,
                         "; --device none opens the rail without device memory");
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

/* info: the rail's, or a copy with a port. */
static kvr_status open_once(struct kvr_rail *rail, struct fi_info *info,
                            struct kvr_endpoint **ret_endpoint, struct kvr_error *error)
{
    struct kvr_endpoint *endpoint = calloc(1, sizeof(*endpoint));
    struct fi_av_attr attr = {.type = rail->info->domain_attr->av_type};
    kvr_status status;
    int code;

    if (endpoint == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "fabric", "no memory for an endpoint");
    endpoint->rail = rail;
    endpoint->wait_fd = -1;
    code = fi_av_open(rail->domain, &attr, &endpoint->av, NULL);
    if (code == 0)
        code = ofi_queue_open(rail, &endpoint->cq, &endpoint->wait_fd);
    status = code == 0 ? open_contexts(endpoint, error)
                       : ofi_error(error, KVR_SYSTEM, code, "fi_av_open or fi_cq_open", rail, "");
    if (status == KVR_OK)
        status = enable(endpoint, info, error);
    if (status != KVR_OK) {
        ofi_endpoint_close(endpoint);
        return status;
    }
    *ret_endpoint = endpoint;
    return KVR_OK;
}

/* At a port of the rail's range. A port where another program listens is left out. */
static kvr_status open_in_range(struct kvr_rail *rail, struct kvr_endpoint **ret_endpoint,
                                struct kvr_error *error)
{
    struct port_set taken = {{0}};

    for (;;) {
        struct kvr_endpoint *endpoint = NULL;
        struct kvr_error refused = {0};
        struct fi_info *info;
        struct ofi_port port;
        kvr_status status = ofi_port_take(rail, &taken, &port, error);

        if (status != KVR_OK)
            return status;
        info = ofi_info_at_port(rail->info, port.number);
        status = info != NULL ? open_once(rail, info, &endpoint, &refused)
                              : kvr_error_set(&refused, KVR_NO_MEMORY, "fabric",
                                              "no memory for an endpoint");
        fi_freeinfo(info);
        if (status == KVR_OK &&
            ofi_port_of(endpoint->address, rail->info->addr_format) == port.number) {
            endpoint->port = port.number;
            *ret_endpoint = endpoint;
            return KVR_OK;
        }
        ofi_port_give_back(&port);
        if (status == KVR_OK) {
            ofi_endpoint_close(endpoint);
            return kvr_error_set(error, KVR_UNSUPPORTED, "fabric",
                                 "rail %s: this libfabric does not listen on a port that is chosen "
                                 "for it: leave --rail-ports out",
                                 rail->facts.name);
        }
        if (refused.provider_code != -FI_EADDRINUSE) {
            if (error != NULL)
                *error = refused;
            return status;
        }
        port_set_add(&taken, port.number);
    }
}

/* Where the kernel chooses the port. An endpoint at a port that was used too recently stays open
 * meanwhile, so that the next one gets another port. */
static kvr_status open_anywhere(struct kvr_rail *rail, struct kvr_endpoint **ret_endpoint,
                                struct kvr_error *error)
{
    struct kvr_endpoint *used[PORT_TRIES] = {NULL};
    unsigned used_count = 0;
    kvr_status status;

    for (;;) {
        struct kvr_endpoint *endpoint = NULL;
        uint16_t port;

        status = open_once(rail, rail->info, &endpoint, error);
        if (status != KVR_OK)
            break;
        assert(endpoint != NULL);
        port = ofi_port_of(endpoint->address, rail->info->addr_format);
        if (port == 0 || ofi_port_claim(port)) {
            endpoint->port = port;
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

kvr_status ofi_endpoint_open(struct kvr_rail *rail, struct kvr_endpoint **ret_endpoint,
                             struct kvr_error *error)
{
    KVR_TRY(ofi_memory_room(rail, error));
    return rail->ports.first != 0 ? open_in_range(rail, ret_endpoint, error)
                                  : open_anywhere(rail, ret_endpoint, error);
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
    if (endpoint->rail->provider->libfabric.hang_up_first && endpoint->address_bytes > 0)
        ofi_sockets_hang_up(endpoint);
    fi_close(&endpoint->ep->fid);
    endpoint->ep = NULL;
    ofi_port_end(endpoint->port);
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
        return true; /* such sleeps are short */
    if (endpoint->ready != NULL)
        return false;
    if (trywait_works(endpoint->rail))
        return fi_trywait(endpoint->rail->fabric, fids, 1) == FI_SUCCESS;
    if (!endpoint->has_held)
        endpoint->has_held = ofi_poll(endpoint, &endpoint->held, 1) > 0;
    return !endpoint->has_held;
}
