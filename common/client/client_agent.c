#include "client/client_agent.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/account.h"
#include "base/user_namespace.h"

#define WHERE    "kvrail"
#define VARIABLE "KVRAIL_AGENT_USER"

static bool named(uid_t user)
{
    const char *name = secure_getenv(VARIABLE);
    uid_t trusted;

    return name != NULL && name[0] != '\0' && kvr_user_find(name, &trusted) && trusted == user;
}

kvr_status client_agent_check(int socket, const char *path, struct kvr_error *error)
{
    struct ucred agent;
    socklen_t bytes = sizeof(agent);
    bool unknown;

    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &agent, &bytes) != 0)
        return kvr_error_system(error, WHERE, errno, "cannot ask which user listens on %s", path);
    unknown = agent.uid == kvr_overflow_user() && !kvr_sees_every_user();
    if ((!unknown && (agent.uid == geteuid() || agent.uid == 0)) || named(agent.uid))
        return KVR_OK;
    return kvr_error_set(error, KVR_REFUSED, WHERE,
                         "user %u%s listens on %s, and this engine trusts an agent of its own user "
                         "%u or of root: if that is the agent's user, set " VARIABLE " to it",
                         (unsigned)agent.uid, unknown ? " (a user without a number here)" : "",
                         path, (unsigned)geteuid());
}
