#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "tools/compare/compare_report.h"

static kvr_status refuse(const char *text, const char *what, struct kvr_error *error)
{
    return kvr_error_set(error, KVR_INVALID, "compare",
                         "'%s': %s; write a condition as p99_total>+5%% or mean_land<-2ms", text,
                         what);
}

/* "p99_" */
static const char *take_figure(const char *text, compare_figure *ret_figure)
{
    for (int figure = 0; figure < COMPARE_FIGURE_END; figure++) {
        const char *name = compare_figure_name((compare_figure)figure);
        size_t bytes = strlen(name);

        if (strncmp(text, name, bytes) == 0 && text[bytes] == '_') {
            *ret_figure = (compare_figure)figure;
            return text + bytes + 1;
        }
    }
    return NULL;
}

static const char *take_time(const char *text, kvtrace_time *ret_time)
{
    for (int time = 0; time < KVTRACE_TIME_END; time++) {
        const char *name = kvtrace_time_name((kvtrace_time)time);
        size_t bytes = strlen(name);

        if (strncmp(text, name, bytes) == 0 && (text[bytes] == '>' || text[bytes] == '<')) {
            *ret_time = (kvtrace_time)time;
            return text + bytes;
        }
    }
    return NULL;
}

static bool take_unit(const char *text, struct compare_condition *condition)
{
    static const struct {
        const char *name;
        double ms;
    } units[] = {{"us", 1e-3}, {"ms", 1}, {"s", 1e3}};

    condition->percent = strcmp(text, "%") == 0;
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcmp(text, units[i].name) == 0) {
            condition->amount *= units[i].ms;
            return true;
        }
    }
    return condition->percent;
}

kvr_status compare_condition_parse(const char *text, struct compare_condition *ret_condition,
                                   struct kvr_error *error)
{
    const char *at = take_figure(text, &ret_condition->figure);
    char *end;

    if (at == NULL)
        return refuse(text, "it begins with none of p50_, p95_, p99_ and mean_", error);
    at = take_time(at, &ret_condition->time);
    if (at == NULL)
        return refuse(text, "no part of a transfer with > or < follows", error);
    ret_condition->above = *at++ == '>';
    if (*at != '+' && *at != '-')
        return refuse(text, "the change has no sign", error);
    errno = 0;
    ret_condition->amount = strtod(at, &end);
    if (end == at || errno != 0 || !isfinite(ret_condition->amount))
        return refuse(text, "the change is no number", error);
    if (!take_unit(end, ret_condition))
        return refuse(text, "the change has none of the units %, us, ms and s", error);
    return KVR_OK;
}

bool compare_condition_holds(const struct compare_condition *condition,
                             const struct compare_report *report)
{
    const struct compare_change *change =
        &report->times[condition->time].figures[condition->figure];
    double amount = change->b - change->a;

    if (condition->percent && amount != 0) /* of nothing, any change is infinite */
        amount = 100 * amount / change->a;
    return change->differs &&
           (condition->above ? amount > condition->amount : amount < condition->amount);
}
