#include "agent/reporter.h"

#include <curl/curl.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "agent/spool.h"
#include "base/address.h"
#include "base/log.h"
#include "base/ring.h"

#define RING_EVENTS    8192
#define BATCH_NS       (200 * KVR_MS) /* an event waits this long for others */
#define HEARTBEAT_NS   (2 * KVR_S)
#define FACTS_NS       (1 * KVR_S) /* facts that changed are sent this often */
#define RETRY_FIRST_NS (100 * KVR_MS)
#define RETRY_LAST_NS  (2 * KVR_S)
#define CONNECT_MS     1000L
#define POST_MS        5000L
#define ANSWER_BYTES   512 /* what is kept of it */
#define URL_BYTES      (KVR_ADDRESS_TEXT_BYTES + 32)

/* A batch in memory, encoded. */
struct batch {
    struct batch *next;
    struct kvr_spool_record record;
    uint8_t *report;
};

struct kvr_reporter {
    struct kvr_reporter_options options;
    char agent[KVR_NAME_BYTES];
    char url[URL_BYTES];
    bool counting_only;

    /* loop thread → reporter thread */
    struct kvr_ring ring;
    _Atomic bool asleep, stopping;
    int wake_fd;
    pthread_mutex_t facts_lock;
    struct kvr_agent_facts facts; /* by facts_lock, as the next three */
    bool facts_given, alive;      /* alive: the loop gave facts since the last post */
    uint64_t facts_version;

    /* for kvr_reporter_stats */
    _Atomic uint64_t emitted, acknowledged, dropped, posts, posts_failed;
    _Atomic bool connected;

    /* the reporter thread's own */
    pthread_t thread;
    struct kvr_event *gathered;
    uint32_t gathered_count;
    kvr_ns gathered_since;
    uint64_t sequence_next;
    struct batch *oldest, *newest;
    size_t memory_bytes;
    struct kvr_spool *spool; /* older than everything in memory */
    CURLM *multi;
    CURL *easy;
    struct curl_slist *headers;
    uint8_t *body; /* of the post under way */
    bool posting;
    struct kvr_spool_record posted; /* event_count 0: only a sign of life */
    uint64_t facts_posted;
    kvr_ns last_post, retry_at, retry_ns;
    bool leaving_posted;
    uint8_t answer[ANSWER_BYTES];
    size_t answer_bytes;
};

/* ---- loop thread ---- */

static void wake(struct kvr_reporter *reporter)
{
    uint64_t one = 1;

    if (atomic_exchange(&reporter->asleep, false))
        (void)!write(reporter->wake_fd, &one, sizeof(one));
}

static void sink_emit(void *self, const struct kvr_event *event)
{
    struct kvr_reporter *reporter = self;

    atomic_fetch_add_explicit(&reporter->emitted, 1, memory_order_relaxed);
    if (reporter->counting_only)
        return;
    if (!kvr_ring_push(&reporter->ring, event))
        atomic_fetch_add_explicit(&reporter->dropped, 1, memory_order_relaxed);
    /* The reporter says `asleep` and then looks at the ring; here it is the other way round. */
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&reporter->asleep, memory_order_relaxed))
        wake(reporter);
}

struct kvr_event_sink kvr_reporter_sink(struct kvr_reporter *reporter)
{
    return (struct kvr_event_sink){.self = reporter, .emit = sink_emit};
}

void kvr_reporter_facts(struct kvr_reporter *reporter, const struct kvr_agent_facts *facts)
{
    if (reporter->counting_only)
        return;
    pthread_mutex_lock(&reporter->facts_lock);
    reporter->alive = true;
    if (!reporter->facts_given || memcmp(&reporter->facts, facts, sizeof(*facts)) != 0) {
        reporter->facts = *facts;
        reporter->facts_given = true;
        reporter->facts_version++;
    }
    pthread_mutex_unlock(&reporter->facts_lock);
}

