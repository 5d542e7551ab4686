/* A libnvidia-ml.so.1 beside the driver of host memory: a context of this process takes 500 MiB of
 * its GPU, and nothing else takes any. With FAKE_NVML_NONE it does not start. */
#include <dlfcn.h>
#include <stdlib.h>

#define MIB         (1ull << 20)
#define TOTAL       (64 * 1024 * MIB)
#define OF_CONTEXT  (500 * MIB)
#define FIRST_BUS   0x9a /* fake_cuda.c */
#define GPUS_MAX    8
#define NOT_FOUND   6
#define UNAVAILABLE 9

#define AS(name) __asm__(name) __attribute__((visibility("default")))

struct memory {
    unsigned long long total, unused, used;
};

int fake_init(void) AS("nvmlInit_v2");
int fake_find(const char *pci, void **ret_device) AS("nvmlDeviceGetHandleByPciBusId_v2");
int fake_memory_of(const void *device, struct memory *ret_memory) AS("nvmlDeviceGetMemoryInfo");

static char gpus[GPUS_MAX];

int fake_init(void)
{
    return getenv("FAKE_NVML_NONE") != NULL ? UNAVAILABLE : 0;
}

int fake_find(const char *pci, void **ret_device)
{
    long gpu = strtol(pci + 5, NULL, 16) - FIRST_BUS; /* behind the domain, "0000:" */

    if (gpu < 0 || gpu >= GPUS_MAX)
        return NOT_FOUND;
    *ret_device = &gpus[gpu];
    return 0;
}

int fake_memory_of(const void *device, struct memory *ret_memory)
{
    /* POSIX lets an object pointer be a function's. */
    int (*contexts)(int) = (int (*)(int))dlsym(RTLD_DEFAULT, "fake_cuda_contexts");
    int gpu = (int)((const char *)device - gpus);

    ret_memory->total = TOTAL;
    ret_memory->used = contexts != NULL && contexts(gpu) > 0 ? OF_CONTEXT : 0;
    ret_memory->unused = ret_memory->total - ret_memory->used;
    return 0;
}
