#include "base/file_sync.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

int kvr_file_sync(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC), failure;

    if (fd < 0)
        return errno;
    failure = fsync(fd) == 0 ? 0 : errno;
    close(fd);
    return failure;
}
