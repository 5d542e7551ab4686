/* States of a link.
 *
 * link state | RENEWED | NO_ADDRESS | FAILED | REPLACED
 * -----------|---------|------------|--------|---------
 * USABLE     | =       | BROKEN     | BROKEN | RETIRED
 * BROKEN     | USABLE  | =          | =      | RETIRED
 * RETIRED    | -       | -          | =      | -
 *
 * A broken link is in doubt until one of its writes settles well: one write at a time is risked on
 * it (rail_group_choose.c). */
#include "rail_group/rail_group_link.h"

#include "base/state.h"

enum link_state group_link_next(enum link_state state, enum link_event event)
{
    static const uint8_t cells[LINK_STATES][LINK_EVENTS] = {
        [LINK_USABLE] = {[LINK_RENEWED] = KVR_STATE(LINK_USABLE),
                         [LINK_NO_ADDRESS] = KVR_STATE(LINK_BROKEN),
                         [LINK_FAILED] = KVR_STATE(LINK_BROKEN),
                         [LINK_REPLACED] = KVR_STATE(LINK_RETIRED)},
        [LINK_BROKEN] = {[LINK_RENEWED] = KVR_STATE(LINK_USABLE),
                         [LINK_NO_ADDRESS] = KVR_STATE(LINK_BROKEN),
                         [LINK_FAILED] = KVR_STATE(LINK_BROKEN),
                         [LINK_REPLACED] = KVR_STATE(LINK_RETIRED)},
        [LINK_RETIRED] = {[LINK_FAILED] = KVR_STATE(LINK_RETIRED)},
    };

    return kvr_state_next(cells[state][event]);
}