void kvr_reporter_stats(struct kvr_reporter *reporter, struct kvr_reporter_stats *ret_stats)
{
    *ret_stats = (struct kvr_reporter_stats){.emitted = reporter->emitted,
                                             .acknowledged = reporter->acknowledged,
                                             .dropped = reporter->dropped,
                                             .posts = reporter->posts,
                                             .posts_failed = reporter->posts_failed,
                                             .connected = reporter->connected};
}

/* ---- reporter thread: what waits ---- */

static void batch_free(struct batch *batch)
{
    free(batch->report);
    free(batch);
}

static struct batch *take_oldest(struct kvr_reporter *reporter)
{
    struct batch *batch = reporter->oldest;

    reporter->oldest = batch->next;
    if (reporter->oldest == NULL)
        reporter->newest = NULL;
    reporter->memory_bytes -= batch->record.bytes;
    return batch;
}

/* Memory past its bound goes to the spool, oldest first, so that the spool stays the older part. */
static void spill(struct kvr_reporter *reporter, size_t memory_bytes_max)
{
    while (reporter->memory_bytes > memory_bytes_max) {
        struct batch *batch = take_oldest(reporter);
        uint64_t dropped = 0;

        if (reporter->spool == NULL ||
            kvr_spool_append(reporter->spool, &batch->record, batch->report, &dropped) != KVR_OK)
            dropped += batch->record.event_count;
        reporter->dropped += dropped;
        batch_free(batch);
    }
}

/* Makes a batch of what was gathered. */
static void seal(struct kvr_reporter *reporter)
{
    struct kvr_report report = {.boot = reporter->options.boot,
                                .sequence_first = reporter->sequence_next,
                                .anchor_at = kvr_clock_now(),
                                .anchor_wall = kvr_clock_wall(),
                                .events = reporter->gathered,
                                .event_count = reporter->gathered_count};
    struct batch *batch = calloc(1, sizeof(*batch));
    size_t bytes;

    memcpy(report.agent, reporter->agent, sizeof(report.agent));
    reporter->sequence_next += report.event_count;
    reporter->gathered_count = 0;
    if (batch == NULL || kvr_report_encode(&report, &batch->report, &bytes) != KVR_OK) {
        reporter->dropped += report.event_count;
        free(batch);
        return;
    }
    batch->record = (struct kvr_spool_record){report.boot, report.sequence_first,
                                              report.event_count, (uint32_t)bytes};
    if (reporter->newest != NULL)
        reporter->newest->next = batch;
    else
        reporter->oldest = batch;
    reporter->newest = batch;
    reporter->memory_bytes += bytes;
    spill(reporter, reporter->options.memory_bytes_max);
}

static void gather(struct kvr_reporter *reporter, kvr_ns now, bool now_or_never)
{
    struct kvr_event *room = &reporter->gathered[reporter->gathered_count];

    while (kvr_ring_pop(&reporter->ring, room)) {
        if (reporter->gathered_count++ == 0)
            reporter->gathered_since = now;
        if (reporter->gathered_count == KVR_REPORT_EVENTS_MAX)
            seal(reporter);
        room = &reporter->gathered[reporter->gathered_count];
    }
    if (reporter->gathered_count > 0 &&
        (now_or_never || now - reporter->gathered_since >= BATCH_NS))
        seal(reporter);
}

static bool front(struct kvr_reporter *reporter, struct kvr_spool_record *ret_record)
{
    if (reporter->spool != NULL && kvr_spool_front(reporter->spool, ret_record))
        return true;
    if (reporter->oldest == NULL)
        return false;
    *ret_record = reporter->oldest->record;
    return true;
}

static void drop_front(struct kvr_reporter *reporter)
{
    struct kvr_spool_record record;

    if (reporter->spool != NULL && kvr_spool_front(reporter->spool, &record))
        kvr_spool_drop(reporter->spool);
    else if (reporter->oldest != NULL)
        batch_free(take_oldest(reporter));
}

