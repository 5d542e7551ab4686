#include "agent/core/ended.h"

#include <stdio.h>

#include "base/text.h"

void kvr_ended_add(struct kvr_ended *ended, uint32_t engine, uint64_t handle, kvr_status status,
                   const char *detail)
{
    struct kvr_end *end = &ended->ends[ended->next++ % KVR_ENDED_KEPT];

    *end = (struct kvr_end){.used = true, .engine = engine, .handle = handle, .status = status};
    snprintf(end->detail, sizeof(end->detail), "%s", detail);
}

void kvr_ended_forget(struct kvr_ended *ended, uint32_t engine)
{
    for (uint32_t i = 0; i < KVR_ENDED_KEPT; i++)
        if (ended->ends[i].engine == engine)
            ended->ends[i].used = false;
}

void kvr_ended_why(const struct kvr_ended *ended, uint32_t engine, uint64_t handle, char *json,
                   size_t capacity)
{
    char detail[2 * KVR_DETAIL_BYTES];

    for (uint32_t i = 0; i < KVR_ENDED_KEPT; i++) {
        const struct kvr_end *end = &ended->ends[i];

        if (!end->used || end->engine != engine || end->handle != handle)
            continue;
        snprintf(json, capacity, "{\"state\":\"ended\",\"reason\":\"%s\",\"detail\":\"%s\"}",
                 kvr_status_name(end->status), kvr_text_json(end->detail, detail, sizeof(detail)));
        return;
    }
    snprintf(json, capacity, "{\"state\":\"unknown\",\"why\":\"it ended long ago or never was\"}");
}
