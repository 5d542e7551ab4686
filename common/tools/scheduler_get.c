#include "tools/scheduler_get.h"

#include <curl/curl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER_BYTES_MAX (64u << 20)

static const struct kvr_option rows[] = {
    {.name = "scheduler",
     .section = "scheduler",
     .value = "HOST[:PORT]",
     .fallback = "127.0.0.1:9470",
     KVR_OPTION_STRING(struct scheduler_call, address),
     .help = "Where the scheduler listens; port 9470 unless given. http:// or https:// may stand "
             "before it; without them --tls-ca means https."},
    {.name = "timeout",
     .fallback = "5s",
     .min = 100 * KVR_MS,
     KVR_OPTION_DURATION(struct scheduler_call, timeout),
     .help = "How long to wait for an answer."},
};
const struct kvr_option_table scheduler_options = {rows, sizeof(rows) / sizeof(rows[0])};

static const struct kvr_option token_rows[] = {
    {.name = "token-file",
     .section = "scheduler",
     .value = "FILE",
     KVR_OPTION_STRING(struct scheduler_call, token_file),
     .help = "A file with the token that the scheduler knows, as `kvrail token` printed it."},
};
const struct kvr_option_table scheduler_token_options = {token_rows, 1};

const struct kvr_option_part scheduler_parts[] = {
    {.table = &scheduler_options},
    {.table = &scheduler_token_options},
    {.table = &kvr_tls_client_options, .offset = offsetof(struct scheduler_call, tls)},
    {.table = NULL},
};

const struct kvr_exit_code scheduler_exit_codes[] = {
    {SCHEDULER_EXIT_AWAY, "the scheduler cannot be reached, or cannot answer"},
    {0, NULL},
};

kvr_status scheduler_prepare(struct scheduler_call *options, struct kvr_error *error)
{
    KVR_TRY(kvr_tls_client_check(&options->tls, error));
    KVR_TRY(kvr_url_parse(options->address, KVR_SCHEDULER_PORT, options->tls.ca[0] != '\0',
                          options->url, error));
    if (options->token_file[0] == '\0')
        return KVR_OK;
    KVR_TRY(kvr_token_read(options->token_file, options->token, error));
    if (!kvr_url_encrypted(options->url) && !kvr_url_is_loopback(options->url))
        fprintf(stderr,
                "note: the token goes to %s readable for the network: nothing is encrypted "
                "without https\n",
                options->url);
    return KVR_OK;
}

bool scheduler_ready(const struct kvr_command *command, struct scheduler_call *options)
{
    struct kvr_error error = {0};

    if (scheduler_prepare(options, &error) == KVR_OK)
        return true;
    kvr_options_refuse(command, "%s", error.detail);
    return false;
}

int scheduler_exit(const struct kvr_error *error)
{
    return error->status == KVR_NOT_FOUND || error->status == KVR_REFUSED ? 1 : SCHEDULER_EXIT_AWAY;
}

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
static kvr_status refused(const struct answer *answer, const struct scheduler_call *options,
                          const char *path, long http_status, struct kvr_error *error)
{
    json_t *object = member_of(answer, NULL);
    const char *sentence =
        json_string_value(json_object_get(json_object_get(object, "error"), "message"));
    kvr_status status = http_status == 404   ? KVR_NOT_FOUND
                        : http_status == 503 ? KVR_SYSTEM
                                             : KVR_REFUSED;
    bool who = http_status == 401 || http_status == 403 || http_status == 429;

    if (sentence != NULL && who)
        status = kvr_error_set(error, status, "scheduler", "%s refuses%s%s: %s", options->url,
                               options->token[0] != '\0' ? " the token in " : "",
                               options->token[0] != '\0' ? options->token_file : "", sentence);
    else if (sentence != NULL)
        status = kvr_error_set(error, status, "scheduler", "%s", sentence);
    else
        status = kvr_error_set(error, status, "scheduler", "%s answers %s with HTTP status %ld",
                               options->url, path, http_status);
    json_decref(object);
    return status;
}

static kvr_status unreached(const struct scheduler_call *options, CURLcode code, const char *detail,
                            struct kvr_error *error)
{
    const char *why = detail[0] != '\0' ? detail : curl_easy_strerror(code);

