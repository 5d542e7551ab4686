/* One post at a time: the oldest batch and what has changed, over HTTP with libcurl. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/report/reporter_state.h"
#include "base/log.h"
#include "base/text.h"

#define PROTOBUF_TYPE     "application/x-protobuf"
#define RETRY_NS          (100 * KVR_MS) /* where the agent itself cannot post */
#define CONNECT_MS        3000L
#define CONNECT_BESIDE_MS 2000L /* where there is another scheduler */
#define POST_MS           5000L
#define CONNECTION_S      60L /* then another one, which shows a certificate that was renewed */

/* What is added behind a stored report: what has changed since. Facts belong to this boot only. */
static kvr_status encode_envelope(struct kvr_reporter *reporter, bool leaving, uint8_t **ret_bytes,
                                  size_t *ret_size)
{
    struct kvr_report envelope = {.boot = reporter->options.boot,
                                  .dropped = reporter->dropped,
                                  .anchor_at = kvr_clock_now(),
                                  .anchor_wall = kvr_clock_wall(),
                                  .orders_taken = reporter->orders_taken,
                                  .sequence_made = reporter->sequence_next - 1,
                                  .leaving = leaving};
    kvr_status status;

    memcpy(envelope.agent, reporter->agent, sizeof(envelope.agent));
    pthread_mutex_lock(&reporter->facts_lock);
    /* The facts are the sign of life, and it is the agent's loop that must live. */
    envelope.facts =
        reporter->facts_given && (reporter->alive || leaving) ? &reporter->facts : NULL;
    reporter->alive = false;
    if (envelope.facts != NULL && reporter->pairs.peer_count > 0)
        envelope.pairs = &reporter->pairs;
    reporter->pairs_posted = envelope.pairs != NULL ? reporter->pairs_version : 0;
    reporter->facts_posted = reporter->facts_version;
    reporter->orders_posted = envelope.orders_taken;
    status = kvr_report_encode(&envelope, ret_bytes, ret_size);
    pthread_mutex_unlock(&reporter->facts_lock);
    return status;
}

/* The body of the next post: the oldest batch if there is one, and the envelope where it fits. */
static bool make_body(struct kvr_reporter *reporter, bool leaving, size_t *ret_bytes)
{
    struct kvr_spool_record record = {0};
    uint8_t *envelope = NULL;
    size_t envelope_bytes = 0;
    bool waits = reporter_front(reporter, &record), made = true;

    if (!waits || record.boot == reporter->options.boot)
        made = encode_envelope(reporter, leaving, &envelope, &envelope_bytes) == KVR_OK;
    if (made && record.bytes + envelope_bytes > KVR_REPORT_BYTES_MAX)
        envelope_bytes = 0;
    if (envelope_bytes == 0)
        reporter->orders_posted = reporter->pairs_posted = 0;
    reporter->body = made ? malloc(record.bytes + envelope_bytes + 1) : NULL;
    made = reporter->body != NULL;
    if (made && waits && !reporter_read_front(reporter, &record, reporter->body)) {
        reporter_drop_front(reporter); /* the disk does not give it back */
        made = false;
    }
    if (made && envelope_bytes > 0)
        memcpy(reporter->body + record.bytes, envelope, envelope_bytes);
    free(envelope);
    if (!made) {
        free(reporter->body);
        reporter->body = NULL;
        return false;
    }
    reporter->posted = record;
    *ret_bytes = record.bytes + envelope_bytes;
    return true;
}

void reporter_post(struct kvr_reporter *reporter, kvr_ns now, bool leaving)
{
    size_t bytes;

    if (!make_body(reporter, leaving, &bytes)) {
        reporter->retry_at = now + RETRY_NS;
        return;
    }
    reporter->leaving_posted = leaving;
    reporter->answer_bytes = 0;
    reporter->problem[0] = '\0';
    reporter->last_post = now;
    reporter->posts++;
    curl_easy_setopt(reporter->easy, CURLOPT_URL, reporter->urls[reporter->schedulers.current]);
    curl_easy_setopt(reporter->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)bytes);
    curl_easy_setopt(reporter->easy, CURLOPT_POSTFIELDS, reporter->body);
    reporter->posting = curl_multi_add_handle(reporter->multi, reporter->easy) == CURLM_OK;
    if (!reporter->posting) {
        free(reporter->body);
        reporter->body = NULL;
        reporter->retry_at = now + RETRY_NS;
    }
}

