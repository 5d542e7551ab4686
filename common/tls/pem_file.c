#include "tls/pem_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define WHERE "tls"

static kvr_status read_all(int fd, size_t bytes, const char *path, gnutls_datum_t *ret_data,
                           struct kvr_error *error)
{
    unsigned char *data = gnutls_malloc(bytes + 1);
    size_t done = 0;
    ssize_t got = 1;

    if (data == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, WHERE, "%s: no memory", path);
    while (done < bytes && got > 0) {
        got = read(fd, data + done, bytes - done);
        done += got > 0 ? (size_t)got : 0;
    }
    if (got < 0) {
        gnutls_free(data);
        return kvr_error_system(error, WHERE, errno, "%s cannot be read", path);
    }
    data[done] = '\0';
    *ret_data = (gnutls_datum_t){.data = data, .size = (unsigned)done};
    return KVR_OK;
}

kvr_status kvr_pem_file_read(int at, const char *path, gnutls_datum_t *ret_data,
                             struct kvr_error *error)
{
    int fd = openat(at, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe without a writer */
    kvr_status status;
    struct stat is;

    if (fd < 0 && errno == ENOENT)
        return kvr_error_set(error, KVR_NOT_FOUND, WHERE, "there is no file %s", path);
    if (fd < 0)
        return kvr_error_system(error, WHERE, errno, "%s cannot be read", path);
    if (fstat(fd, &is) != 0 || !S_ISREG(is.st_mode) || is.st_size > KVR_PEM_FILE_BYTES)
        status = kvr_error_set(error, KVR_INVALID, WHERE, "%s is no file of at most %u bytes", path,
                               KVR_PEM_FILE_BYTES);
    else
        status = read_all(fd, (size_t)is.st_size, path, ret_data, error);
    close(fd);
    return status;
}
