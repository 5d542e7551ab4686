#include "base/user_namespace.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>

#define OVERFLOW_FILE "/proc/sys/kernel/overflowuid"
#define EVERYBODY     UINT32_MAX /* so many users the first user namespace has */

bool kvr_sees_every_user(void)
{
    FILE *map = fopen("/proc/self/uid_map", "re");
    uint64_t users = 0;
    uint32_t count;

    if (map == NULL)
        return false;
    while (fscanf(map, "%*u %*u %" SCNu32, &count) == 1)
        users += count;
    fclose(map);
    return users == EVERYBODY;
}

uid_t kvr_overflow_user(void)
{
    FILE *file = fopen(OVERFLOW_FILE, "re");
    unsigned number = 65534;

    if (file == NULL)
        return number;
    if (fscanf(file, "%u", &number) != 1)
        number = 65534;
    fclose(file);
    return number;
}
