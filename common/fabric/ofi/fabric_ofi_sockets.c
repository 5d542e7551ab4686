/* Sockets of a provider that uses sockets: closes all connections to an endpoint, also those that
 * are half open.
 *
 * libfabric's tcp provider (1.17 to 2.6 at least) frees a listener while accepted requests that it
 * has not read yet still point to it. The next progress of any endpoint of that domain then reads
 * freed memory. The provider gives such a request up when its socket ends. So before the endpoint
 * is closed, every socket of this process at the endpoint's local address is shut down, and the
 * provider makes progress until it has closed them. That also fences connected peers: nothing can
 * land through a socket that is shut down. */
#include <dirent.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fabric/ofi/fabric_ofi_state.h"

#define TURNS_MAX   64 /* of the provider; then the endpoint is closed all the same */
/* Of descriptors: what Linux's fs.nr_open is unless it was raised. */
#define NUMBERS_MAX (1 << 20)

bool ofi_same_address(const struct sockaddr *a, const struct sockaddr *b)
{
    if (a->sa_family != b->sa_family)
        return false;
    if (a->sa_family == AF_INET) {
        const struct sockaddr_in *x = (const struct sockaddr_in *)a;
        const struct sockaddr_in *y = (const struct sockaddr_in *)b;

        return x->sin_port == y->sin_port && x->sin_addr.s_addr == y->sin_addr.s_addr;
    }
    if (a->sa_family == AF_INET6) {
        const struct sockaddr_in6 *x = (const struct sockaddr_in6 *)a;
        const struct sockaddr_in6 *y = (const struct sockaddr_in6 *)b;

        return x->sin6_port == y->sin6_port &&
               memcmp(&x->sin6_addr, &y->sin6_addr, sizeof(x->sin6_addr)) == 0;
    }
    return false;
}

static bool is_ours(int fd, const struct kvr_endpoint *endpoint)
{
    struct sockaddr_storage local, bound;
    socklen_t bytes = sizeof(local);

    memset(&local, 0, sizeof(local));
    memset(&bound, 0, sizeof(bound));
    memcpy(&bound, endpoint->address, endpoint->address_bytes);
    if (getsockname(fd, (struct sockaddr *)&local, &bytes) != 0)
        return false;
    return ofi_same_address((struct sockaddr *)&local, (struct sockaddr *)&bound);
}

struct hang_up {
    const struct kvr_endpoint *endpoint;
    unsigned connected; /* sockets of the endpoint's beside its listener */
};

static void hang_up_on(void *self, int fd)
{
    struct hang_up *all = self;
    int listening = 0;
    socklen_t bytes = sizeof(listening);

    if (!is_ours(fd, all->endpoint))
        return;
    all->connected +=
        getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &bytes) == 0 && !listening;
    shutdown(fd, SHUT_RDWR); /* the listener too: no other connection comes in */
}

/* For a process that has no descriptor left to open the folder with. */
static void each_by_number(void (*visit)(void *self, int fd), void *self)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max > NUMBERS_MAX)
        limit.rlim_max = NUMBERS_MAX;
    for (int fd = 0; fd < (int)limit.rlim_max; fd++)
        visit(self, fd);
}

void ofi_sockets_each(void (*visit)(void *self, int fd), void *self)
{
    DIR *folder = opendir("/proc/self/fd");
    struct dirent *entry;

    if (folder == NULL) {
        each_by_number(visit, self);
        return;
    }
    while ((entry = readdir(folder)) != NULL) {
        int fd = atoi(entry->d_name);

        if (entry->d_name[0] != '.' && fd != dirfd(folder))
            visit(self, fd);
    }
    closedir(folder);
}

struct hang_up_peer {
    struct sockaddr_storage local, peer; /* without the port, and with it */
};

static void port_clear(struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET)
        ((struct sockaddr_in *)address)->sin_port = 0;
    else if (address->ss_family == AF_INET6)
        ((struct sockaddr_in6 *)address)->sin6_port = 0;
}

static void hang_up_on_peer(void *self, int fd)
{
    struct hang_up_peer *search = self;
    struct sockaddr_storage local, remote;
    socklen_t bytes = sizeof(local), remote_bytes = sizeof(remote);

    memset(&local, 0, sizeof(local));
    memset(&remote, 0, sizeof(remote));
    if (getpeername(fd, (struct sockaddr *)&remote, &remote_bytes) != 0 ||
        !ofi_same_address((struct sockaddr *)&remote, (struct sockaddr *)&search->peer) ||
        getsockname(fd, (struct sockaddr *)&local, &bytes) != 0)
        return;
    port_clear(&local);
    if (ofi_same_address((struct sockaddr *)&local, (struct sockaddr *)&search->local))
        shutdown(fd, SHUT_RDWR);
}

/* The peer's address and ours name the socket: an endpoint connects to a peer once. libfabric looks
 * at the socket before the next write, which would fail on the closed connection. */
static void hang_up_sockets(struct kvr_endpoint *endpoint, const struct sockaddr_storage *peer)
{
    struct hang_up_peer search = {.peer = *peer};

    memcpy(&search.local, endpoint->address, endpoint->address_bytes);
    port_clear(&search.local);
    ofi_sockets_each(hang_up_on_peer, &search);
    (void)fi_cq_read(endpoint->cq, NULL, 0); /* progress; takes nothing out */
}

/* libfabric has no call for that. Its tcp keeps a connection when the address is removed. ofi_rxm
 * closes it then, with its queue pair, and the other end when the kernel there sees the end. */
kvr_status ofi_peer_close(struct kvr_endpoint *endpoint, uint64_t *peer)
{
    struct sockaddr_storage address;
    size_t bytes = sizeof(address);
    struct kvr_error error;

    memset(&address, 0, sizeof(address));
    if (!endpoint->rail->facts.closes || fi_av_lookup(endpoint->av, *peer, &address, &bytes) != 0)
        return KVR_OK;
    if (!endpoint->rail->provider->libfabric.closes_removed) {
        hang_up_sockets(endpoint, &address);
        return KVR_OK;
    }
    if (!ofi_peer_may_go(endpoint, *peer))
        return KVR_AGAIN;
    ofi_peer_remove(endpoint, *peer);
    return ofi_peer_insert(endpoint, (const uint8_t *)&address, (uint32_t)bytes, peer, &error);
}

void ofi_sockets_hang_up(struct kvr_endpoint *endpoint)
{
    for (unsigned turn = 0; turn < TURNS_MAX; turn++) {
        struct hang_up all = {.endpoint = endpoint};

        ofi_sockets_each(hang_up_on, &all);
        if (all.connected == 0 && turn > 0)
            return;
        (void)fi_cq_read(endpoint->cq, NULL, 0); /* progress; takes nothing out */
    }
}
