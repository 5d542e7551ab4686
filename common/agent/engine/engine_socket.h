/* The engine port's calls of the operating system: its listening socket, the identity of connecting
 * processes, and the memory that is shared with engines. No state; loop thread. */
#ifndef KVR_AGENT_ENGINE_SOCKET_H
#define KVR_AGENT_ENGINE_SOCKET_H

#include <stdbool.h>
#include <sys/types.h>

#include "agent/engine/engine_access.h"
#include "base/status.h"
#include "wire/engine_message.h"

/* Listens on `path` with the mode and group that `access` needs; replaces a socket without a
 * listener. KVR_EXISTS: a process listens there, or there is a file of another kind. */
KVR_MUST_CHECK kvr_status kvr_engine_listen(const char *path,
                                            const struct kvr_engine_access *access, int *ret_socket,
                                            struct kvr_error *error);

/* Unlinks `path` if it still is the socket that `socket` is bound to, not a successor's. */
void kvr_engine_unlink(const char *path, int socket);

/* The process at the other end, if `access` lets it attach: KVR_REFUSED. *ret_pidfd is -1 where it
 * cannot be had (another pid namespace, or already gone). */
KVR_MUST_CHECK kvr_status kvr_engine_peer(int socket, const struct kvr_engine_access *access,
                                          int *ret_pidfd, struct kvr_engine_peer *ret_peer,
                                          struct kvr_error *error);

struct kvr_engine_shared {
    struct kvr_shared_page *page;
    int page_fd;  /* sealed: its size never changes */
    int doorbell; /* eventfd, non-blocking */
};

KVR_MUST_CHECK kvr_status kvr_engine_shared_open(struct kvr_engine_shared *ret_shared,
                                                 struct kvr_error *error);
void kvr_engine_shared_close(struct kvr_engine_shared *shared);

/* Checks the descriptor of a region. A memfd must hold fd_offset + layout.bytes, and be sealed
 * against shrinking: a shrunk file would kill a process that touches the mapping. */
KVR_MUST_CHECK kvr_status kvr_engine_region_check(const struct kvr_req_region *region, int fd,
                                                  struct kvr_error *error);

#endif
