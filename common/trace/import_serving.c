#include "trace/import_serving.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "trace/import_csv.h"

#define TIME_MAX_S 10000000000.0 /* beyond it a time has another unit */
#define TIME_MAX   ((kvr_ns)10000000000 * KVR_S)

static const char where[] = "trace";

/* ---- JSON of Python -------------------------------------------------------------------------- */

/* What Python writes and JSON has not; the two texts are equally long. */
static const struct {
    const char *python, *json;
} words[] = {{"NaN", "0  "}, {"-Infinity", "null     "}, {"Infinity", "null    "}};

static size_t put_word(char *at, size_t left)
{
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        size_t bytes = strlen(words[i].python);

        if (left >= bytes && memcmp(at, words[i].python, bytes) == 0) {
            memcpy(at, words[i].json, bytes);
            return bytes;
        }
    }
    return 1;
}

/* Outside of texts. Returns how many commas, arrays and objects there are: the line has at most one
 * value more. */
static size_t put_json(char *line, size_t bytes)
{
    bool in_text = false;
    size_t values = 0;

    for (size_t i = 0; i < bytes;) {
        if (in_text && line[i] == '\\') {
            i += 2;
            continue;
        }
        in_text ^= line[i] == '"';
        values += !in_text && (line[i] == ',' || line[i] == '[' || line[i] == '{');
        i += in_text || strchr("NI-", line[i]) == NULL ? 1 : put_word(line + i, bytes - i);
    }
    return values;
}

static json_t *parse(char *line, size_t bytes, struct kvr_error *error)
{
    json_error_t json_error;
    json_t *object;

    if (put_json(line, bytes) >= KVR_TRACE_RUN_VALUES_MAX) {
        (void)kvr_error_set(error, KVR_MALFORMED, where,
                            "the line has more than %u values: write runs of fewer requests, or "
                            "leave out lists of times of tokens",
                            KVR_TRACE_RUN_VALUES_MAX);
        return NULL;
    }
    object = json_loadb(line, bytes, JSON_ALLOW_NUL, &json_error);
    if (json_is_object(object))
        return object;
    if (object != NULL)
        (void)kvr_error_set(error, KVR_MALFORMED, where, "the line is not a JSON object");
    else
        (void)kvr_error_set(error, KVR_MALFORMED, where, "no JSON at column %d: %s",
                            json_error.column, json_error.text);
    json_decref(object);
    return NULL;
}

/* ---- a run of a benchmark -------------------------------------------------------------------- */

struct run {
    const json_t *inputs, *outputs, *starts; /* the last two NULL: the file has none */
    kvr_ns apart;                            /* of requests without starts */
    kvr_ns duration;
};

static bool seconds_of(const json_t *value, kvr_ns *ret_time)
{
    double seconds = json_number_value(value);

    if (!json_is_number(value) || !(seconds >= 0 && seconds < TIME_MAX_S))
        return false;
    *ret_time = (kvr_ns)(seconds * (double)KVR_S);
    return true;
}

/* A list of as many elements as there are inputs. *ret_list NULL: it is missing. */
static kvr_status same_list(const json_t *object, const char *key, const json_t *inputs,
                            const json_t **ret_list, struct kvr_error *error)
{
    const json_t *list = json_object_get(object, key);

    *ret_list = NULL;
    if (!json_is_array(list))
        return KVR_OK;
    if (json_array_size(list) != json_array_size(inputs))
        return kvr_error_set(error, KVR_MALFORMED, where, "%s has %zu elements, input_lens has %zu",
                             key, json_array_size(list), json_array_size(inputs));
    *ret_list = list;
    return KVR_OK;
}

static kvr_status read_run(const json_t *object, struct run *run, struct kvr_error *error)
{
    double rate = json_number_value(json_object_get(object, "request_rate")); /* 0: no number */

    *run = (struct run){.inputs = json_object_get(object, "input_lens")};
    if (!json_is_array(run->inputs))
        return kvr_error_set(error, KVR_MALFORMED, where,
                             "input_lens is missing: the benchmark ran without --save-detailed "
                             "(vLLM) or --output-details (SGLang)");
    KVR_TRY(same_list(object, "output_lens", run->inputs, &run->outputs, error));
    KVR_TRY(same_list(object, "start_times", run->inputs, &run->starts, error));
    if (rate > 1e-6)
        run->apart = (kvr_ns)((double)KVR_S / rate);
    (void)seconds_of(json_object_get(object, "duration"), &run->duration);
    return KVR_OK;
}

/* At `place` of the list. */
static kvr_status tokens_at(const json_t *list, const char *key, size_t place, uint64_t *ret_tokens,
                            struct kvr_error *error)
{
    const json_t *value = json_array_get(list, place);

    *ret_tokens = 0;
    if (list == NULL)
        return KVR_OK;
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return kvr_error_set(error, KVR_MALFORMED, where,
                             "%s[%zu] is not a whole number of 0 or more", key, place);
    *ret_tokens = (uint64_t)json_integer_value(value);
    return KVR_OK;
}

/* The earliest start; requests with 0 were never sent. */
static kvr_status first_start(const struct run *run, kvr_ns *ret_first, struct kvr_error *error)
{
    size_t place;
    json_t *value;
    kvr_ns at;

    *ret_first = 0;
    json_array_foreach(run->starts, place, value)
    {
        if (!seconds_of(value, &at))
            return kvr_error_set(error, KVR_MALFORMED, where,
                                 "start_times[%zu] is not a time from 0 to 10^10 seconds", place);
        if (at > 0 && (*ret_first == 0 || at < *ret_first))
            *ret_first = at;
    }
    return KVR_OK;
}

