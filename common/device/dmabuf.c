#include "device/dmabuf.h"

#include <errno.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

/* The kernel answers the size to a seek to the end. */
kvr_status kvr_dmabuf_check(int fd, uint64_t offset, uint64_t bytes, struct kvr_error *error)
{
    struct statfs system;
    off_t all;

    if (fstatfs(fd, &system) != 0 || system.f_type != DMA_BUF_MAGIC)
        return kvr_error_set(error, KVR_INVALID, "device",
                             "descriptor %d of a region is no dmabuf: make it with "
                             "cuMemGetHandleForAddressRange",
                             fd);
    all = lseek(fd, 0, SEEK_END);
    if (all < 0)
        return kvr_error_system(error, "device", errno, "the size of a region's dmabuf descriptor");
    if (bytes == 0 || offset > (uint64_t)all || bytes > (uint64_t)all - offset)
        return kvr_error_set(error, KVR_INVALID, "device",
                             "%llu bytes at offset %llu lie outside the dmabuf of %lld bytes",
                             (unsigned long long)bytes, (unsigned long long)offset, (long long)all);
    return KVR_OK;
}
