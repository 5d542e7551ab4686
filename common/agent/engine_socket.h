/* What the engine port asks of the operating system: its listening socket, who connects, and the
 * memory that is shared with engines. No state; loop thread. */
#ifndef KVR_AGENT_ENGINE_SOCKET_H
#define KVR_AGENT_ENGINE_SOCKET_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/status.h"
#include "wire/engine_message.h"

/* Listens on `path` with mode 0600, replacing a socket that nobody listens on. KVR_EXISTS: somebody
 * does, or there is a file of another kind. */
KVR_MUST_CHECK kvr_status kvr_engine_listen(const char *path, int *ret_socket,
                                            struct kvr_error *error);

/* Unlinks `path` if it still is the socket that `socket` is bound to, not a successor's. */
void kvr_engine_unlink(const char *path, int socket);

/* The process at the other end must be ours or root's: KVR_REFUSED. *ret_pidfd is -1 where it
 * cannot be had (another pid namespace, or already gone). */
KVR_MUST_CHECK kvr_status kvr_engine_peer(int socket, int *ret_pidfd, pid_t *ret_pid,
                                          struct kvr_error *error);

struct kvr_engine_shared {
    struct kvr_shared_page *page;
    int page_fd;  /* sealed: its size never changes */
    int doorbell; /* eventfd, non-blocking */
};

KVR_MUST_CHECK kvr_status kvr_engine_shared_open(struct kvr_engine_shared *ret_shared,
                                                 struct kvr_error *error);
void kvr_engine_shared_close(struct kvr_engine_shared *shared);

/* The descriptor that came with a region: a memfd must be sealed against shrinking, or a shrunk
 * file would kill whoever touches the mapping, and hold fd_offset + layout.bytes. */
KVR_MUST_CHECK kvr_status kvr_engine_region_check(const struct kvr_req_region *region, int fd,
                                                  struct kvr_error *error);

#endif
