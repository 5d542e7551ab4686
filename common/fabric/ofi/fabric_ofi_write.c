/* What happens on an endpoint: addresses, writes, completions. Nothing here allocates. */
#include "fabric/ofi/fabric_ofi_state.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/uio.h>

#define POLL_MAX 64

/* The bytes came over the wire: check them before the provider reads them. */
static bool address_fits(const struct kvr_endpoint *endpoint, const uint8_t *address,
                         uint32_t bytes)
{
    struct sockaddr header;

    if (bytes == 0 || bytes > KVR_ADDRESS_BYTES)
        return false;
    switch (endpoint->rail->info->addr_format) {
    case FI_SOCKADDR_IN:
    case FI_SOCKADDR_IN6:
        if (bytes != endpoint->address_bytes || bytes < sizeof(header))
            return false;
        memcpy(&header, address, sizeof(header));
        return header.sa_family ==
               (endpoint->rail->info->addr_format == FI_SOCKADDR_IN ? AF_INET : AF_INET6);
    case FI_ADDR_STR:
        return memchr(address, '\0', bytes) == address + bytes - 1;
    default:
        return bytes == endpoint->address_bytes;
    }
}

kvr_status ofi_peer_insert(struct kvr_endpoint *endpoint, const uint8_t *address, uint32_t bytes,
                           uint64_t *ret_peer, struct kvr_error *error)
{
    fi_addr_t peer = FI_ADDR_UNSPEC;
    int count;

    if (!address_fits(endpoint, address, bytes))
        return kvr_error_set(
            error, KVR_INVALID, "fabric",
            "a peer's address of %u bytes is not of the kind that rail %s (%s) uses", bytes,
            endpoint->rail->facts.name, endpoint->rail->facts.provider);
    count = fi_av_insert(endpoint->av, address, 1, &peer, 0, NULL);
    if (count != 1 || peer == FI_ADDR_NOTAVAIL)
        return ofi_error(error, KVR_RAIL_FAILED, count < 0 ? count : -FI_EADDRNOTAVAIL,
                         "fi_av_insert", endpoint->rail, "");
    ofi_congestion_expect(endpoint, peer);
    *ret_peer = peer;
    return KVR_OK;
}

/* ofi_rxm closes a connection with its address. It follows a null pointer where the connection has
 * been begun and has no endpoint: the route was missing, or both ends connected at once and the
 * peer's attempt has not come (1.17 to 2.6). If it took the last write, the endpoint is there. */
bool ofi_peer_may_go(const struct kvr_endpoint *endpoint, uint64_t peer)
{
    return !endpoint->rail->provider->libfabric.closes_removed ||
           (peer < OFI_PEERS && (endpoint->refused[peer / 64] & (UINT64_C(1) << (peer % 64))) == 0);
}

static void peer_took(struct kvr_endpoint *endpoint, uint64_t peer, bool took)
{
    uint64_t bit = UINT64_C(1) << (peer % 64);

    if (peer >= OFI_PEERS)
        return;
    if (took)
        endpoint->refused[peer / 64] &= ~bit;
    else
        endpoint->refused[peer / 64] |= bit;
}

/* An address that may not go stays until its endpoint ends. */
void ofi_peer_remove(struct kvr_endpoint *endpoint, uint64_t peer)
{
    fi_addr_t place = peer;

    if (ofi_peer_may_go(endpoint, peer))
        (void)fi_av_remove(endpoint->av, &place, 1, 0);
}

static struct ofi_context *take_context(struct kvr_endpoint *endpoint,
                                        const struct kvr_fabric_write *write)
{
    struct ofi_context *slot = endpoint->free_contexts;

    endpoint->free_contexts = slot->next;
    slot->context = write->context;
    slot->peer = write->peer;
    return slot;
}

void ofi_context_free(struct kvr_endpoint *endpoint, struct ofi_context *context)
{
    context->next = endpoint->free_contexts;
    endpoint->free_contexts = context;
}

/* The pieces as runs of bytes at either end; returns how many bytes they are. */
static uint64_t fill_runs(const struct kvr_fabric_write *write, struct fi_msg_rma *message,
                          struct iovec *local, void **descriptors, struct fi_rma_iov *remote)
{
    size_t locals = 0, remotes = 0;
    uint64_t bytes = 0;

    for (unsigned i = 0; i < write->piece_count; i++) {
        const struct kvr_fabric_piece *piece = &write->pieces[i];

        if (i > 0 && kvr_fabric_joins_local(piece - 1, piece)) {
            local[locals - 1].iov_len += piece->bytes;
        } else {
            local[locals] = (struct iovec){.iov_base = piece->local, .iov_len = piece->bytes};
            descriptors[locals++] = piece->memory->descriptor;
        }
        if (i > 0 && kvr_fabric_joins_remote(piece - 1, piece))
            remote[remotes - 1].len += piece->bytes;
        else
            remote[remotes++] = (struct fi_rma_iov){piece->remote, piece->bytes, piece->key};
        bytes += piece->bytes;
    }
    message->iov_count = locals;
    message->rma_iov_count = remotes;
    return bytes;
}

