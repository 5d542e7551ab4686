/* Host memory that is pinned: page-locked, and seen by the GPU. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/fake_cuda_memory.h"

#define PINNED_MAX 64
#define OTHER      (UINT64_C(1) << 46) /* how far apart both addresses are, if they are */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct pinned {
    uint8_t *base;
    size_t bytes;
} pinned[PINNED_MAX];

bool fake_other_addresses(void)
{
    return getenv("FAKE_CUDA_OTHER_ADDRESSES") != NULL;
}

void fake_pinned_end(void)
{
    memset(pinned, 0, sizeof(pinned));
}

/* All of it is mapped, to be read and written. */
static bool is_writable(const uint8_t *base, size_t bytes)
{
    uintptr_t at = (uintptr_t)base, from, to;
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[512], may[5];

    if (maps == NULL)
        return false;
    while (at < (uintptr_t)base + bytes && fgets(line, sizeof(line), maps) != NULL)
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s", &from, &to, may) == 3 && at >= from &&
            at < to && may[0] == 'r' && may[1] == 'w')
            at = to;
    fclose(maps);
    return at >= (uintptr_t)base + bytes;
}

static bool overlaps(const struct pinned *other, const uint8_t *base, size_t bytes)
{
    return other->base != NULL && base < other->base + other->bytes && other->base < base + bytes;
}

CUresult fake_MemHostRegister(void *base, size_t bytes, unsigned flags)
{
    unsigned known = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
    struct pinned *place = NULL;
    CUresult code = fake_ready();

    if (code != CUDA_SUCCESS)
        return code;
    if (base == NULL || bytes == 0 || (flags & ~known) != 0 || !is_writable(base, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < PINNED_MAX && code == CUDA_SUCCESS; i++) {
        if (overlaps(&pinned[i], base, bytes))
            code = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
        else if (pinned[i].base == NULL && place == NULL)
            place = &pinned[i];
    }
    if (code == CUDA_SUCCESS && place == NULL)
        code = CUDA_ERROR_OUT_OF_MEMORY;
    if (code == CUDA_SUCCESS)
        *place = (struct pinned){.base = base, .bytes = bytes};
    pthread_mutex_unlock(&lock);
    return code;
}

CUresult fake_MemHostUnregister(void *base)
{
    CUresult code = fake_ready();

    if (code != CUDA_SUCCESS)
        return code;
    code = CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < PINNED_MAX && code != CUDA_SUCCESS; i++) {
        if (base == NULL || pinned[i].base != base)
            continue;
        pinned[i] = (struct pinned){.base = NULL};
        code = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&lock);
    return code;
}

static bool is_pinned(const uint8_t *base, size_t bytes)
{
    bool found = false;

    pthread_mutex_lock(&lock);
    for (int i = 0; i < PINNED_MAX && !found; i++)
        found = pinned[i].base != NULL && base >= pinned[i].base &&
                base + bytes <= pinned[i].base + pinned[i].bytes;
    pthread_mutex_unlock(&lock);
    return found;
}

uint8_t *fake_pinned_seen(uint64_t address, uint64_t bytes)
{
    uint8_t *base = (uint8_t *)(uintptr_t)(fake_other_addresses() ? address - OTHER : address);

    return is_pinned(base, bytes) ? base : NULL;
}

CUresult fake_MemHostGetDevicePointer(CUdeviceptr *ret, void *base, unsigned flags)
{
    CUresult code = fake_ready();

    if (code != CUDA_SUCCESS)
        return code;
    *ret = (uintptr_t)base + (fake_other_addresses() ? OTHER : 0);
    return flags == 0 && is_pinned(base, 1) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
