/* A libcuda.so.1 of host memory, so that device_cuda and the clients' CUDA helpers run where there
 * is no GPU. It proves that the calls fit together: arguments, order, ends, and what is refused. It
 * proves nothing about a GPU.
 *
 * Addresses are those of the process; an allocation is a memfd, so that other processes can open
 * it. The work of a stream is queued, and done at the second query of an event or of the stream, so
 * that code which does not wait for the end fails. Kernels are known by name.
 *
 * It refuses all that a real driver refuses or does not promise. Calls: without a living context,
 * from a host function or in a forked process. Memory: invisible to every context, not aligned, or
 * pinned twice. Also a process's own IPC handle, and VMM without access or in another order.
 *
 * Private to fake_cuda*.c. */
#ifndef KVR_TESTS_FAKE_CUDA_H
#define KVR_TESTS_FAKE_CUDA_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cuda_driver.h"

/* Those that kvrail calls, and those that probes of the tests call. */
#define FAKE_CUDA_LIST(X)                                                                          \
    KVR_CUDA_LIST(X)                                                                               \
    KVR_CUDA_LATER_LIST(X)                                                                         \
    X(MemGetInfo, 3020)                                                                            \
    X(PointerSetAttribute, 6000)

/* For tests of this process, which look it up by name (dlsym). */
unsigned fake_cuda_launches(void);       /* kernels that were launched */
int fake_cuda_contexts(CUdevice device); /* how often that GPU's context is retained now */
unsigned fake_cuda_retains(void);        /* how often any was so far */

/* fake_MemAlloc and all the others, each as the driver's. */
#define X(name, of) __typeof__(*(PFN_cu##name##_v##of)NULL) fake_##name;
FAKE_CUDA_LIST(X)
#undef X

/* CUDA_SUCCESS, or what calls that need no context answer; and those that need one. */
CUresult fake_started(void);
CUresult fake_ready(void);
extern __thread bool fake_in_host_function; /* this thread runs one */
/* The machine has FAKE_CUDA_GPUS GPUs, or one; CUDA_VISIBLE_DEVICES says which of them this process
 * sees, and in which order. The GPU of a device, and the device of a GPU; -1: none. */
int fake_gpu(CUdevice device);
CUdevice fake_device(int gpu);
CUdevice fake_current_device(void); /* of the context */
/* All that needs a context is answered with this from now on, until the context is made anew. */
void fake_break(CUresult code);

/* What a GPU sees at these addresses, all of device memory side by side or of one piece of pinned
 * memory: where that is in this process. NULL: nothing. */
uint8_t *fake_seen(uint64_t address, uint64_t bytes);
/* All of these bytes are of one allocation, or of several of VMM that are mapped side by side. */
bool fake_is_device(uint64_t address, uint64_t bytes);
/* In the stream's order; both are addresses of this process. */
CUresult fake_queue_copy(CUstream stream, uint64_t from, uint64_t to, uint64_t bytes);

#endif
