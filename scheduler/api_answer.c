/* Answers of the API, and its errors. */
#include <stdio.h>
#include <string.h>

#include "scheduler/api.h"

void api_answer_with(struct api_answer *answer, unsigned status, json_t *object)
{
    answer->status = status;
    answer->problem = false;
    answer->ready = NULL;
    answer->body = json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(12));
    json_decref(object);
}

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

/* RFC 9457, and beside it the member `error` of earlier versions. parameter: NULL, or the one that
 * is wrong. */
static void answer_problem(struct api_answer *ret_answer, unsigned status, const char *message,
                           const char *parameter)
{
    size_t i = 0;

    while (i + 1 < sizeof(errors) / sizeof(errors[0]) && errors[i].status != status)
        i++;
    api_answer_with(ret_answer, status,
                    json_pack("{s:s, s:s, s:i, s:s, s:{s:s, s:s}, s:s*}", "type", "about:blank",
                              "title", errors[i].title, "status", (int)status, "detail", message,
                              "error", "code", errors[i].code, "message", message, "parameter",
                              parameter));
    ret_answer->problem = true;
}

void api_error(struct api_answer *ret_answer, unsigned status, const char *message)
{
    answer_problem(ret_answer, status, message, NULL);
}

#define SHOWN_BYTES 80

/* As far as it can be repeated inside JSON. */
static char *show(const char *text, char shown[SHOWN_BYTES])
{
    snprintf(shown, SHOWN_BYTES, "%s", text != NULL ? text : "");
    for (char *at = shown; *at != '\0'; at++)
        if ((unsigned char)*at < 0x20 || (unsigned char)*at > 0x7e)
            *at = '?';
    return shown;
}

void api_bad_request(struct api_answer *ret_answer, const char *parameter, const char *format,
                     const char *value)
{
    char shown[SHOWN_BYTES], name[SHOWN_BYTES], message[400];

    show(value, shown);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(message, sizeof(message), format, shown);
#pragma GCC diagnostic pop
    answer_problem(ret_answer, 400, message, show(parameter, name));
}
