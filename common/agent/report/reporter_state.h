/* Shared by the files of the reporter, reporter*.c; no other file may include it. */
#ifndef KVR_AGENT_REPORTER_STATE_H
#define KVR_AGENT_REPORTER_STATE_H

#include <curl/curl.h>
#include <pthread.h>
#include <stdatomic.h>

#include "agent/report/reporter.h"
#include "agent/report/spool.h"
#include "base/ring.h"
#include "base/url.h"

#define BATCH_NS     (200 * KVR_MS)          /* an event waits this long for others */
#define ANSWER_BYTES KVR_REPORT_ANSWER_BYTES /* what is kept of it */
#define PACKED_BYTES_MAX                                                                           \
    (2u << 20) /* spans and page tables of a batch: a report has room for these and its events */
#define REPORT_PATH "/ingest/v1/events"
#define URL_BYTES   (KVR_URL_BYTES + sizeof(REPORT_PATH))

/* A batch in memory, encoded. */
struct batch {
    struct batch *next;
    struct kvr_spool_record record;
    uint8_t *report;
};

struct kvr_reporter {
    struct kvr_reporter_options options;
    char agent[KVR_NAME_BYTES];
    char urls[KVR_SCHEDULERS_MAX][URL_BYTES];
    char names[KVR_SCHEDULERS_MAX][KVR_ADDRESS_TEXT_BYTES]; /* of the same: "HOST:PORT" */
    struct kvr_tls_config tls;
    bool counting_only;

    /* loop thread → reporter thread */
    struct kvr_ring ring;       /* of events; the spans and page tables of each are its own */
    _Atomic size_t ring_packed; /* bytes of those */
    _Atomic bool asleep, stopping;
    int wake_fd;
    pthread_mutex_t facts_lock;
    struct kvr_agent_facts facts; /* by facts_lock, as the next three */
    bool facts_given, alive;      /* alive: the loop gave facts since the last post */
    uint64_t facts_version;
    struct kvr_report_pairs
        pairs; /* that the scheduler has not taken; by facts_lock, as the next */
    uint64_t pairs_version;
    struct kvr_spool_loss lost; /* since the start; by facts_lock, too */
    struct kvr_reporter_failure {
        kvr_ns since;
        uint32_t from; /* which scheduler */
        char text[KVR_DETAIL_BYTES];
    } failure,  /* the last one; by facts_lock, as the next two */
        parted; /* of the scheduler that the last change left */
    uint64_t scheduler_changes;

    /* reporter thread → loop thread; by orders_lock, but for the count */
    pthread_mutex_t orders_lock;
    struct kvr_order orders[KVR_ORDERS_MAX];
    _Atomic uint32_t order_count;  /* that the loop has not taken */
    _Atomic uint64_t orders_taken; /* the last number it took, until a post has said so; 0 */

    /* for kvr_reporter_stats */
    _Atomic uint64_t emitted, acknowledged, dropped, unrecorded, posts, posts_failed,
        answers_refused;
    _Atomic uint32_t scheduler; /* that took the last report */
    _Atomic bool connected;

    /* the reporter thread's own */
    pthread_t thread;
    struct kvr_event *gathered;
    uint32_t gathered_count;
    size_t gathered_packed; /* bytes */
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
    uint64_t impossible;            /* what the last answer acknowledged and cannot have; 0 */
    uint64_t facts_posted, orders_posted;
    uint64_t pairs_posted; /* 0: none are in this post */
    struct schedulers schedulers;
    struct kvr_reporter_failure kept_failure; /* the last one of `scheduler` */
    kvr_ns last_post, retry_at;
    bool leaving_posted;
    char problem[CURL_ERROR_SIZE]; /* of the last post, in libcurl's words */
    uint8_t answer[ANSWER_BYTES];
    size_t answer_bytes;
};

/* An event was taken out of the ring. Returns how many bytes of spans and page tables it has. */
size_t reporter_event_popped(struct kvr_reporter *reporter, const struct kvr_event *event);
/* Frees the spans and page tables of an event that was in the ring. */
void reporter_event_done(const struct kvr_event *event);

/* reporter_backlog.c: what was not acknowledged yet, oldest first */
/* Takes events out of the ring; now_or_never: does not wait for more of them. */
void reporter_gather(struct kvr_reporter *reporter, kvr_ns now, bool now_or_never);
bool reporter_front(struct kvr_reporter *reporter, struct kvr_spool_record *ret_record);
bool reporter_read_front(struct kvr_reporter *reporter, const struct kvr_spool_record *record,
                         uint8_t *report);
void reporter_drop_front(struct kvr_reporter *reporter);
/* Memory past its bound goes to the spool, oldest first, so that the spool stays the older part. */
void reporter_spill(struct kvr_reporter *reporter, size_t memory_bytes_max);
/* Counts what the spool has lost. */
void reporter_look_for_losses(struct kvr_reporter *reporter);
void reporter_backlog_done(struct kvr_reporter *reporter);

/* reporter_post.c: one post at a time */
KVR_MUST_CHECK kvr_status reporter_post_open(struct kvr_reporter *reporter,
                                             struct kvr_error *error);
void reporter_post(struct kvr_reporter *reporter, kvr_ns now, bool leaving);
void reporter_post_drive(struct kvr_reporter *reporter, kvr_ns now);
void reporter_post_close(struct kvr_reporter *reporter);

#endif
