/* Writes that count as on their way until the target has them, on a provider that completes them
 * as soon as the kernel has taken their bytes (tcp).
 *
 * There the kernel's buffers at both ends come on top of a rail's window, up to the sysctl limits,
 * and the next write waits for them too. The provider can wait for the target's acknowledgement,
 * which costs a message back. So a write asks for one when enough bytes were posted to its peer
 * since the last write that asked: what the connection carries in ASK_NS, within bounds. While a
 * write that asked is on its way, the completions of the writes after it are held. A connection
 * keeps order, so less than that a peer is on its way uncounted. On a slow rail a mebibyte would be
 * more than a small transfer has, and all of it would go where the rail seems to rest. Held
 * completions are reported when the acknowledgement comes or the connection is lost. The local
 * bytes are free all the while. */
#include "fabric/ofi/fabric_ofi_state.h"

#define ASK_NS        (2 * KVR_MS) /* as long as a rail group's batch on a slow rail */
#define ASK_BYTES_MIN (64u << 10)
#define ASK_BYTES_MAX (1u << 20)

static struct ofi_line *line_of(struct kvr_endpoint *endpoint, uint64_t peer)
{
    return &endpoint->lines[peer % OFI_LINES];
}

bool ofi_ack_asks(struct kvr_endpoint *endpoint, uint64_t peer, uint64_t bytes)
{
    const struct ofi_line *line = line_of(endpoint, peer);
    uint64_t carried = kvr_pace_bytes(&line->pace, ASK_NS);

    return line->bytes + bytes >= ASK_BYTES_MAX ||
           (line->bytes + bytes >= ASK_BYTES_MIN && line->bytes + bytes >= carried);
}

void ofi_ack_posted(struct kvr_endpoint *endpoint, struct ofi_context *write, uint64_t peer,
                    uint64_t bytes, bool asks)
{
    struct ofi_line *line = line_of(endpoint, peer);

    write->asks = asks;
    write->held = NULL;
    line->bytes += bytes;
    if (!asks)
        return;
    /* How many bytes before the first asker are still on their way is not known. */
    write->paced = line->asker != NULL ? line->bytes : bytes;
    if (line->asker == NULL)
        kvr_pace_begin(&line->pace, kvr_clock_now());
    line->bytes = 0;
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
    if (write->asks && !failed)
        kvr_pace_settled(&line->pace, write->paced, kvr_clock_now());
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
