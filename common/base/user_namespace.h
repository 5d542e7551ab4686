/* Whether this process runs in a user namespace, as in some containers. No state; any thread. */
#ifndef KVR_BASE_USER_NAMESPACE_H
#define KVR_BASE_USER_NAMESPACE_H

#include <stdbool.h>
#include <sys/types.h>

/* This process sees each user of the system under a number of its own. False: it is in a user
 * namespace, where other users share a number and a capability holds for less than the system. */
bool kvr_sees_every_user(void);

/* In a user namespace all users without a number in it read as this one. */
uid_t kvr_overflow_user(void);

#endif
