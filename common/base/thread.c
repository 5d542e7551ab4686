#include "base/thread.h"

#include <signal.h>
#include <time.h>

int kvr_thread_start(const char *name, void *(*run)(void *), void *self, pthread_t *ret_thread)
{
    sigset_t all, before;
    int failed;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    failed = pthread_create(ret_thread, NULL, run, self);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed == 0)
        (void)pthread_setname_np(*ret_thread, name);
    return failed;
}

void kvr_condition_init(pthread_cond_t *condition)
{
    pthread_condattr_t monotonic;

    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &monotonic);
    pthread_condattr_destroy(&monotonic);
}
