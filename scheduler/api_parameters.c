#include "scheduler/api_parameters.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/hex.h"
#include "base/text.h"

#define LIMIT_DEFAULT 50
#define LIMIT_MAX     500

const struct api_path api_paths[] = {
    {API_SUMMARY, "GET", "/api/v1/summary", {0}},
    {API_AGENTS, "GET", "/api/v1/agents", {"agent"}},
    {API_ENGINES, "GET", "/api/v1/engines", {"agent", "from", "until", "limit", "after"}},
    {API_TRANSFERS,
     "GET",
     "/api/v1/transfers",
     {"state", "request", "tenant", "agent", "rail", "engine", "path", "reason", "min_duration",
      "from", "until", "trace", "limit", "after"}},
    {API_TRANSFER, "GET", "/api/v1/transfers/{id}", {0}},
    {API_PAIRS, "GET", "/api/v1/pairs", {"tokens", "model", "source", "target", "limit"}},
    {API_TIMELINE, "GET", "/api/v1/transfers/{id}/timeline", {0}},
    {API_ERRORS, "GET", "/api/v1/errors", {"from", "until"}},
    {API_MATRIX, "GET", "/api/v1/rails/matrix", {"source", "target", "trouble"}},
    {API_ROLLUPS, "GET", "/api/v1/rollups", {"by", "agent", "from", "until", "step", "times"}},
    {API_HISTOGRAMS, "GET", "/api/v1/histograms", {"by", "from", "until"}},
    {API_COMPARE, "GET", "/api/v1/compare", {"from", "until", "with_from", "with_until"}},
    {API_MARKS, "GET", "/api/v1/marks", {"from", "until"}},
    {API_FAULTS, "GET", "/api/v1/faults", {"from", "until"}},
    {API_AUDIT, "GET", "/api/v1/audit", {"limit", "after"}},
    {API_DOCUMENT, "GET", "/api/v1/openapi.json", {0}},
    {API_STREAM, "GET", "/api/v1/stream", {0}},
    {API_SESSION, "GET POST DELETE", "/api/v1/session", {0}},
    {API_ABANDON, "POST", "/api/v1/requests/{request}/abandon", {"attempt"}},
    {API_CANCEL, "POST", "/api/v1/transfers/{id}/cancel", {0}},
    {API_DRAIN, "POST", "/api/v1/agents/{name}/drain", {0}},
    {API_RESUME, "POST", "/api/v1/agents/{name}/resume", {0}},
    {API_RECORD, "POST", "/api/v1/agents/{name}/record", {"for_ms"}},
    {API_RENEW, "POST", "/api/v1/requests/{request}/renew", {"attempt", "lease_ms"}},
};
const size_t api_path_count = sizeof(api_paths) / sizeof(api_paths[0]);

/* ---- paths ---- */

static bool matches(const char *path, const char *form)
{
    size_t part = strcspn(form, "{"), value;

    if (strncmp(path, form, part) != 0)
        return false;
    if (form[part] == '\0')
        return path[part] == '\0';
    path += part;
    form += part;
    value = strcspn(path, "/");
    return value > 0 && strcmp(path + value, strchr(form, '}') + 1) == 0;
}

static bool has_method(const struct api_path *path, const char *method)
{
    const char *found = strstr(path->methods, method);

    return found != NULL && (found[strlen(method)] == '\0' || found[strlen(method)] == ' ');
}

const struct api_path *api_path_of(const char *method, const char *path)
{
    for (size_t i = 0; i < api_path_count; i++)
        if (has_method(&api_paths[i], method) && matches(path, api_paths[i].path))
            return &api_paths[i];
    return NULL;
}

void api_no_path(struct api_answer *ret_answer)
{
    char message[1000] = "there is nothing at this path; there are /, /metrics, /healthz, /readyz";
    size_t used = strlen(message);

    for (size_t i = 0; i < api_path_count && used < sizeof(message); i++)
        if (has_method(&api_paths[i], "GET"))
            used +=
                (size_t)snprintf(message + used, sizeof(message) - used, ", %s", api_paths[i].path);
    api_error(ret_answer, 404, message);
}

