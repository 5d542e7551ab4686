/* Which processes of this host may attach to an agent: those of its own user, of root, and of the
 * users and groups that its options name. Set once at start; then it is only read. */
#ifndef KVR_AGENT_ENGINE_ACCESS_H
#define KVR_AGENT_ENGINE_ACCESS_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/options.h"
#include "base/status.h"

#define ENGINE_ACCESS_MAX 16 /* users, and groups */

struct kvr_engine_access {
    uid_t users[ENGINE_ACCESS_MAX];
    gid_t groups[ENGINE_ACCESS_MAX];
    uint32_t user_count, group_count;
};

/* The process at the other end of a connection, as the kernel of this host sees it from here. */
struct kvr_engine_peer {
    uid_t user;
    gid_t group;
    pid_t pid;        /* 0: in another pid namespace */
    uint32_t tenants; /* that it may act for, a bit each */
};

/* Names or numbers. KVR_INVALID: there is no such user or group; the sentence has the option. */
KVR_MUST_CHECK kvr_status kvr_engine_access_read(const struct kvr_option_list *users,
                                                 const struct kvr_option_list *groups,
                                                 struct kvr_engine_access *ret_access,
                                                 struct kvr_error *error);

/* Whether this process may attach; KVR_REFUSED with the sentence. `socket` is its connection, which
 * knows its further groups. */
KVR_MUST_CHECK kvr_status kvr_engine_access_check(const struct kvr_engine_access *access,
                                                  int socket, const struct kvr_engine_peer *peer,
                                                  struct kvr_error *error);

/* One of its users or groups is the process's. */
bool kvr_engine_access_names(const struct kvr_engine_access *access, int socket,
                             const struct kvr_engine_peer *peer);

/* What the socket's file lets connect: with one group that group, else every user, because only the
 * check above can tell them apart; without options its own user. *ret_group is -1 where the file
 * keeps its own. */
mode_t kvr_engine_access_mode(const struct kvr_engine_access *access, gid_t *ret_group);

#endif
