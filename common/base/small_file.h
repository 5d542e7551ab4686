/* A file of the kernel with one short line, as those of /sys and /proc/sys. No state. */
#ifndef KVR_BASE_SMALL_FILE_H
#define KVR_BASE_SMALL_FILE_H

#include <stdbool.h>
#include <stddef.h>

/* Its first line without the newline, cut short where it does not fit. False: there is none. */
bool kvr_small_file_line(const char *path, char *ret_text, size_t capacity);
/* The number that it begins with. 0: there is no such file, or no number in it. */
long long kvr_small_file_number(const char *path);

#endif
