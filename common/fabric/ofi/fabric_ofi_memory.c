/* Registrations: they belong to the rail's domain and outlive every endpoint. */
#include "fabric/ofi/fabric_ofi_state.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/entropy.h"

#define KEY_TRIES 16

/* Locked memory that one endpoint on each open rail needs for itself. A layered provider pins its
 * buffers when a connection is made; where it cannot, it answers EAGAIN without end. So this file
 * proves that there is room, before an endpoint is opened and after a region was registered. Once
 * the first endpoints have their buffers, the same room remains for their successors. */
static _Atomic uint64_t own_buffer_bytes;

/* libfabric's tcp reads its table of registrations whenever it makes progress, with the wrong lock
 * or none (libfabric's issue 9148). A helper thread that registers or releases would change the
 * tree under the rail's own thread. The lock is contended only when an engine comes or goes. */
void ofi_lock(struct kvr_rail *rail)
{
    if (rail->provider->libfabric.memory_unlocked)
        pthread_mutex_lock(&rail->lock);
}

static bool try_lock(struct kvr_rail *rail)
{
    return !rail->provider->libfabric.memory_unlocked || pthread_mutex_trylock(&rail->lock) == 0;
}

void ofi_unlock(struct kvr_rail *rail)
{
    if (rail->provider->libfabric.memory_unlocked)
        pthread_mutex_unlock(&rail->lock);
}

/* Keys that we choose are random: on tcp a key outlives the endpoint, and one that a peer of an
 * earlier boot still holds must not open this boot's memory. */
static uint64_t random_key(const struct fi_info *info)
{
    size_t bytes = info->domain_attr->mr_key_size;

    return bytes >= sizeof(uint64_t) ? kvr_random_u64()
                                     : kvr_random_u64() & ((1ull << (8 * bytes)) - 1);
}

/* Other regions have the rest of what the card maps, so a part of it may be too much. */
static bool has_many_pages(const struct kvr_rail *rail, uint64_t bytes)
{
    uint64_t most = rail->provider->libfabric.pages_max;

    return most > 0 && bytes / (uint64_t)sysconf(_SC_PAGESIZE) > most / 4;
}

/* The usual reason is the limit of locked memory, which counts a region once for every rail: even a
 * region far below the limit may be too much. The sentence then names the remedy. */
static kvr_status refuse(struct kvr_error *error, int code, const struct kvr_rail *rail,
                         const char *what, uint64_t bytes)
{
    struct rlimit limit = {.rlim_cur = RLIM_INFINITY};

    getrlimit(RLIMIT_MEMLOCK, &limit);
    if ((code == -FI_ENOMEM || code == -FI_EPERM) && limit.rlim_cur != RLIM_INFINITY)
        (void)kvr_error_set(
            error, KVR_SYSTEM, "fabric",
            "rail %s cannot %s %llu bytes: the limit of locked memory is %llu bytes, and counts "
            "every region on every rail; raise it (ulimit -l unlimited, "
            "LimitMEMLOCK=infinity)",
            rail->facts.name, what, (unsigned long long)bytes, (unsigned long long)limit.rlim_cur);
    else if (has_many_pages(rail, bytes))
        (void)kvr_error_set(
            error, KVR_SYSTEM, "fabric",
            "rail %s cannot %s %llu bytes: %s; its card maps about %llu million pages, all regions "
            "together: memory in huge pages (a memfd with MFD_HUGETLB) has fewer",
            rail->facts.name, what, (unsigned long long)bytes, fi_strerror(-code),
            (unsigned long long)rail->provider->libfabric.pages_max / 1000000);
    else
        (void)kvr_error_set(error, KVR_SYSTEM, "fabric", "rail %s cannot %s %llu bytes: %s",
                            rail->facts.name, what, (unsigned long long)bytes, fi_strerror(-code));
    if (error != NULL)
        error->provider_code = code;
    return KVR_SYSTEM;
}

/* libfabric's own words, "Function not implemented", name no cause. */
static kvr_status refuse_device(struct kvr_error *error, int code, const struct kvr_rail *rail)
{
    (void)kvr_error_set(error, KVR_SYSTEM, "fabric",
                        "rail %s cannot register device memory: libfabric has no CUDA. It opens "
                        "libcudart.so by that name, and a runtime package has libcudart.so.12 or "
                        "so: link it in a folder of LD_LIBRARY_PATH",
                        rail->facts.name);
    if (error != NULL)
        error->provider_code = code;
    return KVR_SYSTEM;
}

/* Returns libfabric's code. */
static int register_span(struct kvr_rail *rail, const struct kvr_memory_span *span,
                         struct fid_mr **ret_mr)
{
    struct iovec iov = {.iov_base = span->base, .iov_len = span->bytes};
    struct fi_mr_attr attr = {
        .mr_iov = &iov,
        .iov_count = 1,
        .access = (span->local ? FI_WRITE : 0) | (span->remote ? FI_REMOTE_WRITE : 0),
    };
    bool chosen = (rail->info->domain_attr->mr_mode & FI_MR_PROV_KEY) == 0;
    int code = -FI_ENOKEY;

