#include "tools/certificates/certificate_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tls/pem_file.h"

#define PARTIAL_NAME ".part" /* the file that is being written; one process at a time writes */

kvr_status certificate_try(int code, const char *what, struct kvr_error *error)
{
    if (code >= 0)
        return KVR_OK;
    return kvr_error_set(error, code == GNUTLS_E_MEMORY_ERROR ? KVR_NO_MEMORY : KVR_INVALID,
                         "certificates", "%s failed: %s", what, gnutls_strerror(code));
}

static kvr_status check_open_folder(const struct certificate_folder *folder,
                                    struct kvr_error *error)
{
    struct stat is;

    if (fstat(folder->fd, &is) != 0)
        return kvr_error_system(error, "certificates", errno, "%s", folder->path);
    if ((is.st_mode & 077) != 0)
        return kvr_error_set(error, KVR_INVALID, "certificates",
                             "%s has mode %04o, so that others may enter it: chmod 0700 %s",
                             folder->path, (unsigned)is.st_mode & 07777, folder->path);
    if (flock(folder->fd, LOCK_EX) != 0)
        return kvr_error_system(error, "certificates", errno, "%s cannot be locked", folder->path);
    return KVR_OK;
}

kvr_status certificate_folder_open(const char *path, bool make,
                                   struct certificate_folder *ret_folder, struct kvr_error *error)
{
    struct certificate_folder folder = {.path = path};
    kvr_status status;

    if (make && mkdir(path, 0700) != 0 && errno != EEXIST)
        return kvr_error_system(error, "certificates", errno, "%s cannot be made", path);
    folder.fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder.fd < 0)
        return kvr_error_system(error, "certificates", errno, "%s cannot be opened", path);
    status = check_open_folder(&folder, error);
    if (status != KVR_OK) {
        close(folder.fd);
        return status;
    }
    *ret_folder = folder;
    return KVR_OK;
}

void certificate_folder_close(struct certificate_folder *folder)
{
    close(folder->fd);
    folder->fd = -1;
}

bool certificate_folder_has(const struct certificate_folder *folder, const char *name)
{
    struct stat is;

    return fstatat(folder->fd, name, &is, AT_SYMLINK_NOFOLLOW) == 0;
}

kvr_status certificate_folder_read(const struct certificate_folder *folder, const char *name,
                                   gnutls_datum_t *ret_data, struct kvr_error *error)
{
    struct kvr_error why = {0};
    kvr_status status = kvr_pem_file_read(folder->fd, name, ret_data, &why);

    if (status == KVR_OK)
        return KVR_OK;
    return kvr_error_set(error, status, "certificates", "%s: %s", folder->path, why.detail);
}

static bool write_all(int fd, const gnutls_datum_t *data)
{
    size_t done = 0;

    while (done < data->size) {
        ssize_t wrote = write(fd, data->data + done, data->size - done);

        if (wrote < 0 && errno != EINTR)
            return false;
        done += wrote > 0 ? (size_t)wrote : 0;
    }
    return true;
}

/* Whether the file is on the disk under its partial name. */
static bool write_partial(const struct certificate_folder *folder, const gnutls_datum_t *data,
                          mode_t mode)
{
    bool written;
    int fd;

    (void)unlinkat(folder->fd, PARTIAL_NAME, 0); /* of a process that was killed */
    fd = openat(folder->fd, PARTIAL_NAME, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
                CERTIFICATE_MODE_SECRET);
    if (fd < 0)
        return false;
    written = fchmod(fd, mode) == 0 && write_all(fd, data) && fsync(fd) == 0;
    return close(fd) == 0 && written;
}

kvr_status certificate_folder_write(const struct certificate_folder *folder, const char *name,
                                    const gnutls_datum_t *data, mode_t mode,
                                    struct kvr_error *error)
{
    if (write_partial(folder, data, mode) &&
        renameat(folder->fd, PARTIAL_NAME, folder->fd, name) == 0 && fsync(folder->fd) == 0)
        return KVR_OK;
    return kvr_error_system(error, "certificates", errno, "%s/%s cannot be written", folder->path,
                            name);
}

kvr_status certificate_folder_remove(const struct certificate_folder *folder, const char *name,
                                     struct kvr_error *error)
{
    if (unlinkat(folder->fd, name, 0) == 0 || errno == ENOENT)
        return KVR_OK;
    return kvr_error_system(error, "certificates", errno, "%s/%s cannot be removed", folder->path,
                            name);
}