static size_t keep_answer(char *data, size_t size, size_t count, void *self)
{
    struct kvr_reporter *reporter = self;
    size_t bytes = size * count, room = sizeof(reporter->answer) - reporter->answer_bytes;

    memcpy(reporter->answer + reporter->answer_bytes, data, bytes < room ? bytes : room);
    reporter->answer_bytes += bytes < room ? bytes : room;
    return bytes;
}

static void acknowledge(struct kvr_reporter *reporter, uint64_t upto)
{
    struct kvr_spool_record record;

    while (reporter_front(reporter, &record) && record.boot == reporter->posted.boot &&
           record.sequence_first + record.event_count - 1 <= upto) {
        reporter->acknowledged += record.event_count;
        reporter_drop_front(reporter);
    }
}

/* The scheduler will never take it: posting it again would hold up all that follows. */
static void give_up_posted(struct kvr_reporter *reporter, long code)
{
    struct kvr_spool_record record;

    kvr_log_debug("the scheduler refused a report for good (%ld): %.*s", code,
                  (int)reporter->answer_bytes, (const char *)reporter->answer);
    if (reporter->posted.event_count == 0 || !reporter_front(reporter, &record) ||
        record.boot != reporter->posted.boot ||
        record.sequence_first != reporter->posted.sequence_first)
        return;
    reporter->dropped += record.event_count;
    reporter_drop_front(reporter);
}

/* The scheduler's own sentence, out of {"error":{…,"message":"…"}}. */
static void tell_status(struct kvr_reporter *reporter, long code)
{
    static const char key[] = "\"message\":\"";
    const char *answer = (const char *)reporter->answer, *begin, *end;
    char sentence[sizeof(reporter->failure.text)];

    begin = memmem(answer, reporter->answer_bytes, key, sizeof(key) - 1);
    begin = begin != NULL ? begin + sizeof(key) - 1 : NULL;
    end = begin != NULL ? memchr(begin, '"', reporter->answer_bytes - (size_t)(begin - answer))
                        : NULL;
    if (end != NULL)
        snprintf(sentence, sizeof(sentence), "it answers %ld: %.*s", code, (int)(end - begin),
                 begin);
    else
        snprintf(sentence, sizeof(sentence), "it answers HTTP status %ld", code);
    kvr_text_show(sentence, sizeof(reporter->failure.text), reporter->failure.text);
}

/* For kvr_reporter_stats. */
static void tell_failure(struct kvr_reporter *reporter, CURLcode result, long code, kvr_ns now)
{
    struct kvr_reporter_failure *failure = &reporter->failure;

    pthread_mutex_lock(&reporter->facts_lock);
    if (failure->since == 0)
        failure->since = now;
    failure->from = reporter->schedulers.current;
    if (result != CURLE_OK)
        snprintf(failure->text, sizeof(failure->text), "%.200s",
                 reporter->problem[0] != '\0' ? reporter->problem : curl_easy_strerror(result));
    else if (code != 200)
        tell_status(reporter, code);
    else if (reporter->impossible != 0)
        snprintf(failure->text, sizeof(failure->text),
                 "it acknowledges event %" PRIu64 ", and this agent has made %" PRIu64
                 ": another program reports in the name of this agent",
                 reporter->impossible, reporter->sequence_next - 1);
    else
        snprintf(failure->text, sizeof(failure->text), "what answers is no scheduler");
    if (failure->from == reporter->scheduler)
        reporter->kept_failure = *failure;
    pthread_mutex_unlock(&reporter->facts_lock);
}

/* Another scheduler may number its orders otherwise: it must not take ours for its own. It brings
 * those that it knows again, which does no harm. */
static void forget_orders(struct kvr_reporter *reporter)
{
    pthread_mutex_lock(&reporter->orders_lock);
    reporter->order_count = 0;
    reporter->orders_taken = 0;
    pthread_mutex_unlock(&reporter->orders_lock);
}

static enum schedulers_event event_of(CURLcode result, long code)
{
    if (result != CURLE_OK)
        return SCHEDULERS_ON_FAILED;
    if (code == 400 || code == 409 || code == 413)
        return SCHEDULERS_ON_REFUSED;
    return code == 503 ? SCHEDULERS_ON_LATER : SCHEDULERS_ON_FAILED;
}

