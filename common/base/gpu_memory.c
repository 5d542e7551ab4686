#include "base/gpu_memory.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>

/* As nvml.h has them; only 0 is success. */
struct nvml_memory {
    unsigned long long total, unused, used;
};
typedef int (*nvml_init)(void);
typedef int (*nvml_find)(const char *pci, void **ret_device);
typedef int (*nvml_memory_of)(void *device, struct nvml_memory *ret_memory);

static pthread_once_t once = PTHREAD_ONCE_INIT;
static void *library;  /* NVML; stays for the life of the process */
static nvml_find find; /* NULL: there is no NVML */
static nvml_memory_of memory_of;

static void start_once(void)
{
    nvml_init init;

    library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return;
    /* POSIX lets an object pointer be a function's. */
    init = (nvml_init)dlsym(library, "nvmlInit_v2");
    memory_of = (nvml_memory_of)dlsym(library, "nvmlDeviceGetMemoryInfo");
    if (init != NULL && memory_of != NULL && init() == 0)
        find = (nvml_find)dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2");
}

bool kvr_gpu_memory(const char *pci, struct kvr_gpu_memory *ret_memory)
{
    struct nvml_memory memory;
    void *device = NULL;

    pthread_once(&once, start_once);
    if (find == NULL || find(pci, &device) != 0 || memory_of(device, &memory) != 0)
        return false;
    *ret_memory = (struct kvr_gpu_memory){.total_bytes = memory.total, .used_bytes = memory.used};
    return true;
}
