/* Descriptors of a region that lies over several allocations, as an engine brings them before the
 * region itself: some with each packet. Inside the engine port; loop thread. */
#ifndef KVR_AGENT_ENGINE_EXTENTS_H
#define KVR_AGENT_ENGINE_EXTENTS_H

#include "base/extents.h"
#include "wire/engine_message.h"
#include "wire/packet_socket.h"

struct engine_extents {
    uint32_t region;
    struct kvr_extents *list; /* so far; NULL: none, or `error` has the reason */
    struct kvr_error error;
};

/* Takes the descriptors that it can use; the others stay in *fds. A packet that begins anew drops
 * the descriptors of earlier packets. An error is kept for finish. */
void engine_extents_take(struct engine_extents *extents, const struct kvr_req_extents *request,
                         struct kvr_packet_fds *fds);
/* The region has come: all of its descriptors, one reference; or the sentence for its engine. */
KVR_MUST_CHECK kvr_status engine_extents_finish(struct engine_extents *extents,
                                                const struct kvr_req_region *region,
                                                struct kvr_extents **ret_list,
                                                struct kvr_error *error);
void engine_extents_drop(struct engine_extents *extents);

#endif
