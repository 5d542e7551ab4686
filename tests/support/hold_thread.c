/* hold_thread TID: stops one thread of another process and prints "held". The thread goes on when
 * the standard input ends; the process' other threads run meanwhile. Exit status 77: the system
 * does not allow it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    pid_t thread = argc == 2 ? (pid_t)atoi(argv[1]) : 0;
    int status;

    if (thread <= 0)
        return 2;
    if (ptrace(PTRACE_SEIZE, thread, NULL, NULL) != 0) {
        perror("PTRACE_SEIZE");
        return errno == EPERM ? 77 : 1;
    }
    if (ptrace(PTRACE_INTERRUPT, thread, NULL, NULL) != 0 ||
        waitpid(thread, &status, __WALL) != thread || !WIFSTOPPED(status)) {
        perror("PTRACE_INTERRUPT");
        return 1;
    }
    puts("held");
    fflush(stdout);
    while (getchar() != EOF)
        ;
    return ptrace(PTRACE_DETACH, thread, NULL, NULL) == 0 ? 0 : 1;
}