static void post_failed(struct kvr_reporter *reporter, CURLcode result, long code, kvr_ns now)
{
    uint32_t before = reporter->schedulers.current;

    tell_failure(reporter, result, code, now);
    reporter->posts_failed++;
    reporter->connected = false;
    reporter->facts_posted = 0;
    /* A certificate that was renewed is shown by a new connection alone. */
    curl_easy_setopt(reporter->easy, CURLOPT_FRESH_CONNECT, code == 401 || code == 403 ? 1L : 0L);
    reporter->retry_at = now + schedulers_take(&reporter->schedulers, event_of(result, code), now);
    if (reporter->schedulers.current != before)
        forget_orders(reporter);
}

/* For kvr_reporter_stats. */
static void tell_change(struct kvr_reporter *reporter)
{
    if (reporter->scheduler == reporter->schedulers.current)
        return;
    pthread_mutex_lock(&reporter->facts_lock);
    reporter->parted = reporter->kept_failure;
    reporter->scheduler_changes++;
    pthread_mutex_unlock(&reporter->facts_lock);
    reporter->scheduler = reporter->schedulers.current;
}

static void post_answered(struct kvr_reporter *reporter, kvr_ns now)
{
    (void)schedulers_take(&reporter->schedulers, SCHEDULERS_ON_TAKEN, now);
    tell_change(reporter);
    reporter->connected = true;
    curl_easy_setopt(reporter->easy, CURLOPT_FRESH_CONNECT, 0L);
    pthread_mutex_lock(&reporter->facts_lock);
    reporter->failure.since = 0;
    if (reporter->pairs_posted != 0 && reporter->pairs_posted == reporter->pairs_version)
        reporter->pairs.peer_count = reporter->pairs.pair_count = 0;
    pthread_mutex_unlock(&reporter->facts_lock);
}

/* The scheduler has forgotten those that the post said were taken. Others wait until the loop has
 * taken the ones before them; they come again. */
static void keep_orders(struct kvr_reporter *reporter, const struct kvr_report_answer *answer)
{
    uint64_t posted = reporter->orders_posted;

    if (posted != 0)
        (void)atomic_compare_exchange_strong(&reporter->orders_taken, &posted, 0);
    pthread_mutex_lock(&reporter->orders_lock);
    if (reporter->order_count == 0 && reporter->orders_taken == 0) {
        memcpy(reporter->orders, answer->orders, answer->order_count * sizeof(answer->orders[0]));
        reporter->order_count = answer->order_count;
    }
    pthread_mutex_unlock(&reporter->orders_lock);
}

/* A scheduler that acknowledges events that were never made was deceived, and may ignore the next
 * ones. The agent forgets nothing, and its next post has sequence_made: by that the scheduler
 * corrects itself. The last number of an earlier boot is not known here. */
static bool is_impossible(struct kvr_reporter *reporter, const struct kvr_report_answer *answer)
{
    uint64_t boot =
        reporter->posted.event_count > 0 ? reporter->posted.boot : reporter->options.boot;

    if (boot != reporter->options.boot || answer->acknowledged < reporter->sequence_next)
        return false;
    reporter->impossible = answer->acknowledged;
    reporter->answers_refused++;
    return true;
}

/* Another program that answers has not stored the report; it is posted again without hurry. */
static bool read_answer(struct kvr_reporter *reporter, struct kvr_report_answer *answer)
{
    const struct kvr_spool_record *posted = &reporter->posted;
    const char *type = NULL;

    reporter->impossible = 0;
    curl_easy_getinfo(reporter->easy, CURLINFO_CONTENT_TYPE, &type);
    return type != NULL && strcmp(type, PROTOBUF_TYPE) == 0 &&
           kvr_report_answer_decode(reporter->answer, reporter->answer_bytes, answer) == KVR_OK &&
           !is_impossible(reporter, answer) &&
           (posted->event_count == 0 ||
            answer->acknowledged >= posted->sequence_first + posted->event_count - 1);
}

