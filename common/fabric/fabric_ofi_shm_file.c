/* Whose the shm provider's files are.
 *
 * It keeps each endpoint's queues in a file of /dev/shm, some 16 MiB, named after its process,
 * PID:UID:INDEX. A process that is killed leaves them behind, and the next that starts sees to
 * their removal. The number alone does not say that a process is gone: /dev/shm may be shared with
 * containers, whose process ids are others, and with programs that use libfabric without us. So who
 * has an endpoint keeps its file locked (flock) for as long as it lives, and marks it by the sticky
 * bit, which means nothing else on a file, once it has the lock. What is marked and not locked was
 * left behind; nothing else is touched. */
#include "fabric/fabric_ofi_state.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int ofi_shm_file_hold(const char *address)
{
    int fd = shm_open(ofi_shm_name(address), O_RDWR | O_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && fchmod(fd, S_ISVTX | S_IRUSR | S_IWUSR) == 0)
        return fd;
    close(fd);
    return -1;
}

static bool is_endpoints(const char *name)
{
    unsigned pid, uid, number;
    int end = 0;

    return sscanf(name, "%u:%u:%u%n", &pid, &uid, &number, &end) == 3 &&
           (name[end] == '\0' || strcmp(name + end, OFI_SHM_ASIDE) == 0);
}

/* A name with our own number is to be ours; others may yet be looked up. */
static void remove_left(int directory, const char *name, int file)
{
    bool aside = strstr(name, OFI_SHM_ASIDE) != NULL;

    if (aside || atoi(name) == getpid() || !ofi_shm_replace(name, file))
        (void)unlinkat(directory, name, 0);
}

static void look_at(int directory, const char *name)
{
    struct stat status;
    int fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0)
        return;
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid() &&
        (status.st_mode & S_ISVTX) != 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
        remove_left(directory, name, fd);
    close(fd);
}

void ofi_shm_clean(void)
{
    DIR *directory = opendir("/dev/shm");
    const struct dirent *entry;

    if (directory == NULL)
        return;
    while ((entry = readdir(directory)) != NULL) {
        if (is_endpoints(entry->d_name))
            look_at(dirfd(directory), entry->d_name);
    }
    closedir(directory);
}
