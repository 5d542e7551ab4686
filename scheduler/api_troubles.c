#include "scheduler/api_json.h"

#define TROUBLE_LASTS ((int64_t)(60 * KVR_S))

json_t *json_troubles(const struct metrics_summary *summary, const struct health_view *health,
                      int64_t now_ns)
{
    json_t *troubles = json_array();

    for (int i = 0; i < health->count; i++)
        json_array_append_new(troubles,
                              json_sprintf("%s: %s", health_facts(health->entries[i].problem)->text,
                                           health->entries[i].next));
    if (summary->certificate_expiry != 0 && summary->certificate_expiry < now_ns / (int64_t)KVR_S)
        json_array_append_new(troubles, json_string("its certificate has ended: renew it"));
    if (summary->connection_refused_ns != 0 &&
        now_ns < summary->connection_refused_ns + TROUBLE_LASTS)
        json_array_append_new(
            troubles, json_sprintf("it refused connections within the last minute, %llu since its "
                                   "start: see --connections-max and --connections-per-host",
                                   (unsigned long long)summary->connections_refused));
    return troubles;
}
