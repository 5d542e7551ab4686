/* Layers of a fetch, over all its sources: LAYER_IN. */
#ifndef DECODE_AGENT_LAYERS_H
#define DECODE_AGENT_LAYERS_H

#include "decode-agent/transfer.h"

struct fetch;

/* The source gives of this KV group the layers of the plan; NULL: nothing. KVR_INCOMPATIBLE: every
 * source has said what it gives, and together they do not give all that the target has. */
KVR_MUST_CHECK kvr_status layers_planned(struct inbound *inbound, struct transfer *transfer,
                                         uint32_t group, const struct kvr_plan *plan,
                                         struct kvr_error *error);
/* This source gives no KV group of the fetch. */
bool layers_give_nothing(const struct fetch *fetch, const struct transfer *transfer);
/* The source has said that it gives the KV group (none: that it gives nothing of it). */
bool layers_decided(const struct fetch *fetch, const struct transfer *transfer, uint32_t group,
                    bool none);
void layer_landed(struct inbound *inbound, struct transfer *transfer,
                  const struct land_layer *layer);
void layers_release(struct inbound *inbound, struct transfer *transfer);
void layers_close(struct inbound *inbound, struct fetch *fetch);
/* How many layers the target rank has, and how many of the first ones are in place for all
 * published tokens. */
uint32_t layers_all(const struct fetch *fetch);
uint32_t layers_whole(const struct fetch *fetch);

#endif
