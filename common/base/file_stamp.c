#include "base/file_stamp.h"

#include <sys/stat.h>

struct kvr_file_stamp kvr_file_stamp(const char *path)
{
    struct kvr_file_stamp stamp = {0};
    struct stat status;

    if (stat(path, &status) != 0)
        return stamp;
    stamp.device = status.st_dev;
    stamp.inode = status.st_ino;
    stamp.bytes = status.st_size;
    stamp.changed = status.st_mtim;
    return stamp;
}

bool kvr_file_stamp_same(const struct kvr_file_stamp *a, const struct kvr_file_stamp *b)
{
    return a->device == b->device && a->inode == b->inode && a->bytes == b->bytes &&
           a->changed.tv_sec == b->changed.tv_sec && a->changed.tv_nsec == b->changed.tv_nsec;
}
