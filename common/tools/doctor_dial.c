/* Whether a peer's control address can be dialled from here. */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/address.h"
#include "tools/doctor_peer.h"

/* 0, or an errno. */
static int connect_until(const struct addrinfo *to, kvr_ns deadline)
{
    int fd = socket(to->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct pollfd waited = {.fd = fd, .events = POLLOUT};
    int problem = 0;

    if (fd < 0)
        return errno;
    if (connect(fd, to->ai_addr, to->ai_addrlen) != 0)
        problem = errno;
    if (problem == EINPROGRESS) {
        kvr_ns now = kvr_clock_now();
        int ms = now < deadline ? (int)((deadline - now) / KVR_MS) : 0;
        socklen_t bytes = sizeof(problem);

        if (poll(&waited, 1, ms) != 1)
            problem = ETIMEDOUT;
        else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &problem, &bytes) != 0)
            problem = errno;
    }
    close(fd);
    return problem;
}

static void dial(const struct kvr_address *address, kvr_ns patience, struct doctor_dial *dial)
{
    struct addrinfo wanted = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV}, *list = NULL;
    kvr_ns deadline = kvr_clock_now() + patience;
    int problem, result;
    char port[8];

    snprintf(port, sizeof(port), "%u", address->port);
    result = getaddrinfo(address->host, port, &wanted, &list);
    if (result != 0) {
        (void)kvr_error_set(&dial->error, KVR_NOT_FOUND, "doctor", "%s cannot be resolved: %s",
                            address->host, gai_strerror(result));
        return;
    }
    problem = ETIMEDOUT;
    for (const struct addrinfo *at = list; at != NULL && problem != 0; at = at->ai_next)
        problem = connect_until(at, deadline);
    freeaddrinfo(list);
    if (problem != 0)
        (void)kvr_error_set(&dial->error, KVR_SYSTEM, "doctor", "%s", strerror(problem));
}

void doctor_dial(const char *address, kvr_ns patience, struct doctor_dial *ret_dial)
{
    struct kvr_address parsed;
    kvr_ns begin = kvr_clock_now();

    *ret_dial = (struct doctor_dial){.tried = true};
    if (kvr_address_parse(address, KVR_PREFILL_AGENT_PORT, &ret_dial->error, &parsed) == KVR_OK)
        dial(&parsed, patience, ret_dial);
    ret_dial->took = kvr_clock_now() - begin;
}
