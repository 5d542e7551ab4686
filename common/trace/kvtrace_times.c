#include "trace/kvtrace_times.h"

static const struct {
    const char *name;
    kvr_role role;
    kvr_event_kind from, to;
    const char *meaning;
} times[] = {KVTRACE_TIME_LIST(KVR_ROW)};

const char *kvtrace_time_name(kvtrace_time time)
{
    return times[time].name;
}

const char *kvtrace_time_meaning(kvtrace_time time)
{
    return times[time].meaning;
}

kvr_role kvtrace_time_role(kvtrace_time time)
{
    return times[time].role;
}

bool kvtrace_time_span(const struct kvtrace_transfer *transfer, kvtrace_time time,
                       int64_t *ret_from, int64_t *ret_to)
{
    const int64_t *stages = transfer->sides[times[time].role].stages_us;
    int64_t from = stages[times[time].from], to = stages[times[time].to];

    if (from == KVTRACE_NEVER || to == KVTRACE_NEVER)
        return false;
    *ret_from = from;
    *ret_to = to > from ? to : from;
    return true;
}

int64_t kvtrace_time_us(const struct kvtrace_transfer *transfer, kvtrace_time time)
{
    int64_t from, to;

    return kvtrace_time_span(transfer, time, &from, &to) ? to - from : KVTRACE_NEVER;
}
