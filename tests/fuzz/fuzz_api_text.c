/* Goal: whatever bytes stand in a request's path and parameters, what refuses them is a problem in
 * JSON, and what takes them has an object of UTF-8 that fits. Method: the input is lines: the path,
 * then names and values by turns, as libmicrohttpd hands them over. */
#include <assert.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "scheduler/api_parameters.h"
#include "scheduler/order.h"

static void check_refusal(const struct api_answer *answer)
{
    json_t *json;

    assert(answer->body != NULL && answer->problem && answer->status >= 400);
    json = json_loads(answer->body, JSON_REJECT_DUPLICATES, NULL);
    assert(json != NULL);
    assert((unsigned)json_integer_value(json_object_get(json, "status")) == answer->status);
    json_decref(json);
    free(answer->body);
}

static void take_order(const char *path, const struct api_query *query)
{
    struct api_answer answer = {0};
    struct order order;

    if (!order_parse(path, query, &order, &answer)) {
        check_refusal(&answer);
        return;
    }
    assert(order_is_path(path));
    assert(order.object[0] != '\0' && strlen(order.object) < sizeof(order.object));
    for (const char *at = order.object; *at != '\0'; at += kvr_text_character(at))
        assert(kvr_text_character(at) > 0);
}

static void take_question(const char *path, const struct api_query *query)
{
    const struct api_path *known = api_path_of("GET", path);
    struct api_answer answer = {0};

    if (known != NULL && !api_check_parameters(known, query, &answer))
        check_refusal(&answer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = calloc(1, size + 1), *rest = text;
    struct api_answer answer = {0};
    struct api_query query = {0};
    const char *path;

    assert(text != NULL);
    memcpy(text, data, size);
    path = strsep(&rest, "\n");
    while (rest != NULL && query.count < API_PARAMETERS_MAX) {
        query.parameters[query.count].name = strsep(&rest, "\n");
        query.parameters[query.count++].value = strsep(&rest, "\n"); /* NULL: it has none */
    }
    if (!api_check_text(path, &query, &answer)) {
        check_refusal(&answer);
    } else {
        take_order(path, &query);
        take_question(path, &query);
    }
    free(text);
    return 0;
}
