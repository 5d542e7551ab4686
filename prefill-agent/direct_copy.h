/* Whether the target's device can read our device's pages itself: remembered, or probed. */
#ifndef PREFILL_AGENT_DIRECT_COPY_H
#define PREFILL_AGENT_DIRECT_COPY_H

#include "base/status.h"
#include "prefill-agent/push.h"

struct outbound;
struct publish;
struct source_transfer;

/* Whether the target will copy our pages itself: transfer->moves. True: a probe asks that now, and
 * path_probed gets the answer. */
bool direct_copy_decide(struct outbound *outbound, struct source_transfer *transfer,
                        const struct publish *publish);
/* Remembers the answer and frees the probe. */
void direct_copy_probed(struct outbound *outbound, struct visibility_probe *probe);

#endif
