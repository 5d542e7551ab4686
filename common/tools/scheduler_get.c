#include "tools/scheduler_get.h"

#include <curl/curl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"

#define ANSWER_BYTES_MAX (64u << 20)

static const struct kvr_option rows[] = {
    {.name = "scheduler",
     .section = "scheduler",
     .value = "HOST[:PORT]",
     .fallback = "127.0.0.1:9470",
     .port = KVR_SCHEDULER_PORT,
     KVR_OPTION_ADDRESS(struct scheduler_options, address),
     .help = "Where the scheduler listens."},
    {.name = "timeout",
     .fallback = "5s",
     .min = 100 * KVR_MS,
     KVR_OPTION_DURATION(struct scheduler_options, timeout),
     .help = "How long to wait for an answer."},
};
static const struct kvr_option_table table = {rows, sizeof(rows) / sizeof(rows[0])};
const struct kvr_option_part scheduler_parts[] = {{.table = &table}, {.table = NULL}};

const struct kvr_exit_code scheduler_exit_codes[] = {
    {SCHEDULER_EXIT_AWAY, "the scheduler cannot be reached, or cannot answer"},
    {0, NULL},
};

/* An answer as it grows. */
struct answer {
    char *bytes;
    size_t size;
};

static size_t take(char *bytes, size_t unit, size_t count, void *self)
{
    struct answer *answer = self;
    size_t more = unit * count;
    char *larger;

    if (more > ANSWER_BYTES_MAX - answer->size)
        return 0;
    larger = realloc(answer->bytes, answer->size + more + 1);
    if (larger == NULL)
        return 0;
    memcpy(larger + answer->size, bytes, more);
    answer->bytes = larger;
    answer->size += more;
    return more;
}

/* The array `member` of an answer, or without a member the object; NULL: that is not what it is. */
static json_t *member_of(const struct answer *answer, const char *member)
{
    json_t *object = json_loadb(answer->bytes != NULL ? answer->bytes : "", answer->size, 0, NULL);
    json_t *array = member != NULL ? json_object_get(object, member) : NULL;

    if (member == NULL)
        return object;
    array = json_is_array(array) ? json_incref(array) : NULL;
    json_decref(object);
    return array;
}

/* The scheduler says itself what was wrong. */
static kvr_status refused(const struct answer *answer, const char *address, const char *path,
                          long http_status, struct kvr_error *error)
{
    json_t *object = member_of(answer, NULL);
    const char *sentence =
        json_string_value(json_object_get(json_object_get(object, "error"), "message"));
    kvr_status status = http_status == 404   ? KVR_NOT_FOUND
                        : http_status == 503 ? KVR_SYSTEM
                                             : KVR_REFUSED;

    if (sentence != NULL)
        status = kvr_error_set(error, status, "scheduler", "%s", sentence);
    else
        status = kvr_error_set(error, status, "scheduler", "%s answers %s with HTTP status %ld",
                               address, path, http_status);
    json_decref(object);
    return status;
}

static kvr_status perform(CURL *curl, const char *address, const char *path, kvr_ns timeout,
                          bool post, struct answer *answer, struct kvr_error *error)
{
    long http_status = 0;
    char url[1024];
    CURLcode code;

    snprintf(url, sizeof(url), "http://%s%s", address, path);
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)(timeout / KVR_MS));
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, answer);
    if (post) {
        curl_easy_setopt(curl, CURLOPT_POST, 1L);
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, 0L);
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, "");
    }
    code = curl_easy_perform(curl);
    if (code != CURLE_OK)
        return kvr_error_set(error, KVR_SYSTEM, "scheduler",
                             "no answer from the scheduler at %s: %s", address,
                             curl_easy_strerror(code));
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &http_status);
    if (http_status != (post ? 202 : 200))
        return refused(answer, address, path, http_status, error);
    return KVR_OK;
}

static json_t *ask(const char *address, const char *path, const char *member, kvr_ns timeout,
                   bool post, struct kvr_error *error)
{
    struct answer answer = {0};
    CURL *curl = curl_easy_init();
    json_t *json = NULL;

    if (curl == NULL) {
        (void)kvr_error_set(error, KVR_NO_MEMORY, "scheduler", "no memory for a request");
        return NULL;
    }
    if (perform(curl, address, path, timeout, post, &answer, error) == KVR_OK) {
        json = member_of(&answer, member);
        if (json == NULL)
            (void)kvr_error_set(
                error, KVR_MALFORMED, "scheduler", "what %s answers %s with is no %s%s", address,
                path, member != NULL ? "list of " : "object", member != NULL ? member : "");
    }
    free(answer.bytes);
    curl_easy_cleanup(curl);
    return json;
}

json_t *scheduler_get(const char *address, const char *path, const char *member, kvr_ns timeout,
                      struct kvr_error *error)
{
    return ask(address, path, member, timeout, false, error);
}

json_t *scheduler_post(const char *address, const char *path, kvr_ns timeout,
                       struct kvr_error *error)
{
    return ask(address, path, NULL, timeout, true, error);
}

void scheduler_escape(const char *text, char *path, size_t bytes)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";
    size_t used = 0;

    for (; *text != '\0' && used + 4 <= bytes; text++) {
        if (strchr(plain, *text) != NULL)
            path[used++] = *text;
        else
            used += (size_t)snprintf(path + used, bytes - used, "%%%02X", (unsigned char)*text);
    }
    path[used] = '\0';
}
