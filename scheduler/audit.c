#include "scheduler/audit.h"

#include "base/log.h"

void audit_log(const struct audit_entry *entry, bool stored)
{
    if (entry->action[0] != '\0')
        kvr_log(stored ? KVR_LOG_INFO : KVR_LOG_ERROR, "audit: %s%s%s by %s%s%s from %s: %s%s%s%s",
                entry->action, entry->object[0] != '\0' ? " " : "", entry->object,
                entry->actor[0] != '\0' ? entry->actor : "a stranger",
                entry->via[0] != '\0' ? ", " : "", entry->via, entry->from, entry->outcome,
                entry->detail[0] != '\0' ? ": " : "", entry->detail,
                stored ? "" : " (the audit log could not be written)");
}
