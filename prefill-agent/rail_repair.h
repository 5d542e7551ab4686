/* Broken pairs of rails, ended epochs, and fresh endpoints of our own (rules 3 and 7). */
#ifndef PREFILL_AGENT_RAIL_REPAIR_H
#define PREFILL_AGENT_RAIL_REPAIR_H

#include "rail_group/rail_group.h"
#include "wire/message.h"

struct outbound;

#define OUTBOUND_RETRY_NS KVR_S /* how often a rail without an endpoint is opened again */

/* A target ended an epoch of a rail of its own. */
void rail_repair_epoch_ended(struct outbound *outbound, uint32_t peer,
                             const struct kvr_msg_epoch_ended *ended);
/* A rail thread found a pair broken. */
void rail_repair_broken(struct outbound *outbound, const struct kvr_group_pair_broken *broken);
/* The rail gets a fresh endpoint as soon as no other rail of its group is getting one. */
void rail_repair_recycle(struct outbound *outbound, uint32_t rail);
void rail_repair_recycled(struct outbound *outbound, const struct kvr_group_message *message);
/* No pair of the transfer is left: those of our rails get fresh endpoints soon. */
void rail_repair_soon(struct outbound *outbound, uint32_t peer, uint32_t rail_group);
/* Recycles the rails for which the time has come. */
void rail_repair_tick(struct outbound *outbound);

#endif
