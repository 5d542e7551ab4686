#include "base/memfd.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

kvr_status kvr_memfd_check(int fd, uint64_t offset, uint64_t bytes, const char *where,
                           struct kvr_error *error)
{
    uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    int seals = fcntl(fd, F_GET_SEALS);
    struct stat file;

    if (seals < 0)
        return kvr_error_system(error, where, errno,
                                "the region's descriptor is no memfd that can carry seals; make it "
                                "with memfd_create(…, MFD_ALLOW_SEALING)");
    if ((seals & F_SEAL_SHRINK) == 0)
        return kvr_error_set(error, KVR_INVALID, where,
                             "the region's memfd has no F_SEAL_SHRINK: a truncation would kill the "
                             "agent; add it with fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK)");
    if (fstat(fd, &file) != 0)
        return kvr_error_system(error, where, errno, "fstat of the region's memfd");
    if (bytes == 0 || offset % page_bytes != 0)
        return kvr_error_set(error, KVR_INVALID, where,
                             "%llu bytes at offset %llu of the memfd: there must be some, and the "
                             "offset must be a multiple of %llu",
                             (unsigned long long)bytes, (unsigned long long)offset,
                             (unsigned long long)page_bytes);
    if (offset > (uint64_t)file.st_size || bytes > (uint64_t)file.st_size - offset)
        return kvr_error_set(error, KVR_INVALID, where,
                             "%llu bytes at offset %llu lie outside the memfd of %lld bytes",
                             (unsigned long long)bytes, (unsigned long long)offset,
                             (long long)file.st_size);
    return KVR_OK;
}
