#include "agent/report/reporter.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "agent/report/reporter_state.h"
#include "base/thread.h"

#define RING_EVENTS 8192
#define RING_PACKED_BYTES_MAX                                                                      \
    (32u << 20) /* of spans and page tables in it; more tables are left out */
#define HEARTBEAT_NS (2 * KVR_S)
#define FACTS_NS     (1 * KVR_S) /* facts that changed are sent this often */

/* ---- loop thread ---- */

static void wake(struct kvr_reporter *reporter)
{
    uint64_t one = 1;

    if (atomic_exchange(&reporter->asleep, false))
        (void)!write(reporter->wake_fd, &one, sizeof(one));
}

/* Without memory there are none, and that is counted. */
static void keep(const uint8_t **packed, uint32_t *bytes, uint32_t *unrecorded)
{
    uint8_t *own = *bytes > 0 ? malloc(*bytes) : NULL;

    if (own != NULL)
        memcpy(own, *packed, *bytes);
    else if (*bytes > 0)
        ++*unrecorded;
    *packed = own;
    *bytes = own != NULL ? *bytes : 0;
}

/* The event as it waits in the ring: its spans and page tables are its own then. */
static struct kvr_event kept(const struct kvr_event *event, size_t ring_packed)
{
    struct kvr_event own = *event;

    if (own.pages_bytes > 0 && ring_packed + own.pages_bytes > RING_PACKED_BYTES_MAX) {
        own.pages_bytes = 0;
        own.unrecorded++;
    }
    keep(&own.spans, &own.spans_bytes, &own.unrecorded);
    keep(&own.pages, &own.pages_bytes, &own.unrecorded);
    return own;
}

static size_t packed_bytes(const struct kvr_event *event)
{
    return (size_t)event->spans_bytes + event->pages_bytes;
}

size_t reporter_event_popped(struct kvr_reporter *reporter, const struct kvr_event *event)
{
    size_t bytes = packed_bytes(event);

    atomic_fetch_sub_explicit(&reporter->ring_packed, bytes, memory_order_relaxed);
    return bytes;
}

void reporter_event_done(const struct kvr_event *event)
{
    free((void *)(uintptr_t)event->spans);
    free((void *)(uintptr_t)event->pages);
}

static void sink_emit(void *self, const struct kvr_event *event)
{
    struct kvr_reporter *reporter = self;
    struct kvr_event own;

    atomic_fetch_add_explicit(&reporter->emitted, 1, memory_order_relaxed);
    if (reporter->counting_only)
        return;
    own = kept(event, atomic_load_explicit(&reporter->ring_packed, memory_order_relaxed));
    atomic_fetch_add_explicit(&reporter->ring_packed, packed_bytes(&own), memory_order_relaxed);
    if (!kvr_ring_push(&reporter->ring, &own)) {
        atomic_fetch_add_explicit(&reporter->dropped, 1, memory_order_relaxed);
        (void)reporter_event_popped(reporter, &own);
        reporter_event_done(&own);
    }
    if (own.unrecorded > 0)
        atomic_fetch_add_explicit(&reporter->unrecorded, own.unrecorded, memory_order_relaxed);
    /* The reporter says `asleep` and then looks at the ring; here it is the other way round. */
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&reporter->asleep, memory_order_relaxed))
        wake(reporter);
}

struct kvr_event_sink kvr_reporter_sink(struct kvr_reporter *reporter)
{
    return (struct kvr_event_sink){.self = reporter, .emit = sink_emit};
}

/* Its engines' pages wait for targets: an order may let go of them. */
static bool holds(const struct kvr_reporter *reporter)
{
    return reporter->facts_given && reporter->facts.role == KVR_ROLE_SOURCE &&
           reporter->facts.transfers_live > 0;
}

