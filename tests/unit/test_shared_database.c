/* Goal: several schedulers of one database are as one: each shows all agents and all transfers, and
 * what one of them was asked for reaches an agent that reports to another.
 * Method: two schedulers in this process over a real server of PostgreSQL; reports go to one, and
 * the other is asked. */
#include "tests/support/check.h"

#include <stdio.h>
#include <unistd.h>

#include "scheduler/rollup_growth.h"
#include "scheduler/scheduler.h"
#include "scheduler/store_rollups.h"
#include "tests/support/store_case.h"

#define WITHIN (30 * KVR_S) /* on a machine with much else to do */

/* Another thread makes it so. */
static void wait_until(bool (*is_so)(void *self), void *self)
{
    kvr_ns until = kvr_clock_now() + WITHIN;

    while (!is_so(self)) {
        if (kvr_clock_now() > until)
            fail_msg("it did not come");
        usleep(2000);
    }
}

struct pair {
    struct fixture *fixture;
    struct scheduler both[2];
};

static void open_one(struct pair *pair, int which)
{
    const struct scheduler_options options = {
        .place = pair->fixture->place, .listen = {.host = "127.0.0.1"}, .connections_max = 64};
    struct kvr_error error;

    pair->both[which] = (struct scheduler){0};
    if (scheduler_open(&options, &pair->both[which], &error) != KVR_OK)
        fail_msg("%s", error.detail);
}

static int setup(void **state)
{
    struct pair *pair = calloc(1, sizeof(*pair));
    void *fixture;

    store_setup(&fixture);
    pair->fixture = fixture;
    open_one(pair, 0);
    open_one(pair, 1);
    *state = pair;
    return 0;
}

static int teardown(void **state)
{
    struct pair *pair = *state;
    void *fixture = pair->fixture;

    for (int i = 0; i < 2; i++)
        if (pair->both[i].http != NULL)
            scheduler_close(&pair->both[i]);
    store_teardown(&fixture);
    free(pair);
    return 0;
}

/* ---- reports ---- */

struct answer {
    _Atomic bool come;
    kvr_status status;
    struct kvr_report_answer answer;
};

static void answered(void *self, kvr_status status, const struct kvr_report_answer *answer,
                     const char *detail)
{
    struct answer *kept = self;

    (void)detail;
    kept->status = status;
    kept->answer = *answer;
    kept->come = true;
}

static bool has_come(void *self)
{
    return ((struct answer *)self)->come;
}

/* The report of an agent, sent to that scheduler, and its answer. */
static struct kvr_report_answer report_to(struct pair *pair, int which,
                                          const struct kvr_report *report)
{
    struct answer answer = {0};
    struct kvr_report *decoded;
    uint8_t *bytes;
    size_t size;

    assert_int_equal(kvr_report_encode(report, &bytes, &size), KVR_OK);
    assert_int_equal(kvr_report_decode(bytes, size, &decoded, NULL), KVR_OK);
    assert_int_equal(ingest_submit(pair->both[which].ingest, decoded,
                                   (struct ingest_body){bytes, size}, answered, &answer),
                     KVR_OK);
    wait_until(has_come, &answer);
    free(bytes);
    assert_int_equal(answer.status, KVR_OK);
    return answer.answer;
}

static struct kvr_report_answer event_to(struct pair *pair, int which, const char *agent,
                                         uint64_t sequence, kvr_event_kind kind, uint64_t transfer)
{
    static struct kvr_agent_facts facts;
    kvr_role role = strcmp(agent, "prefill-0") == 0 ? KVR_ROLE_SOURCE : KVR_ROLE_TARGET;
    struct kvr_event event = event_of(kind, role, transfer, sequence);
    struct kvr_report report = report_of(agent, sequence, &event, 1);

    facts.role = role;
    strcpy(facts.host, "host-0");
    strcpy(facts.version, "1");
    facts.transfers_live = (uint32_t)sequence;
    report.facts = &facts;
    report.sequence_held = 1;
    return report_to(pair, which, &report);
}

/* ---- what a scheduler shows ---- */

struct shown {
    struct scheduler *scheduler;
    uint64_t live, done, sequence;
};

static void keep_agent(void *self, const struct agent_view *agent)
{
    struct shown *shown = self;

    if (agent->state == AGENT_UP)
        shown->sequence = agent->facts->transfers_live;
}

