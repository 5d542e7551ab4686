/* How many connections of rails this process has, as the kernel counts them: sockets, or queue
 * pairs of cards. Of these it counts those that the process's first thread made. */
#ifndef KVR_TESTS_CONNECTION_COUNT_H
#define KVR_TESTS_CONNECTION_COUNT_H

#include <stdint.h>

/* On tcp every socket counts, those that listen or carry commands too. UINT64_MAX: nothing on this
 * host counts them (queue pairs need the tool rdma, of iproute2). */
uint64_t connection_count(const char *provider);

#endif
