#include "base/memfd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault_guard.h"
#include "base/undumped.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* Linux 5.14 */
#endif

#define HUGE_PAGE_MAX (UINT64_C(16) << 30) /* of any processor */

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

kvr_status kvr_memfd_create(const char *name, uint64_t bytes, const char *where, int *ret_fd,
                            struct kvr_error *error)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0)
        return kvr_error_system(error, where, errno, "cannot make the memfd %s", name);
    if (ftruncate(fd, (off_t)bytes) != 0 || fcntl(fd, F_ADD_SEALS, SEALS) != 0) {
        kvr_status status =
            kvr_error_system(error, where, errno, "cannot size and seal the memfd %s", name);

        close(fd);
        return status;
    }
    *ret_fd = fd;
    return KVR_OK;
}

bool kvr_memfd_holds(int fd, uint64_t bytes)
{
    int seals = fcntl(fd, F_GET_SEALS);
    struct stat file;

    return seals >= 0 && (seals & F_SEAL_SHRINK) != 0 && fstat(fd, &file) == 0 &&
           (uint64_t)file.st_size >= bytes;
}

/* Without the seal its owner could shorten the file, and the next touch would end this process. */
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

static bool is_of_huge_pages(int fd)
{
    struct statfs system;

    return fstatfs(fd, &system) == 0 && system.f_type == HUGETLBFS_MAGIC;
}

kvr_status kvr_memfd_map(int fd, uint64_t fd_offset, uint64_t bytes, bool writable, void **ret_base,
                         struct kvr_error *error)
{
    int protection = PROT_READ | (writable ? PROT_WRITE : 0);
    void *base;

    KVR_TRY(kvr_memfd_check(fd, fd_offset, bytes, "region", error));
    base = mmap(NULL, bytes, protection, MAP_SHARED, fd, (off_t)fd_offset);
    if (base == MAP_FAILED)
        return kvr_error_system(error, "region", errno, "mmap of a region of %llu bytes",
                                (unsigned long long)bytes);
    kvr_fault_guard_add(base, bytes);
    if (is_of_huge_pages(fd) && madvise(base, bytes, MADV_POPULATE_READ) != 0 && errno != EINVAL) {
        kvr_status status = kvr_error_system(error, "region", errno,
                                             "the memfd's huge pages are not all there, and the "
                                             "system has no more: allocate them with fallocate, or "
                                             "raise vm.nr_hugepages");

        kvr_memfd_unmap(base, bytes);
        return status;
    }
    /* Each is advice: huge pages spare the card and us translations where shmem allows them, and a
     * core dump of the agent is no place for an engine's cache. */
    (void)madvise(base, bytes, MADV_HUGEPAGE);
    kvr_undumped(base, bytes);
    (void)madvise(base, bytes, MADV_DONTFORK);
    *ret_base = base;
    return KVR_OK;
}

/* What is a memfd of huge pages was mapped in whole ones, and a part of one cannot be unmapped:
 * that fails, and all of it would stay. */
void kvr_memfd_unmap(void *base, uint64_t bytes)
{
    kvr_fault_guard_remove(base);
    for (uint64_t unit = 1; unit <= HUGE_PAGE_MAX; unit *= 2)
        if (munmap(base, (bytes + unit - 1) / unit * unit) == 0)
            return;
}

void kvr_memfd_touch(void *mapped, uint64_t bytes)
{
    uint8_t *base = mapped;
    uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    uint8_t there[4096]; /* a page each */
    kvr_ns end_at = kvr_clock_now() + KVR_S;
    bool known = true;

    for (uint64_t at = 0; known && at < bytes && kvr_clock_now() < end_at;
         at += sizeof(there) * page_bytes) {
        uint64_t left = bytes - at, pages = (left + page_bytes - 1) / page_bytes, i = 0, end;

        pages = pages < sizeof(there) ? pages : sizeof(there);
        known =
            mincore(base + at, left < pages * page_bytes ? left : pages * page_bytes, there) == 0;
        for (; known && i < pages; i = end) {
            for (end = i + 1; end < pages && (there[end] & 1) == (there[i] & 1); end++)
                ;
            if ((there[i] & 1) != 0)
                known = madvise(base + at + i * page_bytes, (end - i) * page_bytes,
                                MADV_POPULATE_READ) == 0;
        }
    }
}

int kvr_memfd_node(int fd, uint64_t offset)
{
    size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
    void *page = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, (off_t)offset);
    struct stat file;
    int node = -1;

    if (page == MAP_FAILED)
        return -1;
    kvr_fault_guard_add(page, bytes);
    if (fstat(fd, &file) == 0 && (off_t)offset < file.st_size) { /* else there is no page */
        (void)*(volatile const char *)page;
        if (syscall(SYS_move_pages, 0, 1ul, &page, NULL, &node, 0) != 0)
            node = -1;
    }
    kvr_memfd_unmap(page, bytes);
    return node < 0 ? -1 : node;
}
