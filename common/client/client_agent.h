/* Whether the agent at a socket may be trusted with the engine's pages. No state; any thread. */
#ifndef KVR_CLIENT_CLIENT_AGENT_H
#define KVR_CLIENT_CLIENT_AGENT_H

#include "base/status.h"

/* The process that listens at the other end must be of this process's user, of root, or of the user
 * that KVRAIL_AGENT_USER names. KVR_REFUSED with the sentence.
 *
 * So it does not matter which users may write the socket's folder: the kernel knows the user that
 * listens, also where another process took the agent's name away. */
KVR_MUST_CHECK kvr_status client_agent_check(int socket, const char *path, struct kvr_error *error);

#endif