/* ---- reporter thread: posting ---- */

/* What is added behind a stored report: what has changed since. Facts belong to this boot only. */
static kvr_status encode_envelope(struct kvr_reporter *reporter, bool leaving, uint8_t **ret_bytes,
                                  size_t *ret_size)
{
    struct kvr_report envelope = {.boot = reporter->options.boot,
                                  .dropped = reporter->dropped,
                                  .anchor_at = kvr_clock_now(),
                                  .anchor_wall = kvr_clock_wall(),
                                  .leaving = leaving};
    kvr_status status;

    memcpy(envelope.agent, reporter->agent, sizeof(envelope.agent));
    pthread_mutex_lock(&reporter->facts_lock);
    /* The facts are the sign of life, and it is the agent's loop that must live. */
    envelope.facts =
        reporter->facts_given && (reporter->alive || leaving) ? &reporter->facts : NULL;
    reporter->alive = false;
    reporter->facts_posted = reporter->facts_version;
    status = kvr_report_encode(&envelope, ret_bytes, ret_size);
    pthread_mutex_unlock(&reporter->facts_lock);
    return status;
}

static bool read_front(struct kvr_reporter *reporter, const struct kvr_spool_record *record,
                       uint8_t *report)
{
    struct kvr_spool_record spooled;

    if (reporter->spool != NULL && kvr_spool_front(reporter->spool, &spooled))
        return kvr_spool_read(reporter->spool, record, report);
    memcpy(report, reporter->oldest->report, record->bytes);
    return true;
}