static void finish_post(struct kvr_reporter *reporter, CURLcode result, kvr_ns now)
{
    struct kvr_report_answer answer;
    long code = 0;
    bool taken;

    curl_easy_getinfo(reporter->easy, CURLINFO_RESPONSE_CODE, &code);
    taken = result == CURLE_OK && code == 200 && read_answer(reporter, &answer);
    curl_multi_remove_handle(reporter->multi, reporter->easy);
    free(reporter->body);
    reporter->body = NULL;
    reporter->posting = false;
    if (taken) {
        post_answered(reporter, now);
        if (reporter->posted.event_count > 0)
            acknowledge(reporter, answer.acknowledged);
        keep_orders(reporter, &answer);
        return;
    }
    if (event_of(result, code) == SCHEDULERS_ON_REFUSED)
        give_up_posted(reporter, code);
    post_failed(reporter, result, code, now);
}

void reporter_post_drive(struct kvr_reporter *reporter, kvr_ns now)
{
    CURLMsg *message;
    int running, left;

    curl_multi_perform(reporter->multi, &running);
    while ((message = curl_multi_info_read(reporter->multi, &left)) != NULL)
        if (message->msg == CURLMSG_DONE)
            finish_post(reporter, message->data.result, now);
}

/* ---- opening and closing ---- */

/* libcurl reads the files for each connection. */
static void set_certificates(struct kvr_reporter *reporter)
{
    curl_easy_setopt(reporter->easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_3);
    curl_easy_setopt(reporter->easy, CURLOPT_CAINFO, reporter->tls.ca);
    curl_easy_setopt(reporter->easy, CURLOPT_SSLCERT, reporter->tls.certificate);
    curl_easy_setopt(reporter->easy, CURLOPT_SSLKEY, reporter->tls.key);
    if (reporter->tls.crl[0] != '\0')
        curl_easy_setopt(reporter->easy, CURLOPT_CRLFILE, reporter->tls.crl);
    curl_easy_setopt(reporter->easy, CURLOPT_MAXLIFETIME_CONN, CONNECTION_S);
}

kvr_status reporter_post_open(struct kvr_reporter *reporter, struct kvr_error *error)
{
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK ||
        (reporter->multi = curl_multi_init()) == NULL ||
        (reporter->easy = curl_easy_init()) == NULL)
        return kvr_error_set(error, KVR_SYSTEM, "reporter", "libcurl does not start");
    curl_multi_setopt(reporter->multi, CURLMOPT_MAXCONNECTS, 1L); /* a fresh one ends the other */
    reporter->headers = curl_slist_append(NULL, "Content-Type: " PROTOBUF_TYPE);
    reporter->headers = curl_slist_append(reporter->headers, "Expect:");
#if LIBCURL_VERSION_NUM >= 0x075500 /* 7.85 deprecates the other one */
    curl_easy_setopt(reporter->easy, CURLOPT_PROTOCOLS_STR, "http,https");
#else
    curl_easy_setopt(reporter->easy, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
    curl_easy_setopt(reporter->easy, CURLOPT_PROXY, "");
    curl_easy_setopt(reporter->easy, CURLOPT_POST, 1L);
    curl_easy_setopt(reporter->easy, CURLOPT_HTTPHEADER, reporter->headers);
    curl_easy_setopt(reporter->easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(reporter->easy, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(reporter->easy, CURLOPT_CONNECTTIMEOUT_MS,
                     reporter->schedulers.count > 1 ? CONNECT_BESIDE_MS : CONNECT_MS);
    curl_easy_setopt(reporter->easy, CURLOPT_TIMEOUT_MS, POST_MS);
    curl_easy_setopt(reporter->easy, CURLOPT_WRITEFUNCTION, keep_answer);
    curl_easy_setopt(reporter->easy, CURLOPT_WRITEDATA, reporter);
    curl_easy_setopt(reporter->easy, CURLOPT_ERRORBUFFER, reporter->problem);
#if LIBCURL_VERSION_NUM >= 0x075700 /* else a name server that is silent holds the next post up */
    curl_easy_setopt(reporter->easy, CURLOPT_QUICK_EXIT, 1L);
#endif
    if (kvr_tls_given(&reporter->tls))
        set_certificates(reporter);
    return KVR_OK;
}

void reporter_post_close(struct kvr_reporter *reporter)
{
    if (reporter->posting)
        curl_multi_remove_handle(reporter->multi, reporter->easy);
    curl_easy_cleanup(reporter->easy);
    if (reporter->multi != NULL)
        curl_multi_cleanup(reporter->multi);
    curl_slist_free_all(reporter->headers);
    free(reporter->body);
}
