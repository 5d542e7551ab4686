#include "tests/support/check.h"

#include "tests/support/agent_json.h"

json_t *agent_json(const struct agent_view *agent, int64_t now_ns)
{
    struct json_writer out = {0};
    json_error_t error;
    json_t *json;
    char *text;

    api_write_agent(&out, agent, now_ns);
    text = json_writer_take(&out);
    assert_non_null(text);
    json = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (json == NULL)
        fail_msg("%s at %d of %s", error.text, error.position, text);
    free(text);
    return json;
}