/* ---- parameters ---- */

static bool is_known(const struct api_path *path, const char *name)
{
    for (size_t i = 0; i < API_NAMES_MAX && path->names[i] != NULL; i++)
        if (strcmp(path->names[i], name) == 0)
            return true;
    return false;
}

static void refuse_unknown(const struct api_path *path, const char *name,
                           struct api_answer *ret_answer)
{
    char format[300] = "there is no parameter \"%s\" here";
    size_t used = strlen(format);

    for (size_t i = 0; i < API_NAMES_MAX && path->names[i] != NULL; i++)
        used += (size_t)snprintf(format + used, sizeof(format) - used, "%s%s",
                                 i == 0 ? "; known are " : ", ", path->names[i]);
    api_bad_request(ret_answer, name, format, name);
}

static bool is_utf8(const char *text)
{
    size_t bytes;

    for (; *text != '\0'; text += bytes) {
        bytes = kvr_text_character(text);
        if (bytes == 0)
            return false;
    }
    return true;
}

bool api_check_text(const char *path, const struct api_query *query, struct api_answer *ret_answer)
{
    if (!is_utf8(path)) {
        api_error(ret_answer, 400, "the path is not UTF-8");
        return false;
    }
    for (int i = 0; i < query->count && i < API_PARAMETERS_MAX; i++) {
        const char *name = query->parameters[i].name, *value = query->parameters[i].value;

        if (is_utf8(name) && (value == NULL || is_utf8(value)))
            continue;
        api_bad_request(ret_answer, name, "the parameter \"%s\" is not UTF-8", name);
        return false;
    }
    return true;
}

bool api_check_parameters(const struct api_path *path, const struct api_query *query,
                          struct api_answer *ret_answer)
{
    for (int i = 0; i < query->count && i < API_PARAMETERS_MAX; i++) {
        const char *name = query->parameters[i].name;

        if (!is_known(path, name)) {
            refuse_unknown(path, name, ret_answer);
            return false;
        }
        for (int other = 0; other < i; other++) {
            if (strcmp(query->parameters[other].name, name) != 0)
                continue;
            api_bad_request(ret_answer, name, "%s is given twice: this is a second one", name);
            return false;
        }
    }
    return true;
}

const char *api_parameter(const struct api_query *query, const char *name)
{
    for (int i = 0; i < query->count && i < API_PARAMETERS_MAX; i++)
        if (strcmp(query->parameters[i].name, name) == 0)
            return query->parameters[i].value != NULL ? query->parameters[i].value : "";
    return NULL;
}

/* ---- values ---- */

/* *ret_end: behind its digits. */
static bool digits(const char *text, int64_t min, int64_t max, int64_t *ret_number, char **ret_end)
{
    long long number;

    if (text == NULL || text[0] < '0' || text[0] > '9')
        return false;
    errno = 0;
    number = strtoll(text, ret_end, 10);
    if (errno != 0 || number < min || number > max)
        return false;
    *ret_number = number;
    return true;
}

bool api_number(const char *text, int64_t min, int64_t max, int64_t *ret_number)
{
    int64_t number;
    char *end;

    if (!digits(text, min, max, &number, &end) || *end != '\0')
        return false;
    *ret_number = number;
    return true;
}

/* ".789" up to `last`, as nanoseconds; "" is 0. */
static bool fraction(const char *text, const char *last, int64_t *ret_ns)
{
    int64_t unit = (int64_t)KVR_S, ns = 0;

    if (*text == '.' && text[1] >= '0' && text[1] <= '9')
        for (text++; *text >= '0' && *text <= '9'; text++) {
            unit /= 10;
            ns += (*text - '0') * unit;
        }
    *ret_ns = ns;
    return strcmp(text, last) == 0;
}

