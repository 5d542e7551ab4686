/* What a publish consists of: pages, watches, tail. It grows until the engine ends it. */
#ifndef PREFILL_AGENT_CONTENT_H
#define PREFILL_AGENT_CONTENT_H

#include "base/status.h"
#include "wire/engine_message.h"

struct outbound;
struct publish;

/* Tokens. Their layers are final as far as an engine's word has grown beyond `base`. */
struct publish_watch {
    uint32_t word;
    uint64_t base, token_first, token_end;
};

struct publish_content {
    struct publish_watch *watches; /* grown in the given memory */
    uint32_t watch_count, watch_capacity;
    uint64_t token_end; /* announced by watches so far */
    uint8_t *tail;
    uint32_t tail_bytes;
    bool has_tail;
    bool complete; /* the engine ended it: nothing more is added */
};

/* What the engine adds: checked against what it has given so far (rule 9). */
KVR_MUST_CHECK kvr_status content_add(struct outbound *outbound, struct publish *publish,
                                      const struct kvr_request *request, struct kvr_error *error);
void content_free(struct outbound *outbound, struct publish *publish);

#endif
