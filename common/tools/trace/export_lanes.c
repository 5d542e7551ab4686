#include "tools/trace/export_lanes.h"

#include <stdlib.h>

static bool make_room(struct export_lanes *lanes)
{
    size_t room = 2 * lanes->room + 16;
    struct export_lane *larger;

    if (lanes->count < lanes->room)
        return true;
    if (lanes->count >= EXPORT_LANES_MAX)
        return false;
    larger = realloc(lanes->at, room * sizeof(larger[0]));
    if (larger == NULL)
        return false;
    lanes->at = larger;
    lanes->room = room;
    return true;
}

bool export_lanes_place(struct export_lanes *lanes, int64_t first_us, int64_t last_us,
                        size_t *ret_lane)
{
    for (size_t i = 0; i < lanes->count; i++) {
        struct export_lane *lane = &lanes->at[i];

        if (first_us < lane->last_us && last_us > lane->first_us)
            continue;
        lane->first_us = first_us < lane->first_us ? first_us : lane->first_us;
        lane->last_us = last_us > lane->last_us ? last_us : lane->last_us;
        *ret_lane = i;
        return true;
    }
    if (!make_room(lanes))
        return false;
    *ret_lane = lanes->count;
    lanes->at[lanes->count++] = (struct export_lane){first_us, last_us};
    return true;
}

void export_lanes_done(struct export_lanes *lanes)
{
    free(lanes->at);
    *lanes = (struct export_lanes){0};
}