void kvr_reporter_facts(struct kvr_reporter *reporter, const struct kvr_agent_facts *facts)
{
    bool held_before, held;

    if (reporter->counting_only)
        return;
    pthread_mutex_lock(&reporter->facts_lock);
    reporter->alive = true;
    held_before = holds(reporter);
    if (!reporter->facts_given || memcmp(&reporter->facts, facts, sizeof(*facts)) != 0) {
        reporter->facts = *facts;
        reporter->facts_given = true;
        reporter->facts_version++;
    }
    held = holds(reporter);
    pthread_mutex_unlock(&reporter->facts_lock);
    if (held && !held_before)
        wake(reporter); /* it rests for a heartbeat */
}

/* A peer's later rows replace its earlier ones at the scheduler. What the scheduler did not take
 * for long is forgotten: it comes again. */
void kvr_reporter_pairs(struct kvr_reporter *reporter, const struct kvr_report_pairs *pairs)
{
    struct kvr_report_pairs *to = &reporter->pairs;

    if (reporter->counting_only)
        return;
    pthread_mutex_lock(&reporter->facts_lock);
    if (pairs->peer_count > KVR_REPORT_PEERS_MAX - to->peer_count ||
        pairs->pair_count > KVR_REPORT_PAIRS_MAX - to->pair_count)
        to->peer_count = to->pair_count = 0;
    for (uint32_t i = 0; i < pairs->peer_count; i++) {
        to->peers[to->peer_count + i] = pairs->peers[i];
        to->peers[to->peer_count + i].pair_first += to->pair_count;
    }
    memcpy(&to->pairs[to->pair_count], pairs->pairs, pairs->pair_count * sizeof(pairs->pairs[0]));
    to->peer_count += pairs->peer_count;
    to->pair_count += pairs->pair_count;
    reporter->pairs_version++;
    pthread_mutex_unlock(&reporter->facts_lock);
}

uint32_t kvr_reporter_orders(struct kvr_reporter *reporter, struct kvr_order orders[KVR_ORDERS_MAX])
{
    uint32_t count;

    if (atomic_load(&reporter->order_count) == 0)
        return 0;
    pthread_mutex_lock(&reporter->orders_lock);
    count = reporter->order_count;
    memcpy(orders, reporter->orders, count * sizeof(orders[0]));
    reporter->order_count = 0;
    if (count > 0)
        reporter->orders_taken = orders[count - 1].number;
    pthread_mutex_unlock(&reporter->orders_lock);
    return count;
}

