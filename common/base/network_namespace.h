/* Whether this process shares its network with others: then they reach every port that it opens, on
 * loopback too. */
#ifndef KVR_BASE_NETWORK_NAMESPACE_H
#define KVR_BASE_NETWORK_NAMESPACE_H

#include <stdbool.h>

/* True: every process that /proc shows is in another network namespace. False: another one is in
 * this process's, or its namespace cannot be read, as other users' cannot without rights. */
bool kvr_network_namespace_alone(void);

#endif
