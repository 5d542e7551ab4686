/* State machines as tables.
 *
 * A machine, here `door`, has an enum of states (DOOR_OPEN, …, DOOR_STATES) and an enum of events
 * (DOOR_ON_PUSHED, …, DOOR_EVENTS). KVR_STATE_MACHINE(door) in its header declares two functions:
 *
 *     door_next(state, event)  the state behind the event, or KVR_STATE_NEVER. Pure
 *     door_on(&state, event)   sets it. The event must be one that can come in that state
 *
 * The .c file has the table, a row for each state and a column for each event, in the order of the
 * enums. NEVER: the event cannot come in that state.
 *
 *     KVR_STATE_TABLE(door, DOOR) = {
 *         // PUSHED, KNOCKED
 *         [DOOR_OPEN] = {DOOR_SHUT, DOOR_OPEN},
 *         [DOOR_SHUT] = {NEVER, DOOR_SHUT},
 *     };
 *
 * The head of the file shows the same table to readers, and a test compares the two
 * (tests/support/state_table.h). */
#ifndef KVR_BASE_STATE_H
#define KVR_BASE_STATE_H

#include <assert.h>
#include <stdint.h>

#define KVR_STATE_NEVER UINT8_MAX

#define KVR_STATE_MACHINE(machine)                                                                 \
    enum machine##_state machine##_next(enum machine##_state state, enum machine##_event event);   \
    void machine##_on(enum machine##_state *state, enum machine##_event event)

#define KVR_STATE_TABLE(machine, PREFIX)                                                           \
    enum { NEVER = KVR_STATE_NEVER };                                                              \
    static const uint8_t machine##_cells[PREFIX##_STATES][PREFIX##_EVENTS];                        \
                                                                                                   \
    enum machine##_state machine##_next(enum machine##_state state, enum machine##_event event)    \
    {                                                                                              \
        return (enum machine##_state)machine##_cells[state][event];                                \
    }                                                                                              \
                                                                                                   \
    void machine##_on(enum machine##_state *state, enum machine##_event event)                     \
    {                                                                                              \
        unsigned next = machine##_cells[*state][event];                                            \
                                                                                                   \
        assert(next != NEVER);                                                                     \
        *state = (enum machine##_state)next;                                                       \
    }                                                                                              \
                                                                                                   \
    static const uint8_t machine##_cells[PREFIX##_STATES][PREFIX##_EVENTS]

#endif
