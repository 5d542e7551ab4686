/* State machines as tables of constants.
 *
 * Each machine has an enum of states, an enum of events and one pure function that all changes of
 * state go through:
 *
 *     static const uint8_t cells[DOOR_STATES][DOOR_EVENTS] = {
 *         [DOOR_OPEN] = {[DOOR_PUSHED] = KVR_STATE(DOOR_SHUT)},
 *         [DOOR_SHUT] = {[DOOR_KNOCKED] = KVR_STATE(DOOR_OPEN)},
 *     };
 *
 *     enum door_state door_next(enum door_state state, enum door_event event)
 *     {
 *         return kvr_state_next(cells[state][event]);
 *     }
 *
 * A cell that is left out means: the event cannot come in that state. The head of the file shows
 * the same table to readers, and a test compares the two (tests/support/state_table.h). */
#ifndef KVR_BASE_STATE_H
#define KVR_BASE_STATE_H

#include <assert.h>
#include <stdint.h>

#define KVR_STATE(state) ((uint8_t)((state) + 1))
#define KVR_STATE_NEVER  UINT8_MAX /* what kvr_state_next() returns for a cell that was left out */

static inline uint8_t kvr_state_next(uint8_t cell)
{
    return (uint8_t)(cell - 1);
}

/* *state moves on: `next` is what the machine's own function returned. */
#define KVR_STATE_SET(state, next)                                                                 \
    do {                                                                                           \
        unsigned kvr_next_ = (next);                                                               \
        assert(kvr_next_ != KVR_STATE_NEVER);                                                      \
        (state) = kvr_next_;                                                                       \
    } while (0)

#endif
