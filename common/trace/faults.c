#include "trace/faults.h"

static const char *const names[] = {KVR_FAULT_LIST(KVR_NAME)};
static const char *const texts[] = {KVR_FAULT_LIST(KVR_TEXT)};

const char *kvr_fault_name(kvr_fault_kind kind)
{
    return kind >= 0 && kind < KVR_FAULT_KIND_END ? names[kind] : "?";
}

const char *kvr_fault_text(kvr_fault_kind kind)
{
    return kind >= 0 && kind < KVR_FAULT_KIND_END ? texts[kind] : "?";
}