    for (int i = 0; i < (span->key != 0 ? 1 : KEY_TRIES) && code == -FI_ENOKEY; i++) {
        if (span->key != 0)
            attr.requested_key = span->key;
        else
            attr.requested_key = chosen ? random_key(rail->info) : 0;
        if (!span->at_once)
            ofi_lock(rail);
        else if (!try_lock(rail))
            return -FI_EAGAIN;
        code = span->kind == KVR_SPAN_HOST || rail->device_emulated
                   ? fi_mr_regattr(rail->domain, &attr, 0, ret_mr)
                   : ofi_device_register(rail, span, &attr, ret_mr);
        ofi_unlock(rail);
    }
    return code;
}

static void release_mr(struct kvr_rail *rail, struct fid_mr *mr)
{
    ofi_lock(rail);
    fi_close(&mr->fid);
    ofi_unlock(rail);
}

void ofi_memory_count_rail(const struct kvr_rail *rail, bool opened)
{
    uint64_t bytes = ofi_own_buffer_bytes(rail->provider);

    if (opened)
        atomic_fetch_add(&own_buffer_bytes, bytes);
    else
        atomic_fetch_sub(&own_buffer_bytes, bytes);
}

static int try_bytes(struct kvr_rail *rail, uint64_t bytes)
{
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    struct kvr_memory_span span = {
        .base = base, .bytes = bytes, .local = true, .remote = true, .fd = -1};
    struct fid_mr *mr;
    int code;

    if (base == MAP_FAILED)
        return -FI_ENOMEM;
    code = register_span(rail, &span, &mr);
    if (code == 0)
        release_mr(rail, mr);
    munmap(base, bytes);
    return code;
}

/* A process without a limit has none to run into. */
static int try_own_buffers(struct kvr_rail *rail, uint64_t *ret_bytes)
{
    struct rlimit limit;

    *ret_bytes = atomic_load(&own_buffer_bytes);
    if (*ret_bytes == 0 ||
        (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur == RLIM_INFINITY))
        return 0;
    return try_bytes(rail, *ret_bytes);
}

kvr_status ofi_memory_room(struct kvr_rail *rail, struct kvr_error *error)
{
    uint64_t bytes;
    int code = try_own_buffers(rail, &bytes);

    return code == 0
               ? KVR_OK
               : refuse(error, code, rail, "pin its own and the other rails' buffers of", bytes);
}

kvr_status ofi_memory_register(struct kvr_rail *rail, const struct kvr_memory_span *span,
                               struct kvr_memory **ret_memory, struct kvr_error *error)
{
    struct kvr_memory *memory = calloc(1, sizeof(*memory));
    uint64_t own_bytes;
    int code;

    if (memory == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "fabric", "no memory for a registration");
    code = register_span(rail, span, &memory->mr);
    if (code == 0 && span->key == 0) {
        code = try_own_buffers(rail, &own_bytes);
        if (code != 0)
            release_mr(rail, memory->mr);
    }
    if (code != 0) {
        free(memory);
        if (code == -FI_EAGAIN && span->at_once)
            return KVR_AGAIN;
        return span->kind != KVR_SPAN_HOST && code == -FI_ENOSYS
                   ? refuse_device(error, code, rail)
                   : refuse(error, code, rail, "register", span->bytes);
    }
    memory->rail = rail;
    memory->descriptor = fi_mr_desc(memory->mr);
    memory->key.key = span->remote ? fi_mr_key(memory->mr) : 0;
    memory->key.base = (rail->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0
                           ? (uint64_t)(uintptr_t)span->base
                           : 0;
    *ret_memory = memory;
    return KVR_OK;
}

/* Linux before 6.2 pins pages for a card as if it would write to them, and refuses those of a
 * shared mapping that may only be read. */
bool ofi_memory_pins_writable(struct kvr_rail *rail)
{
    size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
    int fd = memfd_create("kvrail-try", MFD_CLOEXEC);
    struct fid_mr *mr;
    int code;
    struct kvr_memory_span span;
    void *page = MAP_FAILED;

    if (fd >= 0 && ftruncate(fd, (off_t)bytes) == 0)
        page = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    if (page == MAP_FAILED)
        return false; /* a region's registration then says why */
    span = (struct kvr_memory_span){.base = page, .bytes = bytes, .local = true, .fd = -1};
    code = register_span(rail, &span, &mr);
    if (code == 0)
        release_mr(rail, mr);
    munmap(page, bytes);
    return code == -EFAULT;
}

void ofi_memory_release(struct kvr_memory *memory)
{
    if (memory == NULL)
        return;
    release_mr(memory->rail, memory->mr);
    free(memory);
}

struct kvr_remote_key ofi_memory_key(const struct kvr_memory *memory)
{
    return memory->key;
}
