#include "scheduler/api_json.h"

json_t *json_time(int64_t wall_ns)
{
    char text[KVR_RFC3339_BYTES];

    return wall_ns > 0 ? json_string(kvr_clock_rfc3339((kvr_ns)wall_ns, text)) : json_null();
}

json_t *json_seconds(int64_t ns)
{
    return ns >= 0 ? json_real((double)ns / 1e9) : json_null();
}

json_t *json_id(uint64_t id)
{
    return json_sprintf("%016llx", (unsigned long long)id);
}

json_t *json_text(const char *text)
{
    return text[0] != '\0' ? json_string(text) : json_null();
}

json_t *json_count(uint64_t value)
{
    return json_integer(value <= INT64_MAX ? (json_int_t)value : INT64_MAX);
}
