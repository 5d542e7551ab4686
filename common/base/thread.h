/* Threads that leave the process's signals to its first thread. */
#ifndef KVR_BASE_THREAD_H
#define KVR_BASE_THREAD_H

#include <pthread.h>

/* name: at most 15 bytes, for `ps` and logs. Returns 0, or pthread_create's error. */
int kvr_thread_start(const char *name, void *(*run)(void *), void *self, pthread_t *ret_thread);
/* Of the monotonic clock, for pthread_cond_timedwait. */
void kvr_condition_init(pthread_cond_t *condition);

#endif
