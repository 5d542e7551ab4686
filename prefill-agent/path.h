/* How the bytes of a transfer go: as the target's own direct copy, through staging memory at either
 * end, or as plain writes. */
#ifndef PREFILL_AGENT_PATH_H
#define PREFILL_AGENT_PATH_H

#include "base/state.h"
#include "kv/fragment.h"
#include "prefill-agent/push.h"
#include "wire/message.h"

struct outbound;
struct publish;
struct source_transfer;

/* What the decision waits for. */
enum source_path_state {
    SOURCE_PATH_UNDECIDED, /* no publish was matched yet */
    SOURCE_PATH_PROBING, /* a write of no bytes shows whether the target's device sees our pages */
    SOURCE_PATH_OPENING, /* our pages get a stage */
    SOURCE_PATH_READY,   /* segments may be planned */
    SOURCE_PATH_STATES
};
enum source_path_event {
    SOURCE_PATH_ON_PROBE,
    SOURCE_PATH_ON_STAGE,
    SOURCE_PATH_ON_DECIDED,
    SOURCE_PATH_EVENTS
};

KVR_STATE_MACHINE(source_path);

/* The target's own copy from our device to its own (direct_copy.c). */
enum source_direct_copy {
    DIRECT_COPY_NO,       /* the target cannot, or its device does not see our pages */
    DIRECT_COPY_POSSIBLE, /* the target could, as its WANT says */
    DIRECT_COPY_CHOSEN
};

struct source_path {
    enum source_path_state state;
    enum source_direct_copy direct_copy;
    bool gathers, scatters; /* the bytes pass through staging memory at the source, at the target */
    uint64_t target_stage_bytes; /* the target may scatter writes of so many bytes; 0: it may not */
    struct kvr_write_limits limits;
    uint32_t kv_groups; /* bit g: KV group g is given */
    struct kvr_fragment_verdict fragments;
    uint64_t fragment_bytes; /* the shortest piece, where it is a fragment */
    kvr_path kind;           /* of the pages that are given */
};

/* Decides; or asks first, and decides when the answer comes. KVR_INCOMPATIBLE: short pieces, which
 * the option --fragments refuses. */
KVR_MUST_CHECK kvr_status path_decide(struct outbound *outbound, struct source_transfer *transfer,
                                      const struct publish *publish, struct kvr_error *error);
/* The stage of our pages that an offered transfer waits for is open, or cannot be. */
void path_stage_opened(struct outbound *outbound, struct source_transfer *transfer,
                       kvr_status status);
/* The answer of a visibility probe. */
void path_probed(struct outbound *outbound, struct visibility_probe *probe);

/* Sets path.direct_copy: whether the target will copy our pages itself. True: a probe asks that
 * now, and path_probed() gets the answer. */
bool direct_copy_decide(struct outbound *outbound, struct source_transfer *transfer,
                        const struct publish *publish);
/* Remembers the answer and frees the probe. */
void direct_copy_probed(struct outbound *outbound, struct visibility_probe *probe);

#endif
