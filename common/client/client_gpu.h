/* Shared by the files of libkvrail that use a GPU. Only in builds with CUDA. */
#ifndef KVR_CLIENT_CLIENT_GPU_H
#define KVR_CLIENT_CLIENT_GPU_H

#include "base/cuda_driver.h"
#include "client/client.h"

/* The driver; NULL: the connection has the reason. */
kvrail_status client_cuda(struct kvrail *client, const struct kvr_cuda **ret_cuda);
kvrail_status client_cuda_check(struct kvrail *client, const struct kvr_cuda *cuda, CUresult code,
                                const char *what);
/* The argument of a host function that works in a stream's order, where the GPU cannot. The
 * function frees it. */
struct client_host_call {
    struct kvrail *client;
    uint32_t word;
    uint64_t value;
};
kvrail_status client_queue_by_host(const struct kvr_cuda *cuda, CUstream stream, CUhostFn run,
                                   const struct client_host_call *call);
/* Lends the shared page to the GPU, once for a connection: client->page_on_device. */
CUresult client_lend_page(struct kvrail *client, const struct kvr_cuda *cuda);
/* KVRAIL_UNSUPPORTED, with that advice, while the stream is captured. */
kvrail_status client_uncaptured(struct kvrail *client, const struct kvr_cuda *cuda, CUstream stream,
                                const char *advice);

#define CLIENT_LEND                                                                                \
    "to lend the readiness words to the GPU (is a context current, and no stream captured?)"

#endif
