#include "agent/engine/engine_access.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/account.h"
#include "base/user_namespace.h"

#define WHERE      "engine_port"
#define GROUPS_MAX 1024 /* of a process that are looked at */

#ifndef SO_PEERGROUPS
#define SO_PEERGROUPS 59 /* Linux 4.13 */
#endif

kvr_status kvr_engine_access_read(const struct kvr_option_list *users,
                                  const struct kvr_option_list *groups,
                                  struct kvr_engine_access *ret_access, struct kvr_error *error)
{
    struct kvr_engine_access access = {.user_count = 0};

    if (users->count > ENGINE_ACCESS_MAX || groups->count > ENGINE_ACCESS_MAX)
        return kvr_error_set(error, KVR_INVALID, WHERE,
                             "--engine-user and --engine-group take at most %d names each",
                             ENGINE_ACCESS_MAX);
    for (uint32_t i = 0; i < users->count; i++)
        if (!kvr_user_find(users->items[i], &access.users[access.user_count++]))
            return kvr_error_set(error, KVR_INVALID, WHERE,
                                 "--engine-user %s: this host has no such user", users->items[i]);
    for (uint32_t i = 0; i < groups->count; i++)
        if (!kvr_group_find(groups->items[i], &access.groups[access.group_count++]))
            return kvr_error_set(error, KVR_INVALID, WHERE,
                                 "--engine-group %s: this host has no such group",
                                 groups->items[i]);
    *ret_access = access;
    return KVR_OK;
}

static bool names_group(const struct kvr_engine_access *access, gid_t group)
{
    for (uint32_t i = 0; i < access->group_count; i++)
        if (access->groups[i] == group)
            return true;
    return false;
}

static bool is_member(const struct kvr_engine_access *access, int socket, gid_t first)
{
    gid_t groups[GROUPS_MAX];
    socklen_t bytes = sizeof(groups);

    if (access->group_count == 0)
        return false;
    if (names_group(access, first))
        return true;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, groups, &bytes) != 0)
        return false;
    for (socklen_t i = 0; i < bytes / sizeof(groups[0]); i++)
        if (names_group(access, groups[i]))
            return true;
    return false;
}

bool kvr_engine_access_names(const struct kvr_engine_access *access, int socket,
                             const struct kvr_engine_peer *peer)
{
    for (uint32_t i = 0; i < access->user_count; i++)
        if (access->users[i] == peer->user)
            return true;
    return is_member(access, socket, peer->group);
}

kvr_status kvr_engine_access_check(const struct kvr_engine_access *access, int socket,
                                   const struct kvr_engine_peer *peer, struct kvr_error *error)
{
    if (peer->user == kvr_overflow_user() && !kvr_sees_every_user())
        return kvr_error_set(error, KVR_REFUSED, WHERE,
                             "a process may not attach if its user has no number in this agent's "
                             "user namespace (it shows as %u, as all such users do): run both in "
                             "one user namespace",
                             (unsigned)peer->user);
    if (peer->user == geteuid() || peer->user == 0 || kvr_engine_access_names(access, socket, peer))
        return KVR_OK;
    return kvr_error_set(error, KVR_REFUSED, WHERE,
                         "process %d of user %u, group %u may not attach: this agent serves user "
                         "%u, root, and what --engine-user and --engine-group name",
                         (int)peer->pid, (unsigned)peer->user, (unsigned)peer->group,
                         (unsigned)geteuid());
}

mode_t kvr_engine_access_mode(const struct kvr_engine_access *access, gid_t *ret_group)
{
    *ret_group = (gid_t)-1;
    if (access->user_count == 0 && access->group_count == 0)
        return 0600;
    if (access->user_count > 0 || access->group_count > 1)
        return 0666;
    *ret_group = access->groups[0];
    return 0660;
}
