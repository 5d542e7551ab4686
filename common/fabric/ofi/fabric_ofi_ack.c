/* Writes that count as on their way until the target has them, on a provider that completes them
 * as soon as the kernel has taken their bytes (tcp).
 *
 * There the kernel's buffers at both ends come on top of a rail's window, up to the sysctl limits,
 * and the next write waits for them too. The provider can wait for the target's acknowledgement,
 * which costs a message back. So a write asks for one when ASK_BYTES were posted to its peer since
 * the last write that asked. While a write that asked is on its way, the completions of the writes
 * after it are held. A connection keeps order, so less than ASK_BYTES a peer are on their way
 * uncounted. Held completions are reported when the acknowledgement comes or the connection is
 * lost. The local bytes are free all the while. */
#include "fabric/ofi/fabric_ofi_state.h"

#define ASK_BYTES (1u << 20)

static struct ofi_line *line_of(struct kvr_endpoint *endpoint, uint64_t peer)
{
    return &endpoint->lines[peer % OFI_LINES];
}

bool ofi_ack_asks(struct kvr_endpoint *endpoint, uint64_t peer, uint64_t bytes)
{
    return line_of(endpoint, peer)->bytes + bytes >= ASK_BYTES;
}

void ofi_ack_posted(struct kvr_endpoint *endpoint, struct ofi_context *write, uint64_t peer,
                    uint64_t bytes, bool asks)
{
    struct ofi_line *line = line_of(endpoint, peer);

    write->asks = asks;
    write->held = NULL;
    line->bytes = asks ? 0 : line->bytes + bytes;
    if (asks)
        line->asker = write;
}

/* Those that were held for a write. */
static void append_ready(struct kvr_endpoint *endpoint, struct ofi_context *list)
{
    while (list != NULL) {
        struct ofi_context *write = list;

        list = write->next;
        write->next = endpoint->ready;
        endpoint->ready = write;
    }
}

bool ofi_ack_ended(struct kvr_endpoint *endpoint, struct ofi_context *write, bool failed)
{
    struct ofi_line *line = line_of(endpoint, write->peer);

    if (!write->asks && !failed && line->asker != NULL && line->asker->peer == write->peer) {
        write->next = line->asker->held;
        line->asker->held = write;
        return false;
    }
    if (line->asker == write)
        line->asker = NULL;
    append_ready(endpoint, write->held);
    ofi_context_free(endpoint, write);
    return true;
}

unsigned ofi_ack_ready(struct kvr_endpoint *endpoint, struct kvr_completion *ret_completions,
                       unsigned capacity)
{
    unsigned count = 0;

    while (count < capacity && endpoint->ready != NULL) {
        struct ofi_context *write = endpoint->ready;

        endpoint->ready = write->next;
        ret_completions[count++] = (struct kvr_completion){.kind = KVR_COMPLETION_WRITTEN,
                                                           .has_context = true,
                                                           .context = write->context,
                                                           .status = KVR_OK};
        ofi_context_free(endpoint, write);
    }
    return count;
}
