/* /api/v1/marks: starts and ends of agents, and changes with them, in a window of time. */
#include "scheduler/api_json.h"
#include "scheduler/api_window.h"
#include "scheduler/store_marks.h"

#define MARKS_MAX 500 /* in one answer */

struct mark_list {
    json_t *array;
    uint32_t count;
};

static void add_mark(void *self, const struct stored_mark *mark)
{
    struct mark_list *list = self;

    if (list->count++ < MARKS_MAX)
        json_array_append_new(list->array,
                              json_pack("{s:o, s:s, s:s, s:o, s:o}", "at", json_time(mark->at_ns),
                                        "agent", mark->agent, "kind", mark->kind, "before",
                                        json_text(mark->before), "after", json_text(mark->after)));
}

bool api_get_marks(struct store *store, const struct api_query *query,
                   struct api_answer *ret_answer)
{
    struct mark_list list = {0};
    struct api_window window;
    int64_t until_ns;

    if (!api_parse_window(query, "from", "until", (int64_t)(kvr_clock_wall() / KVR_S), &window,
                          ret_answer))
        return true;
    /* Times are written in milliseconds: one that comes back, to ask for the next page, is within.
     */
    until_ns = window.until * (int64_t)KVR_S + (int64_t)KVR_MS - 1;
    list.array = json_array();
    if (!store_list_marks(store, window.from * (int64_t)KVR_S, until_ns, MARKS_MAX + 1, add_mark,
                          &list)) {
        json_decref(list.array);
        return false;
    }
    api_answer_with(ret_answer, 200,
                    json_pack("{s:o, s:b}", "marks", list.array, "more", list.count > MARKS_MAX));
    return true;
}
