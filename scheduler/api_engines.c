/* /api/v1/engines: engines that were attached to agents, also those that have gone. */
#include <stdio.h>

#include "scheduler/api_agents.h"
#include "scheduler/api_parameters.h"
#include "scheduler/api_rows.h"
#include "scheduler/api_transfers.h"
#include "scheduler/store_engines.h"

struct engine_list {
    struct json_writer out;
    int64_t last;
    uint32_t count;
};

static void add_engine(void *self, const struct stored_engine *engine)
{
    struct engine_list *list = self;

    json_writer_object(&list->out, NULL);
    json_writer_string(&list->out, "agent", engine->agent);
    api_write_engine_members(&list->out, &engine->facts);
    api_write_time(&list->out, "first_seen", engine->first_ns);
    api_write_time(&list->out, "last_seen", engine->last_ns);
    json_writer_end_object(&list->out);
    list->last = engine->id;
    list->count++;
}

static bool parse(const struct api_query *query, struct engine_filter *filter,
                  struct api_answer *answer)
{
    struct api_page page;

    *filter = (struct engine_filter){.until_ns = INT64_MAX};
    if (!api_parse_name(query, "agent", "agent", &filter->agent, answer) ||
        !api_parse_time(query, "from", &filter->from_ns, answer) ||
        !api_parse_time(query, "until", &filter->until_ns, answer) ||
        !api_parse_page(query, &page, answer))
        return false;
    if (page.before_ns != 0) {
        api_bad_request(answer, "after", API_NO_PLACE, api_parameter(query, "after"));
        return false;
    }
    filter->before = page.before;
    filter->limit = page.limit;
    return true;
}

bool api_get_engines(struct store *store, const struct api_query *query,
                     struct api_answer *ret_answer)
{
    struct engine_list list = {0};
    struct engine_filter filter;
    char next[24] = "";
    bool read;

    if (!parse(query, &filter, ret_answer))
        return true;
    json_writer_object(&list.out, NULL);
    json_writer_array(&list.out, "engines");
    read = store_list_engines(store, &filter, add_engine, &list);
    json_writer_end_array(&list.out);
    if (list.count == filter.limit && list.last > 1)
        snprintf(next, sizeof(next), "%lld", (long long)list.last);
    json_writer_text(&list.out, "next", next);
    json_writer_end_object(&list.out);
    return api_answer_written(&list.out, read, ret_answer);
}
