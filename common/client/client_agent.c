#include "client/client_agent.h"

#include <errno.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/user_namespace.h"

#define WHERE       "kvrail"
#define VARIABLE    "KVRAIL_AGENT_USER"
#define ENTRY_BYTES 4096 /* of the database of users */

static bool named(uid_t user)
{
    const char *name = secure_getenv(VARIABLE);
    char memory[ENTRY_BYTES], *end;
    struct passwd entry, *found = NULL;
    unsigned long long number;

    if (name == NULL || name[0] == '\0')
        return false;
    if (getpwnam_r(name, &entry, memory, sizeof(memory), &found) == 0 && found != NULL)
        return found->pw_uid == user;
    errno = 0;
    number = strtoull(name, &end, 10);
    return name[0] >= '0' && name[0] <= '9' && *end == '\0' && errno == 0 && number == user;
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
