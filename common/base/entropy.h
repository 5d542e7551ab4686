/* The kernel's random numbers, for keys, nonces and boot ids. Any thread. */
#ifndef KVR_BASE_ENTROPY_H
#define KVR_BASE_ENTROPY_H

#include <stddef.h>
#include <stdint.h>

/* Fills memory from the kernel (getrandom); never fails once the machine has booted. */
void kvr_random_bytes(void *memory, size_t bytes);
uint64_t kvr_random_u64(void);

#endif
