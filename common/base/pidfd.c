#include "base/pidfd.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

int kvr_pidfd_open(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

/* Signal 0 sends nothing. A process of another user or pid namespace is refused in other words than
 * a descriptor that is no pidfd. */
bool kvr_pidfd_is(int fd)
{
    return syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0) == 0 ||
           (errno != EBADF && errno != ENOSYS);
}
