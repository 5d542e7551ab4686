/* A descriptor of a process, which shows its end. Called by number: glibc has the function only
 * since 2.36, and the programs run with 2.34. */
#ifndef KVR_BASE_PIDFD_H
#define KVR_BASE_PIDFD_H

#include <stdbool.h>
#include <sys/types.h>

/* The caller closes it; close-on-exec. -1 with errno, as the kernel answers (ENOSYS before
 * Linux 5.3). */
int kvr_pidfd_open(pid_t pid);

/* Whether a descriptor that another process sent is a pidfd at all, of whichever process. */
bool kvr_pidfd_is(int fd);

#endif
