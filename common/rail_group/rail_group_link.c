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

KVR_STATE_TABLE(group_link, LINK) = {
    /* RENEWED, NO_ADDRESS, FAILED, REPLACED */
    [LINK_USABLE] = {LINK_USABLE, LINK_BROKEN, LINK_BROKEN, LINK_RETIRED},
    [LINK_BROKEN] = {LINK_USABLE, LINK_BROKEN, LINK_BROKEN, LINK_RETIRED},
    [LINK_RETIRED] = {NEVER, NEVER, LINK_RETIRED, NEVER},
};
