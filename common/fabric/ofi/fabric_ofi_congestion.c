/* Congestion control of a rail's connections, on a provider on sockets (tcp).
 *
 * A host's own is often bbr, made for long paths: it paces each connection by the rate that it has
 * measured. A transfer's writes come in bursts, and got a third less of a path without loss than
 * with cubic (tests/bench/RESULTS.md). The provider makes a connection
 * when a peer is first written to, and has no option for it. So when the first write to a peer has
 * completed (a warm-up, as a rule), its socket is looked for by the peer's address. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fabric/ofi/fabric_ofi_state.h"

#define HOSTS_OWN "/proc/sys/net/ipv4/tcp_congestion_control"
#define AVAILABLE "/proc/sys/net/ipv4/tcp_available_congestion_control"

/* The first line of a file of the kernel's; "": it cannot be read. */
static void line_read(const char *path, char *ret_line, size_t bytes)
{
    FILE *file = fopen(path, "re");

    if (file == NULL || fgets(ret_line, (int)bytes, file) == NULL)
        ret_line[0] = '\0';
    ret_line[strcspn(ret_line, "\n")] = '\0';
    if (file != NULL)
        (void)fclose(file);
}

static bool usable(const char *name)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool set =
        fd >= 0 && setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name)) == 0;

    if (fd >= 0)
        close(fd);
    return set;
}

kvr_status ofi_congestion_choose(const char *wish, struct kvr_rail *rail, struct kvr_error *error)
{
    char *own = rail->facts.congestion, available[128];
    const char *name = wish;

    if (!rail->provider->kernel_tcp)
        return KVR_OK;
    line_read(HOSTS_OWN, own, sizeof(rail->facts.congestion));
    if (wish[0] == '\0' || strcmp(wish, "host") == 0)
        return KVR_OK;
    if (strcmp(wish, "auto") == 0) {
        if (strncmp(own, "bbr", 3) != 0 || !usable("cubic"))
            return KVR_OK;
        name = "cubic";
    } else if (!usable(name)) {
        line_read(AVAILABLE, available, sizeof(available));
        return kvr_error_set(error, KVR_INVALID, "fabric",
                             "rail %s (tcp): this host has no congestion control '%s' for it; it "
                             "has %s, and `modprobe tcp_%s` may add it",
                             rail->facts.name, name, available, name);
    }
    snprintf(rail->congestion, sizeof(rail->congestion), "%s", name);
    snprintf(own, sizeof(rail->facts.congestion), "%s", name);
    return KVR_OK;
}

void ofi_congestion_expect(struct kvr_endpoint *endpoint, uint64_t peer)
{
    if (endpoint->rail->congestion[0] != '\0' && peer < OFI_PEERS)
        endpoint->untuned[peer / 64] |= UINT64_C(1) << (peer % 64);
}

struct search {
    const struct kvr_rail *rail;
    struct sockaddr_storage peer;
};

static void tune(void *self, int fd)
{
    const struct search *search = self;
    struct sockaddr_storage remote;
    socklen_t bytes = sizeof(remote);

    memset(&remote, 0, sizeof(remote));
    if (getpeername(fd, (struct sockaddr *)&remote, &bytes) != 0 ||
        !ofi_same_address((struct sockaddr *)&remote, (const struct sockaddr *)&search->peer))
        return;
    /* usable() has tried the name; if it fails now, bytes flow all the same. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, search->rail->congestion,
                     (socklen_t)strlen(search->rail->congestion));
}

void ofi_congestion_connected(struct kvr_endpoint *endpoint, uint64_t peer)
{
    uint64_t bit = UINT64_C(1) << (peer % 64);
    struct search search = {.rail = endpoint->rail};
    size_t bytes = sizeof(search.peer);

    if (peer >= OFI_PEERS || (endpoint->untuned[peer / 64] & bit) == 0)
        return;
    endpoint->untuned[peer / 64] &= ~bit;
    if (fi_av_lookup(endpoint->av, peer, &search.peer, &bytes) == 0)
        ofi_sockets_each(tune, &search);
}
