#include "base/stamps.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

kvr_ns kvr_stamp_before(const struct kvr_stamps *stamps, kvr_station station, uint64_t behind)
{
    uint64_t count = atomic_load_explicit(&stamps->stations[station].count, memory_order_acquire);

    if (behind >= count || behind >= KVR_STAMPS_KEPT)
        return 0;
    return atomic_load_explicit(
        &stamps->stations[station].at[(count - 1 - behind) % KVR_STAMPS_KEPT],
        memory_order_relaxed);
}

static kvr_status map(const char *path, int file, struct kvr_stamps **ret_stamps,
                      struct kvr_error *error)
{
    void *memory = mmap(NULL, sizeof(**ret_stamps), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);

    if (memory == MAP_FAILED)
        return kvr_error_system(error, "stamps", errno, "%s cannot be mapped", path);
    *ret_stamps = memory;
    return KVR_OK;
}

kvr_status kvr_stamps_create(const char *path, struct kvr_stamps **ret_stamps,
                             struct kvr_error *error)
{
    int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    kvr_status status;

    if (file >= 0 && ftruncate(file, sizeof(**ret_stamps)) == 0)
        status = map(path, file, ret_stamps, error);
    else
        status = kvr_error_system(error, "stamps", errno, "%s cannot be made", path);
    if (file >= 0)
        close(file);
    return status;
}

kvr_status kvr_stamps_open(const char *path, struct kvr_stamps **ret_stamps,
                           struct kvr_error *error)
{
    int file = open(path, O_RDWR | O_CLOEXEC);
    struct stat facts;
    kvr_status status;

    if (file < 0 || fstat(file, &facts) != 0)
        status = kvr_error_system(error, "stamps", errno, "%s cannot be opened", path);
    else if (!S_ISREG(facts.st_mode) || facts.st_size != (off_t)sizeof(**ret_stamps))
        status = kvr_error_set(error, KVR_INVALID, "stamps",
                               "%s is not a file for stamps of %zu bytes, as `kvrail bench ping` "
                               "makes it",
                               path, sizeof(**ret_stamps));
    else
        status = map(path, file, ret_stamps, error);
    if (file >= 0)
        close(file);
    return status;
}

void kvr_stamps_close(struct kvr_stamps *stamps)
{
    if (stamps != NULL)
        munmap(stamps, sizeof(*stamps));
}
