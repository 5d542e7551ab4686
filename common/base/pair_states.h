/* What a source knows of a pair of rails: one of its own and one of a peer. */
#ifndef KVR_BASE_PAIR_STATES_H
#define KVR_BASE_PAIR_STATES_H

#include <stdbool.h>

#include "base/names.h"

/* X(symbol, name, meaning) */
#define KVR_PAIR_STATE_LIST(X)                                                                     \
    X(KVR_PAIR_UP, "up", "may carry writes; none has come through yet")                            \
    X(KVR_PAIR_WARMING, "warming", "its first write is due, or on its way")                        \
    X(KVR_PAIR_WARM, "warm", "writes have come through")                                           \
    X(KVR_PAIR_DOUBTED, "doubted", "it failed or was silent: one write at a time is risked on it") \
    X(KVR_PAIR_SLOW, "slow", "delivers far less than the other rails: it rests, then it is tried") \
    X(KVR_PAIR_UNREACHABLE, "unreachable", "broken: nothing is written over it")                   \
    X(KVR_PAIR_SPARE, "spare", "joins two planes: used where no near pair works")

typedef enum kvr_pair_state { KVR_PAIR_STATE_LIST(KVR_SYMBOL) KVR_PAIR_STATE_END } kvr_pair_state;

/* Its writes do not come through as they should. */
static inline bool kvr_pair_in_trouble(kvr_pair_state state)
{
    return state == KVR_PAIR_DOUBTED || state == KVR_PAIR_SLOW || state == KVR_PAIR_UNREACHABLE;
}

const char *kvr_pair_state_name(kvr_pair_state state); /* "?" for a state that is none */
const char *kvr_pair_state_text(kvr_pair_state state);
kvr_pair_state kvr_pair_state_from_name(const char *name); /* KVR_PAIR_STATE_END: unknown */

#endif
