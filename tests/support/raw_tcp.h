/* An endpoint of libfabric's tcp without kvrail, as any program can open one. One at a time. */
#ifndef KVR_TESTS_RAW_TCP_H
#define KVR_TESTS_RAW_TCP_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include <rdma/fabric.h>
#include <rdma/fi_endpoint.h>

#define RAW_PATIENCE_S 30

extern struct fid_ep *raw_ep;
extern fi_addr_t raw_target;

/* 0: an endpoint is open, and the address is its target. 77: libfabric has no tcp. Else 1, and a
 * line on stderr. */
int raw_open(const void *address);
void raw_close(void);
/* Takes completions, so that there is room. False: a write failed. */
bool raw_take(uint64_t *ended);
time_t raw_seconds(void);
int raw_failed(const char *call, ssize_t code); /* 1, after a line on stderr */

#endif
