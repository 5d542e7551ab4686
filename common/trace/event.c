#include "trace/event.h"

static const char *const names[] = {KVR_EVENT_LIST(KVR_NAME)};

const char *kvr_event_name(kvr_event_kind kind)
{
    return kind >= 0 && kind < KVR_EVENT_KIND_END ? names[kind] : "?";
}

kvr_event_kind kvr_event_from_name(const char *name)
{
    return (kvr_event_kind)kvr_name_find(names, KVR_EVENT_KIND_END, name);
}