static struct shown look(struct scheduler *scheduler)
{
    struct metrics_summary *summary = calloc(1, sizeof(*summary));
    struct shown shown = {.scheduler = scheduler};

    metrics_summarise(scheduler->metrics, WALL, summary);
    shown.live = summary->states[STATE_MATCHED];
    shown.done = summary->states[STATE_DONE];
    free(summary);
    fleet_each(scheduler->fleet, kvr_clock_now(), keep_agent, &shown);
    return shown;
}

static bool shows(void *self)
{
    const struct shown *wanted = self;
    struct shown shown = look(wanted->scheduler);

    return shown.live == wanted->live && shown.done == wanted->done &&
           shown.sequence == wanted->sequence;
}

static void must_show(struct pair *pair, uint64_t live, uint64_t done, uint64_t sequence)
{
    for (int i = 0; i < 2; i++) {
        struct shown wanted = {&pair->both[i], live, done, sequence};

        wait_until(shows, &wanted);
    }
}

static void each_shows_all(void **state)
{
    struct pair *pair = *state;

    (void)event_to(pair, 0, "decode-0", 1, KVR_EVENT_MATCHED, 1);
    (void)event_to(pair, 0, "decode-0", 2, KVR_EVENT_MATCHED, 2);
    must_show(pair, 2, 0, 2);
    (void)event_to(pair, 1, "decode-0", 3, KVR_EVENT_ENDED, 1);
    must_show(pair, 1, 1, 3);
    (void)event_to(pair, 0, "decode-0", 4, KVR_EVENT_ENDED, 2);
    must_show(pair, 0, 2, 4);
}

/* A scheduler that starts later knows the same, and one that ends takes nothing along. */
static void a_later_scheduler_joins(void **state)
{
    struct pair *pair = *state;

    scheduler_close(&pair->both[1]);
    pair->both[1].http = NULL;
    (void)event_to(pair, 0, "decode-0", 1, KVR_EVENT_MATCHED, 1);
    (void)event_to(pair, 0, "decode-0", 2, KVR_EVENT_ENDED, 1);
    open_one(pair, 1);
    (void)event_to(pair, 0, "decode-0", 3, KVR_EVENT_MATCHED, 2);
    must_show(pair, 1, 1, 3);
    scheduler_close(&pair->both[0]);
    pair->both[0].http = NULL;
    (void)event_to(pair, 1, "decode-0", 4, KVR_EVENT_ENDED, 2);
    open_one(pair, 0);
    (void)event_to(pair, 1, "decode-0", 5, KVR_EVENT_MATCHED, 3);
    must_show(pair, 1, 2, 5);
}

struct taken {
    struct changes *changes;
    struct changes_taken last;
    uint32_t seen; /* transfers, a bit each */
};

/* The counts are known a moment before the change is. */
static bool has_five(void *self)
{
    struct taken *taken = self;

    changes_take(taken->changes, &taken->last);
    for (uint32_t i = 0; i < taken->last.count; i++)
        taken->seen |= 1u << taken->last.list[i].transfer.id;
    return taken->seen == 0x3e;
}

/* The database's clock and its commits make the ids that viewers come back with. */
static void viewers_hear_of_all(void **state)
{
    struct taken *taken = calloc(1, sizeof(*taken));
    struct pair *pair = *state;
    int64_t until = 0;

    for (int i = 0; i < 2; i++)
        changes_want(pair->both[i].changes, true);
    for (uint64_t sequence = 1; sequence <= 5; sequence++) {
        (void)event_to(pair, sequence % 2, "decode-0", sequence, KVR_EVENT_MATCHED, sequence);
        must_show(pair, sequence, 0, sequence);
    }
    for (int i = 0; i < 2; i++) {
        *taken = (struct taken){.changes = pair->both[i].changes};
        wait_until(has_five, taken);
        assert_false(taken->last.list[0].removed);
        assert_string_equal(taken->last.list[0].transfer.request, "request-1");
        assert_true(changes_until(pair->both[i].changes) >
                    (int64_t)(kvr_clock_wall() - 60 * KVR_S));
        until = changes_until(pair->both[i].changes);
    }
    assert_true(until > 0);
    free(taken);
}