/* Of requests that say no arrivals. Far beyond all bounds it is just beyond them. */
static kvr_ns arrival_at(const struct run *run, size_t place)
{
    return run->apart > 0 && place > TIME_MAX / run->apart ? TIME_MAX + 1 : run->apart * place;
}

/* *ret_sent false: it was never sent, and is skipped. */
static kvr_status read_request(const struct run *run, size_t place, kvr_ns first, kvr_ns *ret_at,
                               uint64_t tokens[2], bool *ret_sent, struct kvr_error *error)
{
    kvr_ns at = 0;

    KVR_TRY(tokens_at(run->inputs, "input_lens", place, &tokens[0], error));
    KVR_TRY(tokens_at(run->outputs, "output_lens", place, &tokens[1], error));
    if (run->starts != NULL)
        (void)seconds_of(json_array_get(run->starts, place), &at);
    *ret_sent = tokens[0] > 0 && (run->starts == NULL || first == 0 || at > 0);
    *ret_at = run->starts != NULL ? at - (*ret_sent ? first : at) : arrival_at(run, place);
    return KVR_OK;
}

/* Behind a run. */
static kvr_ns next_begin(kvr_ns begin, kvr_ns length)
{
    return length < TIME_MAX - begin ? begin + length : TIME_MAX;
}

static kvr_status add_run(const struct run *run, kvr_ns begin, struct kvr_trace *trace,
                          kvr_ns *ret_last, struct kvr_error *error)
{
    size_t count = json_array_size(run->inputs);
    kvr_ns first, at;
    uint64_t tokens[2];
    bool sent;

    *ret_last = 0;
    KVR_TRY(first_start(run, &first, error));
    for (size_t place = 0; place < count; place++) {
        KVR_TRY(read_request(run, place, first, &at, tokens, &sent, error));
        if (!sent) {
            trace->skipped_count++;
            continue;
        }
        if (at > TIME_MAX - begin)
            return kvr_error_set(
                error, KVR_MALFORMED, where,
                "the request of input_lens[%zu] comes more than 10^10 seconds after "
                "the first of the file: request_rate, start_times or the duration of a run is "
                "wrong",
                place);
        *ret_last = at > *ret_last ? at : *ret_last;
        KVR_TRY(kvr_trace_add(trace, begin + at, tokens[0], tokens[1], NULL, 0, error));
    }
    return KVR_OK;
}

kvr_status kvr_import_run_line(struct kvr_import_runs *runs, char *line, size_t bytes,
                               struct kvr_trace *trace, struct kvr_error *error)
{
    const struct kvr_trace before = *trace;
    json_t *object = parse(line, bytes, error);
    kvr_ns last = 0;
    struct run run;
    kvr_status status;

    if (object == NULL)
        return KVR_MALFORMED;
    status = read_run(object, &run, error);
    if (status == KVR_OK)
        status = add_run(&run, runs->begin, trace, &last, error);
    if (status == KVR_OK) {
        runs->begin = next_begin(runs->begin, run.duration > last ? run.duration : last);
    } else { /* all of a run, or nothing */
        trace->request_count = before.request_count;
        trace->block_count = before.block_count;
        trace->skipped_count = before.skipped_count;
    }
    json_decref(object);
    return status;
}

/* ---- a server's log -------------------------------------------------------------------------- */

static kvr_status log_tokens(const json_t *info, const char *key, bool required,
                             uint64_t *ret_tokens, struct kvr_error *error)
{
    const json_t *value = json_object_get(info, key);

    *ret_tokens = 0;
    if (value == NULL && !required)
        return KVR_OK;
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return kvr_error_set(error, KVR_MALFORMED, where,
                             "out.meta_info.%s is not a whole number of 0 or more", key);
    *ret_tokens = (uint64_t)json_integer_value(value);
    return KVR_OK;
}

static kvr_status add_finished(const json_t *object, struct kvr_trace *trace,
                               struct kvr_error *error)
{
    const char *time = json_string_value(json_object_get(object, "timestamp"));
    const json_t *info = json_object_get(json_object_get(object, "out"), "meta_info");
    kvr_ns at, latency = 0;
    uint64_t input_tokens, output_tokens;

    if (time == NULL || !kvr_import_date(time, &at))
        return kvr_error_set(error, KVR_MALFORMED, where,
                             "timestamp is no date such as 2026-11-27T10:00:00.123456");
    if (!json_is_object(info))
        return kvr_error_set(error, KVR_MALFORMED, where, "out.meta_info is missing");
    if (!seconds_of(json_object_get(info, "e2e_latency"), &latency) || latency > at)
        return kvr_error_set(error, KVR_MALFORMED, where,
                             "out.meta_info.e2e_latency is no time in seconds");
    KVR_TRY(log_tokens(info, "prompt_tokens", true, &input_tokens, error));
    KVR_TRY(log_tokens(info, "completion_tokens", false, &output_tokens, error));
    if (input_tokens > 0)
        return kvr_trace_add(trace, at - latency, input_tokens, output_tokens, NULL, 0, error);
    trace->skipped_count++;
    return KVR_OK;
}

kvr_status kvr_import_log_line(char *line, size_t bytes, struct kvr_trace *trace,
                               struct kvr_error *error)
{
    json_t *object = parse(line, bytes, error);
    const char *event;
    kvr_status status = KVR_OK;

    if (object == NULL)
        return KVR_MALFORMED;
    event = json_string_value(json_object_get(object, "event"));
    if (event == NULL)
        status = kvr_error_set(error, KVR_MALFORMED, where, "event is missing or no text");
    else if (strcmp(event, "request.finished") == 0)
        status = add_finished(object, trace, error);
    json_decref(object);
    return status;
}
