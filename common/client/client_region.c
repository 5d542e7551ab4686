/* Memory of the engine that the agent's cards may touch. */
#include "client/client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/extents.h"
#include "base/undumped.h"

#define WHERE "kvrail"

/* ---- memory ---------------------------------------------------------------------------------- */

static kvrail_status system_failed(struct kvrail_error *error, int os_errno, const char *what)
{
    struct kvr_error reason;

    (void)kvr_error_system(&reason, WHERE, os_errno, "%s", what);
    return client_tell(error, &reason);
}

kvrail_status kvrail_memory_create(const char *name, uint64_t bytes,
                                   struct kvrail_memory *ret_memory, struct kvrail_error *error)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    struct kvrail_memory memory = {.bytes = (bytes + page - 1) / page * page};
    struct kvr_error reason;
    int os_errno;

    if (bytes == 0 || bytes > INT64_MAX - page) {
        (void)kvr_error_set(&reason, KVR_INVALID, WHERE,
                            "memory of %llu bytes: it needs at least one, and less than 2^63",
                            (unsigned long long)bytes);
        return client_tell(error, &reason);
    }
    memory.fd = memfd_create(name != NULL ? name : "kvrail", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (memory.fd < 0)
        return system_failed(error, errno, "cannot make a memfd");
    if (ftruncate(memory.fd, (off_t)memory.bytes) == 0 &&
        fcntl(memory.fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0) {
        memory.address = mmap(NULL, memory.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.fd, 0);
        if (memory.address != MAP_FAILED) {
            kvr_undumped(memory.address, memory.bytes);
            *ret_memory = memory;
            return KVRAIL_OK;
        }
    }
    os_errno = errno;
    close(memory.fd);
    return system_failed(error, os_errno, "cannot size, seal and map a memfd");
}

void kvrail_memory_destroy(struct kvrail_memory *memory)
{
    if (memory->address == NULL)
        return;
    munmap(memory->address, memory->bytes);
    close(memory->fd);
    *memory = (struct kvrail_memory){.fd = -1};
}

void kvrail_region_dense(struct kvrail_region *region)
{
    region->base = 0;
    region->head_stride = region->head_bytes;
    region->token_stride = region->head_count * region->head_stride;
    region->page_stride =
        (region->page_tokens > 0 ? region->page_tokens : 1) * region->token_stride;
    region->part_stride = region->page_count * region->page_stride;
    region->layer_stride = region->part_count * region->part_stride;
    region->bytes = region->layer_count * region->layer_stride;
}

/* ---- regions --------------------------------------------------------------------------------- */

struct client_region *client_find_region(struct kvrail *client, uint32_t region)
{
    for (uint32_t i = 0; i < KVR_REGIONS_MAX; i++) {
        if (client->regions[i].number == region)
            return &client->regions[i];
    }
    return NULL;
}

/* Descriptors and the kind of memory, of a region that brings its own. */
static kvrail_status take_memory(struct kvrail *client, const struct kvrail_region *from,
                                 struct kvr_req_region *to)
{
    if ((unsigned)from->memory > KVRAIL_MEMORY_CUDA_VMM)
        return client_fail(client, KVR_INVALID, "memory kind %d is not known", (int)from->memory);
    if ((from->fd < 0) != (from->memory == KVRAIL_MEMORY_CUDA_IPC || from->allocation_count > 0))
        return client_fail(client, KVR_INVALID,
                           "a region needs a descriptor, except one of CUDA IPC or over several "
                           "allocations, which has none");
    if (from->allocation_count > 0 && from->memory != KVRAIL_MEMORY_CUDA_VMM)
        return client_fail(client, KVR_INVALID, "only CUDA_VMM lies over several allocations");
    if (from->allocation_count > KVR_EXTENTS_MAX)
        return client_fail(
            client, KVR_TOO_LARGE,
            "the region lies over %u allocations, and %d are the most: " KVR_EXTENTS_ADVICE,
            from->allocation_count, KVR_EXTENTS_MAX);
    if (from->fd >= 0 && fcntl(from->fd, F_GETFD) < 0)
        return client_fail(client, KVR_INVALID, "descriptor %d of the region is not open",
                           from->fd);
    to->memory = (kvr_memory_kind)from->memory;
    to->device = from->device;
    to->fd_offset = from->fd_offset;
    to->extent_count = from->allocation_count;
    memcpy(to->ipc, from->ipc, sizeof(to->ipc));
    if (from->memory != KVRAIL_MEMORY_MEMFD && from->device >= 0) {
        client_gpu_name(from->device, &to->gpu);
        to->order = client_flush_open(client, from->device);
    }
    return KVRAIL_OK;
}

/* An agent that is older than this library would refuse the region in other words. */
static kvrail_status check_abilities(struct kvrail *client, const struct kvrail_region *region)
{
    if (region->memory_of != 0 && !(client->abilities & KVR_ABILITY_MEMORY_OF))
        return client_fail(client, KVR_UNSUPPORTED,
                           "agent '%s' is older than this library and knows no regions in the "
                           "memory of others (memory_of): upgrade it, or give each region its "
                           "memory",
                           client->agent);
    if (region->page_tokens == 0 && !(client->abilities & KVR_ABILITY_STATES))
        return client_fail(client, KVR_UNSUPPORTED,
                           "agent '%s' is older than this library and knows no states with one "
                           "page a request (page_tokens 0): upgrade it",
                           client->agent);
    return KVRAIL_OK;
}

static kvrail_status take_region(struct kvrail *client, const struct kvrail_region *from,
                                 struct kvr_req_region *to)
{
    struct kvr_region_layout *layout = &to->layout;

    kvrail_status status = check_abilities(client, from);

    if (status == KVRAIL_OK && (from->part_count == 0 || from->part_count > KVR_PARTS_MAX))
        status = client_fail(client, KVR_INVALID, "a region has 1 to %d parts, not %u",
                             KVR_PARTS_MAX, from->part_count);
    if (status == KVRAIL_OK && from->memory_of > client->region_last)
        status =
            client_fail(client, KVR_NOT_FOUND, "memory_of %llu is no region of this connection",
                        (unsigned long long)from->memory_of);
    if (status == KVRAIL_OK && from->memory_of == 0)
        status = take_memory(client, from, to);
    if (status != KVRAIL_OK)
        return status;
    if (from->name != NULL && strlen(from->name) >= sizeof(to->name))
        return client_fail(client, KVR_INVALID, "a region's name has at most %zu bytes",
                           sizeof(to->name) - 1);
    strcpy(to->name, from->name != NULL ? from->name : "");
    to->memory_of = (uint32_t)from->memory_of;
    layout->group = from->group;
    layout->layer_first = from->layer_first;
    layout->layer_count = from->layer_count;
    layout->part_count = from->part_count;
    memcpy(layout->parts, from->parts, sizeof(layout->parts));
    layout->replicated = from->replicated != 0;
    layout->head_first = from->head_first;
    layout->head_count = from->head_count;
    layout->page_tokens = from->page_tokens;
    layout->page_count = from->page_count;
    layout->bytes = from->bytes;
    layout->base = from->base;
    layout->layer_stride = from->layer_stride;
    layout->part_stride = from->part_stride;
    layout->page_stride = from->page_stride;
    layout->token_stride = from->token_stride;
    layout->head_stride = from->head_stride;
    layout->head_bytes = from->head_bytes;
    return KVRAIL_OK;
}

static void wait_for(struct kvrail *client, short events, kvr_ns deadline)
{
    struct pollfd socket = {.fd = client->socket, .events = events};

    (void)poll(&socket, 1, client_ms_left(deadline));
}

kvrail_status client_send_fds(struct kvrail *client, const struct kvr_request *request,
                              const struct kvr_packet_fds *fds, kvr_ns deadline)
{
    static const struct timespec moment = {.tv_nsec = KVR_MS};
    struct kvr_error error;
    size_t bytes = 0;
    kvr_status status;

    for (;;) {
        status = client_flush(client);
        if (status == KVR_OK) {
            status = kvr_request_encode(request, client->packet, sizeof(client->packet), &bytes);
            if (status == KVR_OK)
                status = kvr_packet_send(client->socket, client->packet, bytes, fds);
        }
        if (status != KVR_AGAIN)
            break;
        if (client_ms_left(deadline) == 0)
            return client_fail(client, KVR_AGAIN, "the agent is behind: poll, then try again");
        wait_for(client, POLLOUT, deadline);
        if (fds->count > 0) /* poll does not show that too many descriptors are under way */
            (void)nanosleep(&moment, NULL);
    }
    if (status == KVR_PEER_LOST)
        return client_fail(client, KVR_AGENT_LOST, "agent '%s' has closed the connection",
                           client->agent);
    if (status == KVR_TOO_LARGE && kvr_packet_check(client->socket, bytes, &error) != KVR_OK)
        return client_fail(client, status, "the region cannot be sent: %s", error.detail);
    if (status != KVR_OK)
        return client_fail(client, status,
                           "the region cannot be encoded: its name must be printable UTF-8");
    return KVRAIL_OK;
}

/* KVR_AGAIN: another notice; it was kept for kvrail_poll. */
static kvr_status sort_notice(struct kvrail *client, uint32_t region,
                              const struct kvr_notice *notice, size_t bytes)
{
    bool ours =
        (notice->kind == KVR_NOTICE_REGION_READY || notice->kind == KVR_NOTICE_REGION_GONE) &&
        notice->handle == region;

    if (ours && notice->kind == KVR_NOTICE_REGION_READY)
        return KVR_OK;
    if (ours) {
        client_find_region(client, region)->number = 0;
        client_fail(client, notice->status < 0 ? notice->status : KVR_REFUSED, "%s",
                    notice->detail);
        return (kvr_status)client->error.status;
    }
    if (kvr_packet_queue_push(&client->stash, client->packet, bytes))
        client_show_ready(client);
    return KVR_AGAIN;
}

static kvrail_status await_region(struct kvrail *client, uint32_t region, kvr_ns deadline)
{
    struct kvr_notice notice;
    size_t bytes;
    kvr_status status;

    for (;;) {
        bool stash_full = !kvr_packet_queue_fits(&client->stash, KVR_PACKET_BYTES_MAX, 1);

        status = stash_full ? KVR_AGAIN : client_receive(client, &notice, &bytes);
        if (status == KVR_PEER_LOST)
            return client_fail(client, KVR_AGENT_LOST, "agent '%s' has closed the connection",
                               client->agent);
        if (status == KVR_OK)
            status = sort_notice(client, region, &notice, bytes);
        else if (stash_full || client_ms_left(deadline) == 0)
            return client_fail(client, KVR_TIMED_OUT,
                               "region %u is not ready yet: an event will say when", region);
        else
            wait_for(client, POLLIN, deadline);
        if (status != KVR_AGAIN)
            return (kvrail_status)status;
    }
}

/* Of memory that the agent opens by another handle, if this process has it at `address`: only the
 * owner of memory may be able to export it for cards. */
static void add_dmabuf(const struct kvrail *client, const struct kvrail_region *from,
                       struct kvr_req_region *to, struct kvr_packet_fds *fds)
{
    bool by_handle =
        from->memory == KVRAIL_MEMORY_CUDA_IPC || from->memory == KVRAIL_MEMORY_CUDA_VMM;
    int fd;

    if (from->memory_of != 0 || !by_handle || from->address == 0 ||
        !(client->abilities & KVR_ABILITY_DMABUF))
        return;
    fd = client_dmabuf_of(from, &to->dmabuf_offset);
    if (fd < 0)
        return;
    to->dmabuf = true;
    fds->fds[fds->count++] = fd;
}

static kvrail_status add_region(struct kvrail *client, const struct kvrail_region *region,
                                kvr_ns deadline)
{
    struct kvr_request request = {.kind = KVR_REQ_REGION_ADD};
    bool own = region->memory_of == 0; /* memory */
    struct kvr_packet_fds fds = {.count = own && region->fd >= 0, .fds = {region->fd}};
    struct client_region *place = client_find_region(client, 0);
    kvrail_status status;

    if (place == NULL)
        return client_fail(client, KVR_FULL, "a connection has at most %d regions",
                           KVR_REGIONS_MAX);
    status = take_region(client, region, &request.region);
    request.region.layout.region = client->region_last + 1;
    if (status == KVRAIL_OK && own && region->allocation_count > 0)
        status = client_extents_send(client, region, request.region.layout.region, deadline);
    if (status == KVRAIL_OK) {
        add_dmabuf(client, region, &request.region, &fds);
        status = client_send_fds(client, &request, &fds, deadline);
        if (request.region.dmabuf)
            close(fds.fds[fds.count - 1]);
    }
    if (status == KVRAIL_OK)
        *place = (struct client_region){++client->region_last, region->group};
    return status;
}

kvrail_status kvrail_region_add(struct kvrail *connection, const struct kvrail_region *region,
                                uint32_t timeout_ms, uint32_t *ret_region)
{
    kvr_ns deadline = kvr_clock_now() + timeout_ms * KVR_MS;
    struct kvrail_region own;
    struct kvr_error error;
    kvrail_status status = client_usable(connection);

    if (status != KVRAIL_OK)
        return status;
    if (CLIENT_COPY(&own, region, region, &error) != KVR_OK)
        return client_fail_as(connection, &error);
    status = add_region(connection, &own, deadline);
    if (status != KVRAIL_OK)
        return status;
    *ret_region = connection->region_last;
    return await_region(connection, *ret_region, deadline);
}

kvrail_status kvrail_region_drop(struct kvrail *connection, uint32_t region)
{
    struct kvr_request request = {.kind = KVR_REQ_REGION_DROP};
    kvrail_status status = client_usable(connection);

    if (status != KVRAIL_OK)
        return status;
    if (region == 0 || client_find_region(connection, region) == NULL)
        return client_fail(connection, KVR_NOT_FOUND, "region %u is not registered", region);
    request.region.layout.region = region;
    return client_send(connection, &request);
}
