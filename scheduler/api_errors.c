/* /api/v1/errors: how often transfers ended for each reason, when, and what to do. */
#include <stdlib.h>

#include "base/remedy.h"
#include "scheduler/api_json.h"
#include "scheduler/api_parameters.h"
#include "scheduler/api_transfers.h"

static const kvr_status statuses[] = {
#define X(symbol, value, name, text) symbol,
    KVR_STATUS_LIST(X)
#undef X
};
#define STATUSES (sizeof(statuses) / sizeof(statuses[0]))

struct error {
    kvr_status status;
    struct error_group group;
};

static int most_first(const void *a, const void *b)
{
    const struct error *x = a, *y = b;

    if (x->group.count != y->group.count)
        return x->group.count > y->group.count ? -1 : 1;
    return (x->group.last_ns < y->group.last_ns) - (x->group.last_ns > y->group.last_ns);
}

static json_t *error_json(const struct error *error)
{
    const struct error_group *group = &error->group;
    bool more = group->count > ERROR_COUNT_MAX;

    return json_pack(
        "{s:s, s:s, s:s, s:o, s:b, s:o, s:o, s:o, s:s}", "code", kvr_status_name(error->status),
        "scope", kvr_scope_name(kvr_remedy_scope(error->status)), "text",
        kvr_status_text(error->status), "count", json_count(more ? ERROR_COUNT_MAX : group->count),
        "more", more, "first", json_time(group->first_ns), "last", json_time(group->last_ns),
        "last_transfer", json_id(group->last_id), "next", kvr_remedy_act(error->status));
}

/* False: *answer says which of both is none. */
static bool parse(const struct api_query *query, int64_t *ret_from_ns, int64_t *ret_until_ns,
                  struct api_answer *answer)
{
    const char *from = api_parameter(query, "from"), *until = api_parameter(query, "until");

    *ret_from_ns = 0;
    *ret_until_ns = INT64_MAX;
    if (from != NULL && !api_time(from, ret_from_ns)) {
        api_bad_request(answer, "from", API_NO_TIME, from);
        return false;
    }
    if (until != NULL && !api_time(until, ret_until_ns)) {
        api_bad_request(answer, "until", API_NO_TIME, until);
        return false;
    }
    return true;
}

bool api_get_errors(struct store *store, const struct api_query *query,
                    struct api_answer *ret_answer)
{
    struct error errors[STATUSES];
    int64_t from_ns, until_ns;
    json_t *array;
    size_t count = 0;

    if (!parse(query, &from_ns, &until_ns, ret_answer))
        return true;
    for (size_t i = 0; i < STATUSES; i++) {
        errors[count].status = statuses[i];
        if (!store_group_errors(store, kvr_status_name(statuses[i]), from_ns, until_ns,
                                &errors[count].group))
            return false;
        count += errors[count].group.last_id != 0;
    }
    qsort(errors, count, sizeof(errors[0]), most_first);
    array = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(array, error_json(&errors[i]));
    api_answer_with(ret_answer, 200, json_pack("{s:o}", "errors", array));
    return true;
}
