#include "base/network_namespace.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROCESSES_MAX 65536 /* looked at */

/* "net:[4026531840]". False: it cannot be read. */
static bool network_of(const char *process, char ret_name[64])
{
    char path[64];
    ssize_t bytes;

    snprintf(path, sizeof(path), "/proc/%.20s/ns/net", process);
    bytes = readlink(path, ret_name, 63);
    if (bytes <= 0)
        return false;
    ret_name[bytes] = '\0';
    return true;
}

/* A kernel thread has no memory, and no program of it connects anywhere. */
static bool is_program(const char *process)
{
    char path[64], line[8];
    FILE *file;
    bool found;

    snprintf(path, sizeof(path), "/proc/%.20s/statm", process);
    file = fopen(path, "re");
    if (file == NULL)
        return false; /* it has ended */
    found = fgets(line, sizeof(line), file) != NULL && strncmp(line, "0 ", 2) != 0;
    fclose(file);
    return found;
}

bool kvr_network_namespace_alone(void)
{
    char ours[64], theirs[64];
    DIR *folder = opendir("/proc");
    const struct dirent *entry;
    unsigned looked_at = 0;
    bool alone;

    alone = folder != NULL && network_of("self", ours);
    while (alone && (entry = readdir(folder)) != NULL) {
        if (entry->d_name[0] < '1' || entry->d_name[0] > '9' ||
            strtol(entry->d_name, NULL, 10) == getpid() || !is_program(entry->d_name))
            continue;
        alone = ++looked_at < PROCESSES_MAX && network_of(entry->d_name, theirs) &&
                strcmp(ours, theirs) != 0;
    }
    if (folder != NULL)
        closedir(folder);
    return alone;
}