bool api_time(const char *text, int64_t *ret_ns)
{
    struct tm parts = {0}, again;
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &parts);
    time_t seconds;
    int64_t ns;

    if (rest == NULL || rest - text != 19 || !fraction(rest, "Z", &ns))
        return false;
    again = parts;
    seconds = timegm(&again);
    /* The 30th of February would be the 2nd of March. */
    if (seconds < 0 || seconds >= INT64_MAX / (int64_t)KVR_S || again.tm_mday != parts.tm_mday)
        return false;
    *ret_ns = (int64_t)seconds * (int64_t)KVR_S + ns;
    return true;
}

bool api_seconds(const char *text, int64_t *ret_ns)
{
    int64_t seconds, ns;
    char *end;

    if (!digits(text, 0, 1000000000, &seconds, &end) || !fraction(end, "", &ns))
        return false;
    *ret_ns = seconds * (int64_t)KVR_S + ns;
    return true;
}

bool api_uuid(const char *text, struct kvr_uuid *ret_uuid)
{
    char plain[2 * sizeof(ret_uuid->bytes) + 1];
    struct kvr_uuid uuid;
    size_t count = 0;

    for (; *text != '\0'; text++) {
        if (*text == '-')
            continue;
        if (count == sizeof(plain) - 1)
            return false;
        plain[count++] = *text >= 'A' && *text <= 'F' ? (char)(*text - 'A' + 'a') : *text;
    }
    plain[count] = '\0';
    if (!kvr_hex_parse(plain, sizeof(uuid.bytes), uuid.bytes))
        return false;
    *ret_uuid = uuid;
    return true;
}

/* "NUMBER", or "NANOSECONDS-NUMBER". */
static bool parse_place(const char *text, struct api_page *page)
{
    int64_t first, second;
    char *end;

    if (!digits(text, 1, INT64_MAX, &first, &end))
        return false;
    if (*end == '\0') {
        page->before = first;
        return true;
    }
    if (*end != '-' || !api_number(end + 1, 0, INT64_MAX, &second))
        return false;
    page->before_ns = first;
    page->before = second;
    return true;
}

bool api_parse_name(const struct api_query *query, const char *parameter, const char *noun,
                    const char **ret_name, struct api_answer *ret_answer)
{
    char format[80];

    *ret_name = api_parameter(query, parameter);
    if (*ret_name == NULL || ((*ret_name)[0] != '\0' && strlen(*ret_name) < KVR_NAME_BYTES))
        return true;
    snprintf(format, sizeof(format), "\"%%s\" is no %s: give the name of one %s", noun, noun);
    api_bad_request(ret_answer, parameter, format, *ret_name);
    return false;
}

bool api_parse_time(const struct api_query *query, const char *parameter, int64_t *ns,
                    struct api_answer *ret_answer)
{
    const char *text = api_parameter(query, parameter);

    if (text == NULL || api_time(text, ns))
        return true;
    api_bad_request(ret_answer, parameter, API_NO_TIME, text);
    return false;
}

bool api_parse_limit(const struct api_query *query, uint32_t *limit, struct api_answer *ret_answer)
{
    const char *text = api_parameter(query, "limit");
    int64_t number = *limit;

    if (text != NULL && !api_number(text, 1, LIMIT_MAX, &number)) {
        api_bad_request(ret_answer, "limit", "limit=%s is not a number from 1 to 500", text);
        return false;
    }
    *limit = (uint32_t)number;
    return true;
}

bool api_parse_page(const struct api_query *query, struct api_page *ret_page,
                    struct api_answer *ret_answer)
{
    const char *after = api_parameter(query, "after");

    *ret_page = (struct api_page){.limit = LIMIT_DEFAULT};
    if (!api_parse_limit(query, &ret_page->limit, ret_answer))
        return false;
    if (after == NULL || parse_place(after, ret_page))
        return true;
    api_bad_request(ret_answer, "after", API_NO_PLACE, after);
    return false;
}
