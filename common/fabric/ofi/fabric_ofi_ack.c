/* Writes that count as on their way until the target has them, on a provider that completes them
 * as soon as the kernel has taken their bytes (tcp).
 *
 * There the kernel's buffers at both ends come on top of a rail's window, up to the sysctl limits,
 * and the next write waits for them too. The provider can wait for the target's acknowledgement,
 * which costs a message back. So a write asks for one when enough bytes were posted to its peer
 * since the last write that asked: as many as the connection carries in ASK_NS, within bounds.
 * While a write that asked is on its way, the completions of the writes after it are held. A
 * connection keeps order, so fewer bytes than that are on their way to a peer uncounted. On a slow
 * rail a mebibyte is more than a small transfer has: the rail would seem to rest, and get the next
 * write, too. Held completions are reported when the acknowledgement comes or the connection is
 * lost. The local bytes are free all the while. */
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

    return line->bytes + bytes >= (line->ask_bytes > 0 ? line->ask_bytes : ASK_BYTES_MAX);
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

static void acknowledged(struct ofi_line *line, const struct ofi_context *write)
{
    kvr_pace_settled(&line->pace, write->paced, kvr_clock_now());
    line->ask_bytes = kvr_min_u64(kvr_pace_bytes(&line->pace, ASK_NS), ASK_BYTES_MAX);
    if (line->ask_bytes < ASK_BYTES_MIN)
        line->ask_bytes = ASK_BYTES_MIN;
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
        acknowledged(line, write);
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
