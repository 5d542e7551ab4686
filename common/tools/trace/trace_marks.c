#include "tools/trace/trace_marks.h"

#include <stdio.h>
#include <string.h>

static const char *time_of(const json_t *mark)
{
    const char *text = json_string_value(json_object_get(mark, "at"));

    return text != NULL ? text : "";
}

/* The place of the first mark of the page that the page before did not have. */
static size_t first_new(const json_t *marks, const json_t *last)
{
    size_t place;
    json_t *mark;

    if (last == NULL)
        return 0;
    json_array_foreach(marks, place, mark)
    {
        if (json_equal(mark, last))
            return place + 1;
    }
    /* The scheduler has forgotten it meanwhile. */
    json_array_foreach(marks, place, mark)
    {
        if (strcmp(time_of(mark), time_of(last)) < 0)
            return place;
    }
    return json_array_size(marks);
}

/* Takes the page. *last: its last mark, the caller's; it stays where the page has nothing new. */
static kvr_status take_page(struct trace_recorder *recorder, const json_t *marks, json_t **last,
                            bool *ret_new, struct kvr_error *error)
{
    size_t count = json_array_size(marks), first = first_new(marks, *last);

    *ret_new = first < count;
    for (size_t place = first; place < count; place++)
        KVR_TRY(trace_record_mark(recorder, json_array_get(marks, place), error));
    if (*ret_new) {
        json_decref(*last);
        *last = json_incref(json_array_get(marks, count - 1));
    }
    return KVR_OK;
}

static json_t *ask(const struct scheduler_call *scheduler, kvr_ns from, const char *until,
                   struct kvr_error *error)
{
    char path[512], escaped[2][3 * KVR_RFC3339_BYTES], text[KVR_RFC3339_BYTES];

    scheduler_escape(kvr_clock_rfc3339(from, text), escaped[0], sizeof(escaped[0]));
    scheduler_escape(until, escaped[1], sizeof(escaped[1]));
    snprintf(path, sizeof(path), "/api/v1/marks?from=%s&until=%s", escaped[0], escaped[1]);
    return scheduler_get(scheduler, path, NULL, error);
}

kvr_status trace_record_marks(const struct scheduler_call *scheduler,
                              struct trace_recorder *recorder, kvr_ns from, kvr_ns until,
                              struct kvr_error *error)
{
    char text[KVR_RFC3339_BYTES];
    json_t *last = NULL;
    bool more = true, any = true;
    kvr_status status = KVR_OK;

    kvr_clock_rfc3339(until, text);
    while (status == KVR_OK && more && any) {
        json_t *answer = ask(scheduler, from, text, error);

        if (answer == NULL) {
            status = error->status;
            break;
        }
        status = take_page(recorder, json_object_get(answer, "marks"), &last, &any, error);
        more = json_is_true(json_object_get(answer, "more"));
        snprintf(text, sizeof(text), "%s", time_of(last));
        json_decref(answer);
    }
    if (status == KVR_OK && more)
        fprintf(stderr, "note: more than 500 marks of one second, %s, are not all recorded\n",
                text);
    json_decref(last);
    return status;
}
