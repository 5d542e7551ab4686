#include "base/state_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/need.h"

#define WHERE "start"

/* Which process holds the lock; 0: it has not said so yet. */
static long holder(int fd)
{
    char text[24] = "";
    ssize_t got = pread(fd, text, sizeof(text) - 1, 0);

    return got > 0 ? strtol(text, NULL, 10) : 0;
}

/* The descriptor stays open, and with it the lock, until the process ends. */
static kvr_status lock(const char *folder, struct kvr_error *error)
{
    char path[PATH_MAX + 8];
    int fd;

    snprintf(path, sizeof(path), "%s/lock", folder);
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return kvr_error_system(error, WHERE, errno, "--state-dir %s cannot be locked", folder);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        kvr_status status =
            errno == EWOULDBLOCK
                ? kvr_error_set(error, KVR_EXISTS, WHERE,
                                "--state-dir %s is in use by process %ld: end that one, or give "
                                "each its own folder",
                                folder, holder(fd))
                : kvr_error_system(error, WHERE, errno, "--state-dir %s cannot be locked", folder);

        close(fd);
        return status;
    }
    if (ftruncate(fd, 0) != 0 || dprintf(fd, "%ld\n", (long)getpid()) < 0) {
        kvr_error_system(error, WHERE, errno, "cannot write %s", path);
        close(fd);
        return KVR_SYSTEM;
    }
    return KVR_OK;
}

kvr_status kvr_state_folder_take(const char *folder, uint64_t bytes_needed, struct kvr_error *error)
{
    struct stat is;
    kvr_status status;

    if (mkdir(folder, 0700) != 0 && errno != EEXIST)
        return kvr_error_system(error, WHERE, errno, "--state-dir %s cannot be made", folder);
    if (stat(folder, &is) != 0 || !S_ISDIR(is.st_mode))
        return kvr_error_set(error, KVR_INVALID, WHERE, "--state-dir %s is no folder", folder);
    if (access(folder, W_OK | X_OK) != 0)
        return kvr_error_system(error, WHERE, errno, "--state-dir %s cannot be written", folder);
    status = kvr_need_space("--state-dir", folder, bytes_needed,
                            "free some, or name another folder", error);
    return status == KVR_OK ? lock(folder, error) : status;
}
