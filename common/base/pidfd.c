#include "base/pidfd.h"

#include <sys/syscall.h>
#include <unistd.h>

int kvr_pidfd_open(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}
