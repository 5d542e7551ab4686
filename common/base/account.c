#include "base/account.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdint.h>
#include <stdlib.h>

#define ENTRY_BYTES 16384 /* of the database; a group's has all its members */

static bool number_of(const char *text, uint32_t *ret_number)
{
    unsigned long long number;
    char *end;

    errno = 0;
    number = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || number >= UINT32_MAX)
        return false;
    *ret_number = (uint32_t)number;
    return true;
}

bool kvr_user_find(const char *text, uid_t *ret_user)
{
    struct passwd entry, *found = NULL;
    char memory[ENTRY_BYTES];

    if (getpwnam_r(text, &entry, memory, sizeof(memory), &found) != 0 || found == NULL)
        return number_of(text, ret_user);
    *ret_user = found->pw_uid;
    return true;
}

bool kvr_group_find(const char *text, gid_t *ret_group)
{
    struct group entry, *found = NULL;
    char memory[ENTRY_BYTES];

    if (getgrnam_r(text, &entry, memory, sizeof(memory), &found) != 0 || found == NULL)
        return number_of(text, ret_group);
    *ret_group = found->gr_gid;
    return true;
}
