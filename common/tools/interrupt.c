#include "tools/interrupt.h"

#include <signal.h>
#include <stddef.h>
#include <sys/select.h>
#include <time.h>

static volatile sig_atomic_t count;

static void on_signal(int number)
{
    (void)number;
    count = count + 1;
}

void interrupt_catch(void)
{
    struct sigaction action = {.sa_handler = on_signal}; /* without SA_RESTART: waits end */

    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
}

unsigned interrupts(void)
{
    return (unsigned)count;
}

/* pselect() unblocks both signals when its wait begins, not before: none is missed. */
bool interrupt_sleep(kvr_ns time, unsigned heard)
{
    struct timespec pause = {.tv_sec = (time_t)(time / KVR_S), .tv_nsec = (long)(time % KVR_S)};
    sigset_t both, before;
    bool slept;

    sigemptyset(&both);
    sigaddset(&both, SIGINT);
    sigaddset(&both, SIGTERM);
    sigprocmask(SIG_BLOCK, &both, &before);
    slept = interrupts() <= heard && pselect(0, NULL, NULL, NULL, &pause, &before) == 0;
    sigprocmask(SIG_SETMASK, &before, NULL);
    return slept;
}
