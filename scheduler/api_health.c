/* /healthz and /readyz: the problems that keep the scheduler from its work. */
#include "scheduler/api.h"
#include "scheduler/api_json.h"

static json_t *problem_json(const struct health_entry *entry)
{
    const struct health_facts *facts = health_facts(entry->problem);

    return json_pack("{s:s, s:s, s:o, s:s, s:o}", "problem", facts->name, "text", facts->text,
                     "detail", json_text(entry->detail), "next", entry->next, "since",
                     json_time(entry->since_ns));
}

json_t *json_health(const struct health_view *view)
{
    json_t *problems = json_array();

    for (int i = 0; i < view->count; i++)
        json_array_append_new(problems, problem_json(&view->entries[i]));
    return json_pack("{s:s, s:o}", "status",
                     view->count == 0                       ? "ok"
                     : health_worst(view) == HEALTH_FAILING ? "failing"
                                                            : "degraded",
                     "problems", problems);
}

void api_get_health(struct health *health, bool ready, struct api_answer *ret_answer)
{
    struct health_view view;
    bool well;

    health_look(health, &view);
    well = health_worst(&view) < (ready ? HEALTH_UNREADY : HEALTH_FAILING);
    api_answer_with(ret_answer, well ? 200 : 503, json_health(&view));
}
