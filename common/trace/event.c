#include "trace/event.h"

const char *kvr_event_name(kvr_event_kind kind)
{
    static const char *const names[] = {
#define X(symbol, name, text) [symbol] = name,
        KVR_EVENT_LIST(X)
#undef X
    };

    return kind >= 0 && kind < KVR_EVENT_KIND_END ? names[kind] : "?";
}
