#include "agent/engine/engine_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/entropy.h"
#include "base/memfd.h"
#include "base/pidfd.h"

#define WHERE "engine_port"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* Linux 6.5 */
#endif

static kvr_status address_of(const char *path, struct sockaddr_un *ret_address,
                             struct kvr_error *error)
{
    *ret_address = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (path[0] == '\0' || strlen(path) >= sizeof(ret_address->sun_path))
        return kvr_error_set(error, KVR_INVALID, WHERE,
                             "the engine socket's path '%s' must have 1 to %zu bytes", path,
                             sizeof(ret_address->sun_path) - 1);
    memcpy(ret_address->sun_path, path, strlen(path));
    return KVR_OK;
}

/* Whether `path` may be bound: nothing is there, or what a dead process left. */
static kvr_status clear_path(const char *path, const struct sockaddr_un *address,
                             struct kvr_error *error)
{
    struct stat file;
    int probe, connected, os_errno;

    if (lstat(path, &file) != 0)
        return errno == ENOENT ? KVR_OK
                               : kvr_error_system(error, WHERE, errno, "cannot look at %s", path);
    if (!S_ISSOCK(file.st_mode))
        return kvr_error_set(error, KVR_EXISTS, WHERE,
                             "%s exists and is not a socket: give the engine socket another path",
                             path);
    probe = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (probe < 0)
        return kvr_error_system(error, WHERE, errno, "cannot make a socket");
    connected = connect(probe, (const struct sockaddr *)address, sizeof(*address));
    os_errno = errno;
    close(probe);
    if (connected == 0 || os_errno != ECONNREFUSED)
        return kvr_error_set(error, KVR_EXISTS, WHERE,
                             "a live process listens on %s: stop it, or choose another path", path);
    if (unlink(path) != 0 && errno != ENOENT)
        return kvr_error_system(error, WHERE, errno, "cannot remove the stale socket %s", path);
    return KVR_OK;
}

/* The folder of `path`, and the name in it. -1: it cannot be opened. */
static int folder_open(const char *path, const char **ret_name)
{
    char folder[sizeof(((struct sockaddr_un *)0)->sun_path)];
    const char *slash = strrchr(path, '/');

    *ret_name = slash != NULL ? slash + 1 : path;
    if (slash == NULL || slash == path)
        return open(slash == NULL ? "." : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    memcpy(folder, path, (size_t)(slash - path));
    folder[slash - path] = '\0';
    return open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* Listens under a name of a moment, and then gives the socket its own: that name is there only when
 * it can be connected to. The first name fits whatever the folder is, because the folder is named
 * by number. It keeps the beginning of its own, for a list of sockets. Returns 0 or errno. */
static int listen_as(int listener, int folder, const char *name,
                     const struct kvr_engine_access *access)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int prefix = snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/", folder);
    const char *moment = address.sun_path + prefix;
    int failure;
    gid_t group;
    mode_t mode = kvr_engine_access_mode(access, &group);

    snprintf(address.sun_path + prefix, sizeof(address.sun_path) - (size_t)prefix, "%.40s.%016llx",
             name, (unsigned long long)kvr_random_u64());
    /* The mode is set before a name exists: no other user has a moment to connect. */
    if (fchmod(listener, 0600) != 0 ||
        bind(listener, (const struct sockaddr *)&address, sizeof(address)) != 0)
        return errno;
    failure = (group == (gid_t)-1 || lchown(address.sun_path, (uid_t)-1, group) == 0) &&
                      (mode == 0600 || chmod(address.sun_path, mode) == 0) &&
                      listen(listener, KVR_ENGINES_MAX) == 0 &&
                      linkat(folder, moment, folder, name, 0) == 0 /* which takes no name away */
                  ? 0
                  : errno;
    unlinkat(folder, moment, 0);
    return failure;
}

kvr_status kvr_engine_listen(const char *path, const struct kvr_engine_access *access,
                             int *ret_socket, struct kvr_error *error)
{
    struct sockaddr_un address;
    const char *name;
    int listener, folder, failure;

    KVR_TRY(address_of(path, &address, error));
    KVR_TRY(clear_path(path, &address, error));
    folder = folder_open(path, &name);
    if (folder < 0)
        return kvr_error_system(error, WHERE, errno, "cannot listen on %s", path);
    listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    failure = listener >= 0 ? listen_as(listener, folder, name, access) : errno;
    close(folder);
    if (failure == 0) {
        *ret_socket = listener;
        return KVR_OK;
    }
    if (listener >= 0)
        close(listener);
    if (failure == EPERM && access->group_count > 0)
        return kvr_error_set(error, KVR_SYSTEM, WHERE,
                             "cannot give %s to the group of --engine-group: the agent's user must "
                             "be a member of it",
                             path);
    return kvr_error_system(error, WHERE, failure, "cannot listen on %s", path);
}

/* A bound name's inode is not the socket descriptor's own. So a connection to the name is tried: if
 * it is refused after our shutdown, the name was ours. */
void kvr_engine_unlink(const char *path, int socket_fd)
{
    struct sockaddr_un address;
    int probe;

    if (address_of(path, &address, NULL) != KVR_OK)
        return;
    shutdown(socket_fd, SHUT_RDWR); /* from here on a connection to our name is refused */
    probe = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (probe < 0)
        return;
    if (connect(probe, (const struct sockaddr *)&address, sizeof(address)) != 0 &&
        errno == ECONNREFUSED)
        unlink(path);
    close(probe);
}

/* A number may be another process's by now. It was not when its pidfd was opened, if the process
 * still holds its end of the socket after that. */
static int pidfd_of_number(int socket, pid_t pid)
{
    struct pollfd end = {.fd = socket};
    int pidfd = pid > 0 ? kvr_pidfd_open(pid) : -1;

    if (pidfd >= 0 && poll(&end, 1, 0) != 0) {
        close(pidfd);
        return -1;
    }
    return pidfd;
}

kvr_status kvr_engine_peer(int socket, const struct kvr_engine_access *access, int *ret_pidfd,
                           struct kvr_engine_peer *ret_peer, struct kvr_error *error)
{
    struct ucred peer;
    struct kvr_engine_peer found;
    socklen_t bytes = sizeof(peer);
    int pidfd = -1;

    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0)
        return kvr_error_system(error, WHERE, errno, "the connecting process cannot be identified");
    found = (struct kvr_engine_peer){.user = peer.uid, .group = peer.gid, .pid = peer.pid};
    KVR_TRY(kvr_engine_access_check(access, socket, &found, error));
    bytes = sizeof(pidfd);
    if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &bytes) != 0)
        pidfd = errno == ENOPROTOOPT ? pidfd_of_number(socket, peer.pid) : -1;
    *ret_pidfd = pidfd;
    *ret_peer = found;
    return KVR_OK;
}

