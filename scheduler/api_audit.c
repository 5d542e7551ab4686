/* GET /api/v1/audit. */
#include "scheduler/api_json.h"

struct audit_list {
    json_t *array;
    int64_t last;
    uint32_t count;
};

static json_t *text_or_null(const char *text)
{
    return text[0] != '\0' ? json_string(text) : json_null();
}

static void add_entry(void *self, const struct stored_audit *entry)
{
    struct audit_list *list = self;

    json_array_append_new(list->array,
                          json_pack("{s:o, s:s, s:o, s:o, s:o, s:o, s:s, s:o}", "at",
                                    json_time(entry->at_ns), "action", entry->action, "actor",
                                    text_or_null(entry->actor), "via", text_or_null(entry->via),
                                    "object", text_or_null(entry->object), "from",
                                    text_or_null(entry->from), "outcome", entry->outcome, "detail",
                                    text_or_null(entry->detail)));
    list->last = entry->id;
    list->count++;
}

json_t *json_audit(struct store *store, int64_t before, uint32_t limit)
{
    struct audit_list list = {.array = json_array()};
    json_t *next;

    if (!store_list_audit(store, before, limit, add_entry, &list)) {
        json_decref(list.array);
        return NULL;
    }
    next = list.count == limit && list.last > 1 ? json_sprintf("%lld", (long long)list.last)
                                                : json_null();
    return json_pack("{s:o, s:o}", "audit", list.array, "next", next);
}