void kvr_reporter_stats(struct kvr_reporter *reporter, struct kvr_reporter_stats *ret_stats)
{
    *ret_stats = (struct kvr_reporter_stats){.emitted = reporter->emitted,
                                             .acknowledged = reporter->acknowledged,
                                             .dropped = reporter->dropped,
                                             .unrecorded = reporter->unrecorded,
                                             .posts = reporter->posts,
                                             .posts_failed = reporter->posts_failed,
                                             .answers_refused = reporter->answers_refused,
                                             .connected = reporter->connected};
    if (!reporter->counting_only)
        ret_stats->scheduler = reporter->names[reporter->scheduler];
    pthread_mutex_lock(&reporter->facts_lock);
    ret_stats->scheduler_changes = reporter->scheduler_changes;
    if (reporter->scheduler_changes > 0)
        ret_stats->scheduler_left = reporter->names[reporter->parted.from];
    memcpy(ret_stats->left_for, reporter->parted.text, sizeof(ret_stats->left_for));
    ret_stats->spool_lost = reporter->lost.events;
    memcpy(ret_stats->spool_lost_file, reporter->lost.file, sizeof(ret_stats->spool_lost_file));
    ret_stats->failing_since = reporter->failure.since;
    ret_stats->failure_from = reporter->names[reporter->failure.from];
    memcpy(ret_stats->failure, reporter->failure.text, sizeof(ret_stats->failure));
    pthread_mutex_unlock(&reporter->facts_lock);
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
    if (reporter->facts_version != reporter->facts_posted || holds(reporter) ||
        (reporter->pairs.peer_count > 0 && reporter->alive))
        due = reporter->last_post + FACTS_NS;
    else if (!reporter->alive)
        due = KVR_NEVER;
    pthread_mutex_unlock(&reporter->facts_lock);
    if (reporter_front(reporter, &record))
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

/* Hands over what is left, as long as a scheduler answers. */
static void say_goodbye(struct kvr_reporter *reporter)
{
    kvr_ns now = kvr_clock_now(), deadline = now + reporter->options.close_ms * KVR_MS;
    uint64_t failed_before = reporter->posts_failed;
    struct kvr_spool_record record;
    bool more = true;

    reporter_gather(reporter, now, true);
    while (more && now < deadline &&
           reporter->posts_failed - failed_before < reporter->schedulers.count) {
        bool empty = !reporter_front(reporter, &record);

        if (!reporter->posting && empty && reporter->leaving_posted)
            break;
        if (!reporter->posting)
            reporter_post(reporter, now, empty);
        more = reporter->posting;
        reporter_post_drive(reporter, now);
        if (reporter->posting)
            curl_multi_poll(reporter->multi, NULL, 0, 20, NULL);
        now = kvr_clock_now();
    }
    if (reporter->spool != NULL)
        reporter_spill(reporter, 0);
}

static void *reporter_main(void *self)
{
    struct kvr_reporter *reporter = self;

    while (!atomic_load(&reporter->stopping)) {
        kvr_ns now = kvr_clock_now();

        reporter_gather(reporter, now, false);
        if (post_due(reporter) <= now)
            reporter_post(reporter, now, false);
        reporter_post_drive(reporter, now);
        reporter_look_for_losses(reporter);
        rest(reporter, kvr_clock_now());
    }
    say_goodbye(reporter);
    return NULL;
}

/* ---- opening and closing ---- */

static kvr_status check_options(struct kvr_reporter *reporter, struct kvr_error *error)
{
    const struct kvr_reporter_options *options = &reporter->options;
    uint32_t *count = &reporter->schedulers.count;
    char url[KVR_URL_BYTES];

    if (options->agent == NULL || options->agent[0] == '\0' ||
        strlen(options->agent) >= sizeof(reporter->agent))
        return kvr_error_set(error, KVR_INVALID, "reporter",
                             "an agent's name has 1 to %zu characters",
                             sizeof(reporter->agent) - 1);
    strcpy(reporter->agent, options->agent);
    if (options->tls != NULL)
        reporter->tls = *options->tls;
    for (; *count < KVR_SCHEDULERS_MAX && options->schedulers[*count] != NULL; ++*count) {
        KVR_TRY(kvr_url_parse(options->schedulers[*count], -1, kvr_tls_given(&reporter->tls), url,
                              error));
        snprintf(reporter->urls[*count], sizeof(reporter->urls[0]), "%s" REPORT_PATH, url);
        snprintf(reporter->names[*count], sizeof(reporter->names[0]), "%s",
                 url + kvr_url_scheme(url));
    }
    reporter->counting_only = *count == 0;
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

static kvr_status start(struct kvr_reporter *reporter, struct kvr_error *error)
{
    const struct kvr_reporter_options *options = &reporter->options;
    kvr_status status = reporter_post_open(reporter, error);
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
    failed = kvr_thread_start("kvr-reporter", reporter_main, reporter, &reporter->thread);
    if (failed != 0)
        return kvr_error_system(error, "reporter", failed, "no thread for the reporter");
    return KVR_OK;
}

static void release(struct kvr_reporter *reporter)
{
    reporter_post_close(reporter);
    reporter_backlog_done(reporter);
    kvr_spool_close(reporter->spool);
    kvr_ring_done(&reporter->ring);
    free(reporter->gathered);
    if (reporter->wake_fd >= 0)
        close(reporter->wake_fd);
    pthread_mutex_destroy(&reporter->facts_lock);
    pthread_mutex_destroy(&reporter->orders_lock);
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
    pthread_mutex_init(&reporter->orders_lock, NULL);
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
