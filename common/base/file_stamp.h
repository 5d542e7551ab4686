/* Whether the file at a path is another one, or has changed. No state; any thread. */
#ifndef KVR_BASE_FILE_STAMP_H
#define KVR_BASE_FILE_STAMP_H

#include <stdbool.h>
#include <sys/types.h>
#include <time.h>

struct kvr_file_stamp {
    dev_t device;
    ino_t inode;
    off_t bytes;
    struct timespec changed;
};

/* All 0: there is no such file. */
struct kvr_file_stamp kvr_file_stamp(const char *path);
bool kvr_file_stamp_same(const struct kvr_file_stamp *a, const struct kvr_file_stamp *b);

#endif
