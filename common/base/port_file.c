#include "base/port_file.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static bool write_to(const char *path, unsigned port)
{
    FILE *file = fopen(path, "we");
    bool written = file != NULL && fprintf(file, "%u\n", port) > 0;

    return file != NULL && fclose(file) == 0 && written;
}

kvr_status kvr_port_file_write(const char *path, unsigned port, struct kvr_error *error)
{
    char partial[PATH_MAX + 8];
    struct stat is;
    bool written;

    if (stat(path, &is) == 0 && !S_ISREG(is.st_mode)) {
        written = write_to(path, port);
    } else {
        snprintf(partial, sizeof(partial), "%s.part", path);
        written = write_to(partial, port) && rename(partial, path) == 0;
    }
    if (!written)
        return kvr_error_system(error, "start", errno, "--port-file %s cannot be written", path);
    return KVR_OK;
}
