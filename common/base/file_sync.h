/* Puts a file, or the names in a folder, on the disk. No state; any thread. */
#ifndef KVR_BASE_FILE_SYNC_H
#define KVR_BASE_FILE_SYNC_H

/* Returns 0 or an errno. It takes as long as the disk does. */
int kvr_file_sync(const char *path);

#endif
