/* How the last publishes or fetches of an agent ended, for engines that ask why afterwards. Pure.
 */
#ifndef KVR_AGENT_ENDED_H
#define KVR_AGENT_ENDED_H

#include "base/status.h"
#include "base/types.h"

#define KVR_ENDED_KEPT 128

struct kvr_ended {
    struct kvr_end {
        bool used;
        uint32_t engine;
        uint64_t handle;
        kvr_status status;
        char detail[KVR_DETAIL_BYTES];
    } ends[KVR_ENDED_KEPT];
    uint32_t next;
};

void kvr_ended_add(struct kvr_ended *ended, uint32_t engine, uint64_t handle, kvr_status status,
                   const char *detail);
/* Its number may be another engine's from here on. */
void kvr_ended_forget(struct kvr_ended *ended, uint32_t engine);
/* As JSON: the reason and its sentence, or that nothing is known. */
void kvr_ended_why(const struct kvr_ended *ended, uint32_t engine, uint64_t handle, char *json,
                   size_t capacity);

#endif
