/* Answers of the API, and its errors. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/problem.h"
#include "scheduler/api.h"
#include "scheduler/json_writer.h"

void api_answer_with(struct api_answer *answer, unsigned status, json_t *object)
{
    answer->status = status;
    answer->problem = false;
    answer->ready = NULL;
    answer->body = json_dumps(object, API_JSON_FLAGS);
    json_decref(object);
}

bool api_answer_written(struct json_writer *writer, bool read, struct api_answer *ret_answer)
{
    char *text = json_writer_take(writer);

    if (read)
        *ret_answer = (struct api_answer){.status = 200, .body = text};
    else
        free(text);
    return read;
}

static void answer_problem(struct api_answer *ret_answer, unsigned status, const char *message,
                           const char *parameter)
{
    *ret_answer = (struct api_answer){
        .status = status, .body = problem_text(status, message, parameter), .problem = true};
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
