/* How the bytes of a transfer come into its pages. The table of the states is in landing_path.c. */
#ifndef DECODE_AGENT_LANDING_PATH_H
#define DECODE_AGENT_LANDING_PATH_H

#include "base/state.h"
#include "decode-agent/inbound.h"

struct transfer;

enum landing_path_state {
    PATH_PAGES,       /* writes go into the pages */
    PATH_OPENING,     /* writes go into staging memory, which is being opened */
    PATH_STAGED,      /* writes go into staging memory; copies bring the bytes into the pages */
    PATH_DIRECT_COPY, /* this agent copies from the source's device memory (rule 11) */
    PATH_STATES
};

enum landing_path_event {
    PATH_ON_STAGE,         /* writes must go into staging memory, which is open */
    PATH_ON_CLOSED_STAGE,  /* the same, and it is not open yet */
    PATH_ON_STAGE_ANSWERS, /* opening it has ended, well or not */
    PATH_ON_COPY,          /* the source agrees to a direct copy */
    PATH_EVENTS
};

struct landing_path {
    enum landing_path_state state;
    uint64_t stage_bytes; /* as WANT said: the staging memory that the source may write to, though
                             the pages can be reached; 0: it may not */
    bool copy_offered;    /* as WANT said: this agent could copy directly */
    uint64_t revocation_words; /* of the source's engine, as REGIONS names them; 0: none */
    uint32_t revocation_word;  /* as the PLANs name it (rule 11); 0: the source lends nothing */
};

KVR_STATE_MACHINE(landing_path);

static inline bool landing_path_staged(const struct landing_path *path)
{
    return path->state == PATH_STAGED || path->state == PATH_OPENING;
}

/* NULL: writes go into the pages, or the stage is not open yet. */
struct kvr_stage *landing_path_stage(const struct inbound *inbound,
                                     const struct transfer *transfer);
/* For WANT: bytes of the staging memory that a source may write fragments to; 0: none. */
uint64_t landing_path_stage_bytes(const struct inbound *inbound, const struct transfer *transfer);
/* Takes the path that the limits of a PLAN ask for. The first may begin to open the stage.
 * KVR_MALFORMED: WANT did not offer that path. */
KVR_MUST_CHECK kvr_status landing_path_planned(struct inbound *inbound, struct transfer *transfer,
                                               const struct kvr_msg_plan *plan,
                                               struct kvr_error *error);
/* ports.region_stage is done. */
void landing_path_opened(struct inbound *inbound, struct transfer *transfer, kvr_status status);

/* For WANT: the pages lie in device memory, and this agent could copy into them from a device of
 * the source's host. */
bool direct_copy_possible(const struct inbound *inbound, const struct transfer *transfer);

#endif
