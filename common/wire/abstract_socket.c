#include "wire/abstract_socket.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/user_namespace.h"

#define ACCEPTED_MAX 64 /* connections of others that are closed in one call */

static socklen_t address_of(const char *name, struct sockaddr_un *ret_address)
{
    size_t length = strnlen(name, sizeof(ret_address->sun_path) - 1);

    *ret_address = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(ret_address->sun_path + 1, name, length);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
}

static int close_with(int fd, int os_errno)
{
    close(fd);
    errno = os_errno;
    return -1;
}

static bool is_ours(int fd)
{
    struct ucred peer;
    socklen_t bytes = sizeof(peer);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0 || peer.uid != geteuid())
        return false;
    return peer.uid != kvr_overflow_user() || kvr_sees_every_user();
}

static int open_socket(void)
{
    return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

int kvr_abstract_listen(const char *name, int backlog)
{
    struct sockaddr_un address;
    socklen_t bytes = address_of(name, &address);
    int fd = open_socket();

    if (fd < 0)
        return -1;
    if (bind(fd, (struct sockaddr *)&address, bytes) == 0 && listen(fd, backlog) == 0)
        return fd;
    return close_with(fd, errno);
}

int kvr_abstract_connect(const char *name)
{
    struct sockaddr_un address;
    socklen_t bytes = address_of(name, &address);
    int fd = open_socket();

    if (fd < 0)
        return -1;
    if (connect(fd, (struct sockaddr *)&address, bytes) != 0)
        return close_with(fd, errno);
    return is_ours(fd) ? fd : close_with(fd, EPERM);
}

int kvr_abstract_accept(int listener)
{
    for (unsigned i = 0; i < ACCEPTED_MAX; i++) {
        struct sockaddr_un address;
        socklen_t bytes = sizeof(address);
        int fd =
            accept4(listener, (struct sockaddr *)&address, &bytes, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd >= 0 && is_ours(fd))
            return fd;
        if (fd >= 0)
            close(fd);
        else if (errno != ECONNABORTED && errno != EINTR)
            return -1;
    }
    errno = EBUSY;
    return -1;
}