/* The body of the next post: the oldest batch if there is one, and the envelope where it fits. */
static bool make_body(struct kvr_reporter *reporter, bool leaving, size_t *ret_bytes)
{
    struct kvr_spool_record record = {0};
    uint8_t *envelope = NULL;
    size_t envelope_bytes = 0;
    bool made = true;

    (void)front(reporter, &record);
    if (record.event_count == 0 || record.boot == reporter->options.boot)
        made = encode_envelope(reporter, leaving, &envelope, &envelope_bytes) == KVR_OK;
    if (made && record.bytes + envelope_bytes > KVR_REPORT_BYTES_MAX)
        envelope_bytes = 0;
    reporter->body = made ? malloc(record.bytes + envelope_bytes + 1) : NULL;
    made = reporter->body != NULL;
    if (made && record.event_count > 0 && !read_front(reporter, &record, reporter->body)) {
        reporter->dropped += record.event_count; /* the disk does not give it back */
        drop_front(reporter);
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

static void start_post(struct kvr_reporter *reporter, kvr_ns now, bool leaving)
{
    size_t bytes;

    if (!make_body(reporter, leaving, &bytes)) {
        reporter->retry_at = now + RETRY_FIRST_NS;
        return;
    }
    reporter->leaving_posted = leaving;
    reporter->answer_bytes = 0;
    reporter->last_post = now;
    reporter->posts++;
    curl_easy_setopt(reporter->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)bytes);
    curl_easy_setopt(reporter->easy, CURLOPT_POSTFIELDS, reporter->body);
    reporter->posting = curl_multi_add_handle(reporter->multi, reporter->easy) == CURLM_OK;
    if (!reporter->posting) {
        free(reporter->body);
        reporter->body = NULL;
        reporter->retry_at = now + RETRY_FIRST_NS;
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

    while (front(reporter, &record) && record.boot == reporter->posted.boot &&
           record.sequence_first + record.event_count - 1 <= upto) {
        reporter->acknowledged += record.event_count;
        drop_front(reporter);
    }
}

/* The scheduler will never take it: posting it again would hold up all that follows. */
static void give_up_posted(struct kvr_reporter *reporter, long code)
{
    struct kvr_spool_record record;

    kvr_log_debug("the scheduler refused a report for good (%ld): %.*s", code,
                  (int)reporter->answer_bytes, (const char *)reporter->answer);
    if (reporter->posted.event_count == 0 || !front(reporter, &record) ||
        record.boot != reporter->posted.boot ||
        record.sequence_first != reporter->posted.sequence_first)
        return;
    reporter->dropped += record.event_count;
    drop_front(reporter);
}

static void post_failed(struct kvr_reporter *reporter, kvr_ns now)
{
    reporter->posts_failed++;
    reporter->connected = false;
    reporter->facts_posted = 0;
    reporter->retry_ns = reporter->retry_ns == 0 ? RETRY_FIRST_NS : reporter->retry_ns * 2;
    if (reporter->retry_ns > RETRY_LAST_NS)
        reporter->retry_ns = RETRY_LAST_NS;
    reporter->retry_at = now + reporter->retry_ns;
}

static void finish_post(struct kvr_reporter *reporter, CURLcode result, kvr_ns now)
{
    struct kvr_report_answer answer;
    long code = 0;

    curl_easy_getinfo(reporter->easy, CURLINFO_RESPONSE_CODE, &code);
    curl_multi_remove_handle(reporter->multi, reporter->easy);
    free(reporter->body);
    reporter->body = NULL;
    reporter->posting = false;
    if (result == CURLE_OK && code == 200 &&
        kvr_report_answer_decode(reporter->answer, reporter->answer_bytes, &answer) == KVR_OK) {
        reporter->connected = true;
        reporter->retry_ns = 0;
        if (reporter->posted.event_count > 0)
            acknowledge(reporter, answer.acknowledged);
        return;
    }
    if (result == CURLE_OK && (code == 400 || code == 409 || code == 413))
        give_up_posted(reporter, code);
    post_failed(reporter, now);
}

static void drive_curl(struct kvr_reporter *reporter, kvr_ns now)
{
    CURLMsg *message;
    int running, left;

    curl_multi_perform(reporter->multi, &running);
    while ((message = curl_multi_info_read(reporter->multi, &left)) != NULL)
        if (message->msg == CURLMSG_DONE)
            finish_post(reporter, message->data.result, now);
}

/* ---- reporter thread: when ---- */

static kvr_ns later(kvr_ns a, kvr_ns b)
{
    return a > b ? a : b;
}

static kvr_ns sooner(kvr_ns a, kvr_ns b)
{
    return a < b ? a : b;
}

/* When the next post is due. */
static kvr_ns post_due(struct kvr_reporter *reporter)
{
    struct kvr_spool_record record;
    kvr_ns due = reporter->last_post + HEARTBEAT_NS;

    pthread_mutex_lock(&reporter->facts_lock);
    if (reporter->facts_version != reporter->facts_posted)
        due = reporter->last_post + FACTS_NS;
    else if (!reporter->alive)
        due = KVR_NEVER;
    pthread_mutex_unlock(&reporter->facts_lock);
    if (front(reporter, &record))
        due = 0;
    return reporter->posting ? KVR_NEVER : later(due, reporter->retry_at);
}

static void rest(struct kvr_reporter *reporter, kvr_ns now)
{
    struct curl_waitfd wakeup = {.fd = reporter->wake_fd, .events = CURL_WAIT_POLLIN};
    kvr_ns until = sooner(post_due(reporter), now + HEARTBEAT_NS);
    uint64_t count;

    if (reporter->gathered_count > 0) /* more events need not wake: this batch looks for them */
        until = sooner(until, reporter->gathered_since + BATCH_NS);
    else
        atomic_store(&reporter->asleep, true);
    atomic_thread_fence(memory_order_seq_cst);
    if (until <= now || (reporter->gathered_count == 0 && kvr_ring_count(&reporter->ring) > 0) ||
        atomic_load(&reporter->stopping))
        until = now;
    curl_multi_poll(reporter->multi, &wakeup, 1, (int)((until - now + KVR_MS - 1) / KVR_MS), NULL);
    atomic_store(&reporter->asleep, false);
    if (wakeup.revents != 0)
        (void)!read(reporter->wake_fd, &count, sizeof(count));
}

/* Hands over what is left, as long as the scheduler answers. */
static void say_goodbye(struct kvr_reporter *reporter)
{
    kvr_ns now = kvr_clock_now(), deadline = now + reporter->options.close_ms * KVR_MS;
    uint64_t failed_before = reporter->posts_failed;
    struct kvr_spool_record record;
    bool more = true;

    gather(reporter, now, true);
    while (more && now < deadline && reporter->posts_failed == failed_before) {
        bool empty = !front(reporter, &record);

        if (!reporter->posting && empty && reporter->leaving_posted)
            break;
        if (!reporter->posting)
            start_post(reporter, now, empty);
        more = reporter->posting;
        drive_curl(reporter, now);
        if (reporter->posting)
            curl_multi_poll(reporter->multi, NULL, 0, 20, NULL);
        now = kvr_clock_now();
    }
    if (reporter->spool != NULL)
        spill(reporter, 0);
}

static void *reporter_main(void *self)
{
    struct kvr_reporter *reporter = self;

    while (!atomic_load(&reporter->stopping)) {
        kvr_ns now = kvr_clock_now();

        gather(reporter, now, false);
        if (post_due(reporter) <= now)
            start_post(reporter, now, false);
        drive_curl(reporter, now);
        rest(reporter, kvr_clock_now());
    }
    say_goodbye(reporter);
    return NULL;
}

/* ---- opening and closing ---- */

static kvr_status open_curl(struct kvr_reporter *reporter, struct kvr_error *error)
{
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK ||
        (reporter->multi = curl_multi_init()) == NULL ||
        (reporter->easy = curl_easy_init()) == NULL)
        return kvr_error_set(error, KVR_SYSTEM, "reporter", "libcurl does not start");
    reporter->headers = curl_slist_append(NULL, "Content-Type: application/x-protobuf");
    reporter->headers = curl_slist_append(reporter->headers, "Expect:");
    curl_easy_setopt(reporter->easy, CURLOPT_URL, reporter->url);
    curl_easy_setopt(reporter->easy, CURLOPT_PROTOCOLS_STR, "http");
    curl_easy_setopt(reporter->easy, CURLOPT_PROXY, "");
    curl_easy_setopt(reporter->easy, CURLOPT_POST, 1L);
    curl_easy_setopt(reporter->easy, CURLOPT_HTTPHEADER, reporter->headers);
    curl_easy_setopt(reporter->easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(reporter->easy, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(reporter->easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
    curl_easy_setopt(reporter->easy, CURLOPT_TIMEOUT_MS, POST_MS);
    curl_easy_setopt(reporter->easy, CURLOPT_WRITEFUNCTION, keep_answer);
    curl_easy_setopt(reporter->easy, CURLOPT_WRITEDATA, reporter);
    return KVR_OK;
}

static kvr_status check_options(struct kvr_reporter *reporter, struct kvr_error *error)
{
    const struct kvr_reporter_options *options = &reporter->options;
    char printed[KVR_ADDRESS_TEXT_BYTES];
    struct kvr_address address;
    kvr_status status;

    if (options->agent == NULL || options->agent[0] == '\0' ||
        strlen(options->agent) >= sizeof(reporter->agent))
        return kvr_error_set(error, KVR_INVALID, "reporter",
                             "an agent's name has 1 to %zu characters",
                             sizeof(reporter->agent) - 1);
    strcpy(reporter->agent, options->agent);
    if (options->scheduler == NULL) {
        reporter->counting_only = true;
        return KVR_OK;
    }
    status = kvr_address_parse(options->scheduler, -1, error, &address);
    if (status != KVR_OK)
        return status;
    snprintf(reporter->url, sizeof(reporter->url), "http://%s/ingest/v1/events",
             kvr_address_print(&address, printed));
    return KVR_OK;
}

static void fill_defaults(struct kvr_reporter_options *options)
{
    if (options->memory_bytes_max == 0)
        options->memory_bytes_max = (size_t)4 << 20;
    if (options->spool_bytes_max == 0)
        options->spool_bytes_max = (size_t)256 << 20;
    if (options->close_ms == 0)
        options->close_ms = 2000;
}

/* Signals are for the agent's own threads. */
static int start_thread(struct kvr_reporter *reporter)
{
    sigset_t all, before;
    int failed;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    failed = pthread_create(&reporter->thread, NULL, reporter_main, reporter);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed == 0)
        (void)pthread_setname_np(reporter->thread, "kvr-reporter");
    return failed;
}

static kvr_status start(struct kvr_reporter *reporter, struct kvr_error *error)
{
    const struct kvr_reporter_options *options = &reporter->options;
    kvr_status status = open_curl(reporter, error);
    int failed;

    if (status == KVR_OK && options->state_dir != NULL)
        status =
            kvr_spool_open(options->state_dir, options->spool_bytes_max, &reporter->spool, error);
    if (status == KVR_OK)
        status = kvr_ring_init(&reporter->ring, NULL, RING_EVENTS, sizeof(struct kvr_event));
    reporter->gathered = calloc(KVR_REPORT_EVENTS_MAX + 1, sizeof(struct kvr_event));
    if (status == KVR_NO_MEMORY || (status == KVR_OK && reporter->gathered == NULL))
        return kvr_error_set(error, KVR_NO_MEMORY, "reporter", "no memory for the reporter");
    if (status != KVR_OK)
        return status;
    reporter->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (reporter->wake_fd < 0)
        return kvr_error_system(error, "reporter", errno, "no descriptor for the reporter");
    failed = start_thread(reporter);
    if (failed != 0)
        return kvr_error_system(error, "reporter", failed, "no thread for the reporter");
    return KVR_OK;
}

static void release(struct kvr_reporter *reporter)
{
    while (reporter->oldest != NULL)
        batch_free(take_oldest(reporter));
    if (reporter->posting)
        curl_multi_remove_handle(reporter->multi, reporter->easy);
    curl_easy_cleanup(reporter->easy);
    if (reporter->multi != NULL)
        curl_multi_cleanup(reporter->multi);
    curl_slist_free_all(reporter->headers);
    free(reporter->body);
    kvr_spool_close(reporter->spool);
    kvr_ring_done(&reporter->ring);
    free(reporter->gathered);
    if (reporter->wake_fd >= 0)
        close(reporter->wake_fd);
    pthread_mutex_destroy(&reporter->facts_lock);
    free(reporter);
}

kvr_status kvr_reporter_open(const struct kvr_reporter_options *options,
                             struct kvr_reporter **ret_reporter, struct kvr_error *error)
{
    struct kvr_reporter *reporter = calloc(1, sizeof(*reporter));
    kvr_status status;

    if (reporter == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "reporter", "no memory for the reporter");
    reporter->options = *options;
    reporter->wake_fd = -1;
    reporter->sequence_next = 1;
    pthread_mutex_init(&reporter->facts_lock, NULL);
    fill_defaults(&reporter->options);
    status = check_options(reporter, error);
    if (status == KVR_OK && !reporter->counting_only)
        status = start(reporter, error);
    if (status != KVR_OK) {
        release(reporter);
        return status;
    }
    *ret_reporter = reporter;
    return KVR_OK;
}

struct kvr_reporter *kvr_reporter_close(struct kvr_reporter *reporter)
{
    if (reporter == NULL)
        return NULL;
    if (!reporter->counting_only) {
        atomic_store(&reporter->stopping, true);
        atomic_store(&reporter->asleep, true);
        wake(reporter);
        pthread_join(reporter->thread, NULL);
    }
    release(reporter);
    return NULL;
}