    switch (code) {
    case CURLE_PEER_FAILED_VERIFICATION:
        return kvr_error_set(
            error, KVR_REFUSED, "scheduler",
            "%s is not believed: its certificate does not lead to the CA in %s, or "
            "is not of that host (%s)",
            options->url,
            options->tls.ca[0] != '\0' ? options->tls.ca : "this system's list (give --tls-ca)",
            why);
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
        return kvr_error_set(error, KVR_INVALID, "scheduler",
                             "--tls-ca, --tls-certificate or --tls-key cannot be used: %s", why);
    case CURLE_SSL_CONNECT_ERROR:
        return kvr_error_set(error, KVR_SYSTEM, "scheduler",
                             "no answer from the scheduler at %s: %s (it speaks no TLS or "
                             "refuses this certificate, or --tls-certificate and --tls-key do not "
                             "belong together)",
                             options->url, why);
    case CURLE_GOT_NOTHING:
    case CURLE_RECV_ERROR:
        return kvr_error_set(
            error, KVR_SYSTEM, "scheduler", "no answer from the scheduler at %s: %s%s",
            options->url, why,
            kvr_url_encrypted(options->url) ? "" : " (if it speaks TLS, give --tls-ca)");
    default:
        return kvr_error_set(error, KVR_SYSTEM, "scheduler",
                             "no answer from the scheduler at %s: %s", options->url, why);
    }
}

static void set_files(CURL *curl, const struct scheduler_call *options)
{
    curl_easy_setopt(curl, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    if (options->tls.ca[0] != '\0')
        curl_easy_setopt(curl, CURLOPT_CAINFO, options->tls.ca);
    if (!kvr_tls_given(&options->tls))
        return;
    curl_easy_setopt(curl, CURLOPT_SSLCERT, options->tls.certificate);
    curl_easy_setopt(curl, CURLOPT_SSLKEY, options->tls.key);
}

static struct curl_slist *headers_of(const struct scheduler_call *options)
{
    char line[sizeof("Authorization: Bearer ") + KVR_TOKEN_TEXT_BYTES];

    if (options->token[0] == '\0')
        return NULL;
    snprintf(line, sizeof(line), "Authorization: Bearer %s", options->token);
    return curl_slist_append(NULL, line);
}

static kvr_status perform(CURL *curl, const struct scheduler_call *options, const char *path,
                          bool post, struct answer *answer, struct kvr_error *error)
{
    struct curl_slist *headers = headers_of(options);
    char url[1024], detail[CURL_ERROR_SIZE] = "";
    long http_status = 0;
    CURLcode code;

    snprintf(url, sizeof(url), "%s%s", options->url, path);
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, detail);
    curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)(options->timeout / KVR_MS));
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, answer);
    set_files(curl, options);
    if (post) {
        curl_easy_setopt(curl, CURLOPT_POST, 1L);
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, 0L);
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, "");
    }
    code = curl_easy_perform(curl);
    curl_slist_free_all(headers);
    if (code != CURLE_OK)
        return unreached(options, code, detail, error);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &http_status);
    if (http_status != (post ? 202 : 200))
        return refused(answer, options, path, http_status, error);
    return KVR_OK;
}

/* The caller frees what is in the answer, also after a failure. */
static kvr_status ask_once(const struct scheduler_call *options, const char *path, bool post,
                           struct answer *answer, struct kvr_error *error)
{
    CURL *curl = curl_easy_init();
    kvr_status status;

    if (curl == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "scheduler", "no memory for a request");
    status = perform(curl, options, path, post, answer, error);
    curl_easy_cleanup(curl);
    return status;
}

static json_t *ask(const struct scheduler_call *options, const char *path, const char *member,
                   bool post, struct kvr_error *error)
{
    struct answer answer = {0};
    json_t *json = NULL;

    if (ask_once(options, path, post, &answer, error) == KVR_OK) {
        json = member_of(&answer, member);
        if (json == NULL)
            (void)kvr_error_set(error, KVR_MALFORMED, "scheduler",
                                "what %s answers %s with is no %s%s", options->url, path,
                                member != NULL ? "list of " : "object",
                                member != NULL ? member : "");
    }
    free(answer.bytes);
    return json;
}

char *scheduler_get_text(const struct scheduler_call *options, const char *path,
                         struct kvr_error *error)
{
    struct answer answer = {0};

    if (ask_once(options, path, false, &answer, error) != KVR_OK || answer.bytes == NULL) {
        free(answer.bytes);
        return NULL;
    }
    answer.bytes[answer.size] = '\0';
    return answer.bytes;
}

json_t *scheduler_get(const struct scheduler_call *options, const char *path, const char *member,
                      struct kvr_error *error)
{
    return ask(options, path, member, false, error);
}

json_t *scheduler_post(const struct scheduler_call *options, const char *path,
                       struct kvr_error *error)
{
    return ask(options, path, NULL, true, error);
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
