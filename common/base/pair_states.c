#include "base/pair_states.h"

static const char *const names[] = {KVR_PAIR_STATE_LIST(KVR_NAME)};
static const char *const texts[] = {KVR_PAIR_STATE_LIST(KVR_TEXT)};

const char *kvr_pair_state_name(kvr_pair_state state)
{
    return state >= 0 && state < KVR_PAIR_STATE_END ? names[state] : "?";
}

const char *kvr_pair_state_text(kvr_pair_state state)
{
    return state >= 0 && state < KVR_PAIR_STATE_END ? texts[state] : "not known here";
}

kvr_pair_state kvr_pair_state_from_name(const char *name)
{
    return (kvr_pair_state)kvr_name_find(names, KVR_PAIR_STATE_END, name);
}
