/* Device memory as an engine has it: a VMM allocation whose descriptor others can import. */
#ifndef KVR_TESTS_CUDA_MEMORY_H
#define KVR_TESTS_CUDA_MEMORY_H

#include <stdint.h>

/* A context of GPU 0 must be current. Fails the test when there is no memory. */
void *cuda_memory_new(uint64_t bytes, int *ret_fd);
void cuda_memory_free(void *allocation); /* NULL is fine */

#endif
