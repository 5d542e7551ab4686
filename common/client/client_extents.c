/* Sends the descriptors of a region that lies over several allocations: some with each packet,
 * before the region itself. A descriptor that is opened here is closed after its packet. */
#include "client/client.h"

#include <assert.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/extents.h"

static_assert(KVRAIL_ALLOCATIONS_MAX == KVR_EXTENTS_MAX, "kvrail.h and limits.h differ");

/* The region's allocations, and how many are sent. */
struct sending {
    const struct kvrail_region *region;
    uint64_t address; /* of the next allocation, where the region names only addresses */
    uint64_t bytes[KVR_PACKET_FDS_MAX];
    struct kvr_packet_fds fds;
};

static kvrail_status add_given(struct kvrail *client, struct sending *sending, uint32_t index)
{
    struct kvrail_allocation given;
    struct kvr_error error;

    if (CLIENT_COPY(&given, CLIENT_ELEMENT(sending->region->allocations, index), allocation,
                    &error) != KVR_OK)
        return client_fail_as(client, &error);
    if (given.fd < 0 || fcntl(given.fd, F_GETFD) < 0)
        return client_fail(client, KVR_INVALID, "descriptor %d of allocation %u is not open",
                           given.fd, index);
    sending->bytes[sending->fds.count] = given.bytes;
    sending->fds.fds[sending->fds.count++] = given.fd;
    return KVRAIL_OK;
}

/* The first may begin before the region; each other begins where the one before it ends. */
static kvrail_status add_mapped(struct kvrail *client, struct sending *sending, uint32_t index)
{
    struct kvrail_allocation opened;
    struct kvr_error error;
    uint64_t base;

    if (client_extent_open(sending->address, &base, &opened, &error) != KVR_OK)
        return client_fail_as(client, &error);
    sending->bytes[sending->fds.count] = opened.bytes;
    sending->fds.fds[sending->fds.count++] = opened.fd;
    if (base != sending->address - (index == 0 ? sending->region->fd_offset : 0))
        return client_fail(client, KVR_INVALID,
                           "the memory of the region is not mapped as it was when "
                           "kvrail_region_of_device looked at it");
    sending->address = base + opened.bytes;
    return KVRAIL_OK;
}

static kvrail_status fill(struct kvrail *client, struct sending *sending, uint32_t first)
{
    uint32_t left = sending->region->allocation_count - first;
    kvrail_status status = KVRAIL_OK;

    for (uint32_t i = 0; i < left && i < KVR_PACKET_FDS_MAX && status == KVRAIL_OK; i++)
        status = sending->region->allocations != NULL ? add_given(client, sending, first + i)
                                                      : add_mapped(client, sending, first + i);
    return status;
}

/* Lets the agent drop the descriptors that it has already. */
static void forget(struct kvrail *client, uint32_t number)
{
    struct kvr_request nothing = {.kind = KVR_REQ_REGION_EXTENTS, .extents = {.region = number}};
    struct kvrail_error why = client->error;

    (void)client_send(client, &nothing); /* if it fails, the next region does that */
    client->error = why;
}

kvrail_status client_extents_send(struct kvrail *client, const struct kvrail_region *region,
                                  uint32_t number, kvr_ns deadline)
{
    struct sending sending = {.region = region, .address = region->address};
    struct kvr_request request = {
        .kind = KVR_REQ_REGION_EXTENTS,
        .extents = {.region = number, .total = region->allocation_count, .bytes = sending.bytes}};
    kvrail_status status = KVRAIL_OK;

    for (uint32_t first = 0; first < region->allocation_count && status == KVRAIL_OK;
         first += sending.fds.count) {
        sending.fds.count = 0;
        status = fill(client, &sending, first);
        request.extents.first = first;
        request.extents.count = sending.fds.count;
        if (status == KVRAIL_OK)
            status = client_send_fds(client, &request, &sending.fds, deadline);
        for (uint32_t i = 0; i < sending.fds.count && region->allocations == NULL; i++)
            close(sending.fds.fds[i]);
    }
    if (status != KVRAIL_OK)
        forget(client, number);
    return status;
}