/* As after it was held up for so long that others' news went by. */
static void viewers_are_told_what_went_by(void **state)
{
    struct pair *pair = *state;
    struct changes *changes = pair->both[0].changes;

    (void)event_to(pair, 0, "decode-0", 1, KVR_EVENT_MATCHED, 1);
    assert_false(changes_were_lost(changes));
    store_execute(pair->fixture, "DELETE FROM kvrail.schedulers");
    (void)event_to(pair, 0, "decode-0", 2, KVR_EVENT_MATCHED, 2);
    assert_true(changes_were_lost(changes));
    assert_false(changes_were_lost(changes));
}

/* ---- sums ---- */

static void report_bytes(struct pair *pair, int which, const char *agent, uint64_t bytes)
{
    static struct kvr_agent_facts facts;
    struct kvr_report report = report_of(agent, 0, NULL, 0);

    strcpy(facts.host, "host-0");
    strcpy(facts.version, "1");
    facts.rail_count = 1;
    strcpy(facts.rails[0].name, "rail-0");
    facts.rails[0].bytes = bytes;
    report.facts = &facts;
    (void)report_to(pair, which, &report);
}

static void add_bytes(void *self, const struct store_rollup *rollup)
{
    struct rollup_unpack unpack = rollup->amounts;
    uint64_t amounts[ROLLUP_AMOUNT_END];

    while (rollup_next_amounts(&unpack, amounts) == KVR_OK)
        *(uint64_t *)self += amounts[ROLLUP_BYTES];
}

static uint64_t bytes_of(struct pair *pair, const char *agent)
{
    int64_t now = (int64_t)(kvr_clock_wall() / KVR_S);
    struct rollup_window window = {
        .kind = ROLLUP_RAIL, .part = agent, .from = now - 60, .until = now + 5};
    uint64_t bytes = 0;

    assert_true(store_read_rollups(pair->fixture->store, &window, add_bytes, &bytes));
    return bytes;
}

/* The growth of an agent's counters is counted once, whichever scheduler takes its reports, and
 * whichever commits between them. */
static void growth_is_counted_once(void **state)
{
    struct pair *pair = *state;
    kvr_ns begin = kvr_clock_now();

    for (uint64_t bytes = 0; bytes <= 300; bytes += 100)
        for (int which = 0; which < 2; which++)
            report_bytes(pair, which, which == 0 ? "decode-0" : "prefill-0", 1000 + bytes);
    report_bytes(pair, 1, "decode-0", 1400); /* it changes to the other, and back */
    report_bytes(pair, 1, "decode-0", 1500);
    report_bytes(pair, 0, "decode-0", 1600);
    if (kvr_clock_now() - begin > ROLLUP_RAILS_SILENT_NS)
        skip(); /* on a machine with much else to do, what a pause may leave out */
    assert_int_equal(bytes_of(pair, "prefill-0"), 300);
    assert_int_equal(bytes_of(pair, "decode-0"), 600);
}

/* ---- orders ---- */

static void an_order_reaches_an_agent_of_the_other(void **state)
{
    struct pair *pair = *state;
    struct order order = {.kind = KVR_ORDER_CANCEL, .transfer = 1};
    struct answer answer = {0};
    struct kvr_report_answer got;

    (void)event_to(pair, 0, "decode-0", 1, KVR_EVENT_MATCHED, 1);
    assert_int_equal(ingest_order(pair->both[1].ingest, &order, answered, &answer), KVR_OK);
    wait_until(has_come, &answer);
    assert_int_equal(answer.status, KVR_OK);
    got = event_to(pair, 0, "decode-0", 2, KVR_EVENT_MATCHED, 2);
    assert_int_equal(got.order_count, 1);
    assert_int_equal(got.orders[0].kind, KVR_ORDER_CANCEL);
    got = event_to(pair, 1, "decode-0", 3, KVR_EVENT_ENDED, 1); /* the transfer took it along */
    assert_int_equal(got.order_count, 0);
}

#define WITH_PAIR(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_PAIR(each_shows_all),         WITH_PAIR(a_later_scheduler_joins),
        WITH_PAIR(viewers_hear_of_all),    WITH_PAIR(viewers_are_told_what_went_by),
        WITH_PAIR(growth_is_counted_once), WITH_PAIR(an_order_reaches_an_agent_of_the_other),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
