#include "tests/support/connection_count.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fabric/fabric_provider.h"

static uint64_t sockets(void)
{
    DIR *folder = opendir("/proc/self/fd");
    const struct dirent *entry;
    uint64_t count = 0;

    if (folder == NULL)
        return UINT64_MAX;
    while ((entry = readdir(folder)) != NULL) {
        char target[64];
        ssize_t length = readlinkat(dirfd(folder), entry->d_name, target, sizeof(target) - 1);

        count += length > 7 && memcmp(target, "socket:", 7) == 0;
    }
    closedir(folder);
    return count;
}

static uint64_t queue_pairs(void)
{
    FILE *list = popen("rdma resource show qp 2>/dev/null", "re");
    char line[1024], ours[32];
    uint64_t count = 0;

    if (list == NULL)
        return UINT64_MAX;
    snprintf(ours, sizeof(ours), " pid %d ", (int)getpid());
    while (fgets(line, sizeof(line), list) != NULL)
        count += strstr(line, ours) != NULL;
    return pclose(list) == 0 ? count : UINT64_MAX;
}

uint64_t connection_count(const char *provider)
{
    return kvr_provider_find(provider)->kernel_tcp ? sockets() : queue_pairs();
}
