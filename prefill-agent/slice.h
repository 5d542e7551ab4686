/* How many target ranks will come for a publish, and which slice of the KV cache each is given. */
#ifndef PREFILL_AGENT_SLICE_H
#define PREFILL_AGENT_SLICE_H

#include <stdint.h>

struct outbound;
struct publish;
struct source_transfer;

/* How many target ranks of that engine could need something of this publish, by their sizes. */
uint32_t slice_consumers(const struct outbound *outbound, const struct publish *publish,
                         const struct source_transfer *transfer);
/* Which KV groups this rank gives (bits): those that both sides have, except a group that a sibling
 * holds alike and was chosen to give to this target rank. */
uint32_t slice_kv_groups(const struct outbound *outbound, const struct source_transfer *transfer,
                         const struct publish *publish);

#endif
