#include "http/problem.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

static const struct {
    unsigned status;
    const char *code, *title;
} errors[] = {
    {400, "bad_request", "Bad Request"},
    {401, "unauthorized", "Unauthorized"},
    {403, "forbidden", "Forbidden"},
    {404, "not_found", "Not Found"},
    {405, "method_not_allowed", "Method Not Allowed"},
    {409, "conflict", "Conflict"},
    {413, "too_large", "Content Too Large"},
    {415, "unsupported_media_type", "Unsupported Media Type"},
    {421, "misdirected", "Misdirected Request"},
    {429, "too_many_requests", "Too Many Requests"},
    {503, "unavailable", "Service Unavailable"},
    {500, "internal", "Internal Server Error"}, /* and every other one */
};

char *problem_text(unsigned status, const char *message, const char *parameter)
{
    size_t i = 0, room = strlen(message) + 1;
    char *shown = malloc(room), *text;
    json_t *object;

    if (shown == NULL)
        return NULL;
    kvr_text_show(message, room, shown);
    while (i + 1 < sizeof(errors) / sizeof(errors[0]) && errors[i].status != status)
        i++;
    object = json_pack("{s:s, s:s, s:i, s:s, s:{s:s, s:s}, s:s*}", "type", "about:blank", "title",
                       errors[i].title, "status", (int)status, "detail", shown, "error", "code",
                       errors[i].code, "message", shown, "parameter", parameter);
    text = json_dumps(object, JSON_COMPACT);
    json_decref(object);
    free(shown);
    return text;
}
