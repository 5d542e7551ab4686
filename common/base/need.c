#include "base/need.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/user_namespace.h"

#define SPARE_FILES 64

static kvr_status need(uint64_t files, bool all, struct kvr_error *error)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return kvr_error_system(error, "start", errno, "RLIMIT_NOFILE cannot be read");
    if (limit.rlim_cur >= files)
        return KVR_OK;
    if (limit.rlim_max < files)
        return kvr_error_set(error, KVR_SYSTEM, "start",
                             "RLIMIT_NOFILE allows %" PRIu64 " open files and up to %" PRIu64
                             " are needed: raise it (ulimit -n %" PRIu64
                             ", or LimitNOFILE= of the service)",
                             (uint64_t)limit.rlim_max, files, files);
    limit.rlim_cur = all ? limit.rlim_max : files;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        return kvr_error_system(error, "start", errno, "RLIMIT_NOFILE cannot be raised to %" PRIu64,
                                files);
    return KVR_OK;
}

kvr_status kvr_need_files(uint64_t files, struct kvr_error *error)
{
    return need(files, false, error);
}

/* Counts the open ones, and adds some for the folder itself and for files opened meanwhile. */
kvr_status kvr_need_more_files(uint64_t files, struct kvr_error *error)
{
    DIR *folder = opendir("/proc/self/fd");

    if (folder == NULL)
        return kvr_error_system(error, "start", errno, "/proc/self/fd cannot be read");
    while (readdir(folder) != NULL)
        files++;
    closedir(folder);
    return need(files + SPARE_FILES, true, error);
}

static bool has_lock_capability(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {{0}};

    return syscall(SYS_capget, &header, sets) == 0 &&
           (sets[CAP_TO_INDEX(CAP_IPC_LOCK)].effective & CAP_TO_MASK(CAP_IPC_LOCK)) != 0;
}

static uint64_t limit_of(int resource)
{
    struct rlimit limit = {0};

    (void)getrlimit(resource, &limit);
    return limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : (uint64_t)limit.rlim_cur;
}

uint64_t kvr_limit_files(void)
{
    return limit_of(RLIMIT_NOFILE);
}

uint64_t kvr_limit_locked(void)
{
    return limit_of(RLIMIT_MEMLOCK);
}

uint64_t kvr_lockable_bytes(void)
{
    return kvr_sees_every_user() && has_lock_capability() ? UINT64_MAX : kvr_limit_locked();
}

/* The limit does not hold for a process with that capability, as a container may have it. For
 * registrations of a card the kernel asks for it in the first user namespace. */
kvr_status kvr_need_locked(uint64_t bytes, const char *what, struct kvr_error *error)
{
    bool first = kvr_sees_every_user();
    struct rlimit limit;

    if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur >= bytes ||
        (first && has_lock_capability()))
        return KVR_OK;
    return kvr_error_set(error, KVR_SYSTEM, "start",
                         "RLIMIT_MEMLOCK allows %" PRIu64 " KiB and %s: ulimit -l unlimited, "
                         "LimitMEMLOCK=infinity%s",
                         (uint64_t)limit.rlim_cur >> 10, what,
                         first ? ", or in a container the capability IPC_LOCK"
                               : "; IPC_LOCK of a user namespace, as here, does not lift it");
}

kvr_status kvr_need_space(const char *what, const char *folder, uint64_t bytes, const char *remedy,
                          struct kvr_error *error)
{
    struct statvfs space;
    uint64_t left;

    if (statvfs(folder, &space) != 0)
        return kvr_error_system(error, "start", errno, "%s %s", what, folder);
    left = (uint64_t)space.f_bavail * space.f_frsize;
    if (left < bytes)
        return kvr_error_set(error, KVR_SYSTEM, "start",
                             "%s %s has %" PRIu64 " MiB left and %" PRIu64 " MiB are needed: %s",
                             what, folder, left >> 20, bytes >> 20, remedy);
    return KVR_OK;
}
