/* Between the files of fake_cuda* that keep memory. */
#ifndef KVR_TESTS_FAKE_CUDA_MEMORY_H
#define KVR_TESTS_FAKE_CUDA_MEMORY_H

#include <stddef.h>

#include "tests/support/fake_cuda.h"

#define FAKE_GRAIN ((size_t)2 << 20) /* of VMM */

/* One allocation as this process knows it: a memfd. */
struct fake_allocation {
    bool used;
    enum { FAKE_PLAIN, FAKE_IPC, FAKE_VMM } kind;
    int fd;
    int gpu;         /* of the machine: where it lies */
    CUdevice device; /* of the context that made or opened it */
    size_t bytes;
    uint8_t *base; /* where it is mapped; NULL: nowhere */
    size_t mapped_bytes;
    uint64_t origin; /* ipc: its owner; a handle that is opened again is the same memory */
    unsigned opened; /* ipc: how often */
    bool accessible; /* vmm: by the GPU */
    bool shareable;  /* vmm: by a descriptor */
    bool for_cards;  /* vmm: made with gpuDirectRDMACapable; else always */
    bool released;   /* vmm: its handle; the memory stays as long as it is mapped */
};

/* Takes the descriptor; its name has the GPU. */
struct fake_allocation *fake_allocation_new(int kind, int fd, size_t bytes);
/* On a GPU of the machine. NULL: no memory. */
struct fake_allocation *fake_allocation_make(int kind, int gpu, bool for_cards, size_t bytes);
/* The GPU of memory that this driver made; -1: it did not. */
int fake_gpu_of(int fd);
/* Its first bytes; NULL: wherever there is room. */
bool fake_allocation_map(struct fake_allocation *allocation, uint8_t *at, size_t bytes);
void fake_allocation_end(struct fake_allocation *allocation);
/* Mapped there; NULL: none. */
struct fake_allocation *fake_allocation_at(CUdeviceptr address);
/* Which this handle names; NULL: none. */
struct fake_allocation *fake_allocation_of(CUmemGenericAllocationHandle handle);

/* Pinned memory: as fake_seen. */
uint8_t *fake_pinned_seen(uint64_t address, uint64_t bytes);
/* The GPU has other addresses of it than the process. */
bool fake_other_addresses(void);
void fake_pinned_end(void);
/* Of the last context of that device. */
void fake_memory_end(CUdevice device);

#endif