static kvr_status shared_page_open(struct kvr_engine_shared *shared, struct kvr_error *error)
{
    kvr_status status =
        kvr_memfd_create("kvrail-page", sizeof(*shared->page), WHERE, &shared->page_fd, error);

    if (status != KVR_OK)
        return status;
    shared->page =
        mmap(NULL, sizeof(*shared->page), PROT_READ | PROT_WRITE, MAP_SHARED, shared->page_fd, 0);
    if (shared->page == MAP_FAILED) {
        shared->page = NULL;
        return kvr_error_system(error, WHERE, errno, "cannot map a shared page");
    }
    shared->page->word_count = KVR_WORDS_MAX;
    return KVR_OK;
}

kvr_status kvr_engine_shared_open(struct kvr_engine_shared *ret_shared, struct kvr_error *error)
{
    struct kvr_engine_shared shared = {.page_fd = -1, .doorbell = -1};
    kvr_status status = shared_page_open(&shared, error);

    if (status == KVR_OK) {
        shared.doorbell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (shared.doorbell < 0)
            status = kvr_error_system(error, WHERE, errno, "cannot make a doorbell");
    }
    if (status != KVR_OK) {
        kvr_engine_shared_close(&shared);
        return status;
    }
    *ret_shared = shared;
    return KVR_OK;
}

void kvr_engine_shared_close(struct kvr_engine_shared *shared)
{
    if (shared->page != NULL)
        munmap(shared->page, sizeof(*shared->page));
    if (shared->page_fd >= 0)
        close(shared->page_fd);
    if (shared->doorbell >= 0)
        close(shared->doorbell);
    *shared = (struct kvr_engine_shared){.page_fd = -1, .doorbell = -1};
}

kvr_status kvr_engine_region_check(const struct kvr_req_region *region, int fd,
                                   struct kvr_error *error)
{
    struct stat file;
    int seals;

    if (region->memory != KVR_MEMORY_MEMFD)
        return KVR_OK;
    seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0)
        return kvr_error_set(error, KVR_INVALID, WHERE,
                             "the descriptor of region '%s' is not a memfd", region->name);
    if ((seals & F_SEAL_SHRINK) == 0)
        return kvr_error_set(error, KVR_INVALID, WHERE,
                             "the memfd of region '%s' lacks the seal F_SEAL_SHRINK: add it with "
                             "fcntl, or use kvrail_memory_create",
                             region->name);
    if (fstat(fd, &file) != 0)
        return kvr_error_system(error, WHERE, errno, "cannot ask the size of region '%s'",
                                region->name);
    if (region->fd_offset > (uint64_t)file.st_size ||
        region->layout.bytes > (uint64_t)file.st_size - region->fd_offset)
        return kvr_error_set(error, KVR_INVALID, WHERE,
                             "region '%s' ends at byte %llu + %llu, but its memfd has %llu bytes",
                             region->name, (unsigned long long)region->fd_offset,
                             (unsigned long long)region->layout.bytes,
                             (unsigned long long)file.st_size);
    return KVR_OK;
}
