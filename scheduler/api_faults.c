/* /api/v1/faults: what broke, in a window of time. */
#include "scheduler/api_json.h"
#include "scheduler/api_window.h"
#include "scheduler/store_faults.h"

#define FAULTS_MAX 2000 /* in one answer */

struct fault_list {
    json_t *array;
    uint32_t count;
};

static void add_fault(void *self, const struct stored_fault *fault)
{
    struct fault_list *list = self;

    if (list->count++ < FAULTS_MAX)
        json_array_append_new(
            list->array,
            json_pack("{s:o, s:o, s:s, s:o, s:o, s:o, s:o, s:o}", "at", json_time(fault->from_ns),
                      "until", fault->until_ns != 0 ? json_time(fault->until_ns) : json_null(),
                      "kind", fault->kind, "agent", json_text(fault->agent), "rail",
                      fault->rail >= 0 ? json_integer(fault->rail) : json_null(), "peer",
                      json_text(fault->peer), "amount", json_count(fault->amount), "text",
                      json_text(fault->text)));
}

bool api_get_faults(struct store *store, const struct api_query *query,
                    struct api_answer *ret_answer)
{
    struct fault_list list = {0};
    struct api_window window;

    if (!api_parse_window(query, "from", "until", (int64_t)(kvr_clock_wall() / KVR_S), &window,
                          ret_answer))
        return true;
    list.array = json_array();
    if (!store_list_faults(store, window.from * (int64_t)KVR_S, window.until * (int64_t)KVR_S,
                           FAULTS_MAX + 1, add_fault, &list)) {
        json_decref(list.array);
        return false;
    }
    api_answer_with(ret_answer, 200,
                    json_pack("{s:o, s:b}", "faults", list.array, "more", list.count > FAULTS_MAX));
    return true;
}