kvr_status ofi_write(struct kvr_endpoint *endpoint, const struct kvr_fabric_write *write)
{
    struct iovec local[KVR_IOV_MAX];
    struct fi_rma_iov remote[KVR_IOV_MAX];
    void *descriptors[KVR_IOV_MAX];
    struct fi_msg_rma message = {
        .msg_iov = local,
        .desc = descriptors,
        .addr = write->peer,
        .rma_iov = remote,
        .context = (void *)(uintptr_t)write->context,
        .data = write->immediate & endpoint->rail->immediate_mask,
    };
    uint64_t flags = FI_REMOTE_CQ_DATA | FI_COMPLETION | (write->more ? FI_MORE : 0);
    struct ofi_context *slot = NULL;
    bool asks = false;
    uint64_t bytes;
    ssize_t code;

    bytes = fill_runs(write, &message, local, descriptors, remote);
    if (endpoint->rail->acknowledges)
        asks = write->acknowledged || ofi_ack_asks(endpoint, write->peer, bytes);
    /* fi_inject calls give no completion; this flag beside FI_COMPLETION gives one all the same. */
    if (bytes <= endpoint->rail->inline_bytes && !write->acknowledged && !asks)
        flags |= FI_INJECT;
    if (asks || (write->acknowledged && endpoint->rail->provider->libfabric.completes_early))
        flags |= FI_DELIVERY_COMPLETE;
    if (endpoint->contexts != NULL) {
        if (endpoint->free_contexts == NULL)
            return KVR_AGAIN;
        message.context = slot = take_context(endpoint, write);
    }
    code = fi_writemsg(endpoint->ep, &message, flags);
    peer_took(endpoint, write->peer, code == 0);
    if (code != 0 && slot != NULL)
        ofi_context_free(endpoint, slot);
    else if (endpoint->rail->acknowledges)
        ofi_ack_posted(endpoint, slot, write->peer, bytes, asks);
    if (code == -FI_EAGAIN)
        return KVR_AGAIN;
    return code == 0 ? KVR_OK : KVR_RAIL_FAILED;
}

/* Which write an entry belongs to; false: none of ours, or one that is held. */
static bool find_context(struct kvr_endpoint *endpoint, void *pointer, bool failed,
                         uint64_t *ret_context)
{
    struct ofi_context *slot = pointer;

    if (pointer == NULL)
        return false;
    if (endpoint->contexts == NULL) {
        *ret_context = (uint64_t)(uintptr_t)pointer;
        return true;
    }
    if (slot < endpoint->contexts || slot >= endpoint->contexts + endpoint->context_count)
        return false;
    *ret_context = slot->context;
    if (!failed && endpoint->rail->congestion[0] != '\0')
        ofi_congestion_connected(endpoint, slot->peer);
    if (endpoint->rail->acknowledges)
        return ofi_ack_ended(endpoint, slot, failed);
    ofi_context_free(endpoint, slot);
    return true;
}

static struct kvr_completion failure(ssize_t provider_code)
{
    return (struct kvr_completion){.kind = KVR_COMPLETION_FAILED,
                                   .status = KVR_RAIL_FAILED,
                                   .provider_code = (int)provider_code};
}

static unsigned read_error(struct kvr_endpoint *endpoint, struct kvr_completion *ret_completion)
{
    struct fi_cq_err_entry entry = {0};
    ssize_t code = fi_cq_readerr(endpoint->cq, &entry, 0);

    if (code == -FI_EAGAIN)
        return 0;
    *ret_completion = failure(code == 1 ? -entry.err : code);
    if (code != 1) {
        endpoint->queue_broken = true;
        return 1;
    }
    if ((entry.flags & (FI_REMOTE_WRITE | FI_RECV)) == 0)
        ret_completion->has_context =
            find_context(endpoint, entry.op_context, true, &ret_completion->context);
    if (!ret_completion->has_context)
        ret_completion->status = KVR_PEER_LOST;
    return 1;
}

/* sockets puts FI_REMOTE_CQ_DATA on its own writes too, and no provider's `len` can be trusted:
 * what makes an arrival is FI_REMOTE_WRITE. */
static bool translate(struct kvr_endpoint *endpoint, const struct fi_cq_data_entry *entry,
                      struct kvr_completion *ret_completion)
{
    *ret_completion = (struct kvr_completion){.status = KVR_OK};
    if ((entry->flags & FI_REMOTE_WRITE) != 0) {
        ret_completion->kind = KVR_COMPLETION_ARRIVED;
        ret_completion->immediate = entry->data & endpoint->rail->immediate_mask;
        return (entry->flags & FI_REMOTE_CQ_DATA) != 0;
    }
    ret_completion->kind = KVR_COMPLETION_WRITTEN;
    ret_completion->has_context =
        find_context(endpoint, entry->op_context, false, &ret_completion->context);
    return ret_completion->has_context;
}

unsigned ofi_poll(struct kvr_endpoint *endpoint, struct kvr_completion *ret_completions,
                  unsigned capacity)
{
    struct fi_cq_data_entry entries[POLL_MAX];
    unsigned count = 0;
    ssize_t got;

    if (endpoint->has_held) {
        endpoint->has_held = false;
        *ret_completions = endpoint->held;
        return 1;
    }
    count = ofi_ack_ready(endpoint, ret_completions, capacity);
    if (count > 0 || endpoint->queue_broken)
        return count;
    /* Goes on past entries that give no completion: the caller sleeps when it gets none, and other
     * entries may lie behind them. */
    do {
        got = fi_cq_read(endpoint->cq, entries, capacity < POLL_MAX ? capacity : POLL_MAX);
        for (ssize_t i = 0; i < got; i++)
            count += translate(endpoint, &entries[i], &ret_completions[count]);
    } while (got > 0 && count == 0);
    if (got == -FI_EAGAIN)
        return 0;
    if (got == -FI_EAVAIL)
        return read_error(endpoint, ret_completions);
    if (got < 0) {
        endpoint->queue_broken = true;
        *ret_completions = failure(got);
        return 1;
    }
    return count + ofi_ack_ready(endpoint, ret_completions + count, capacity - count);
}
