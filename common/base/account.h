/* Users and groups of this host, as a person names them. No state; any thread. */
#ifndef KVR_BASE_ACCOUNT_H
#define KVR_BASE_ACCOUNT_H

#include <stdbool.h>
#include <sys/types.h>

/* By name, else by number. False: `text` is neither, and *ret_user is as it was. */
bool kvr_user_find(const char *text, uid_t *ret_user);
bool kvr_group_find(const char *text, gid_t *ret_group);

#endif
