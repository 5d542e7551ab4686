#include "scheduler/apply.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/log.h"
#include "scheduler/expect.h"
#include "scheduler/fault_watch.h"
#include "scheduler/known.h"
#include "scheduler/news.h"
#include "scheduler/rollups.h"
#include "scheduler/store_engines.h"
#include "scheduler/store_marks.h"

#define EVENT_NUMBER_MAX  (UINT64_C(1) << 48) /* nine years of a million events a second */
#define LIVE_OF_AGENT_MAX 16384 /* an agent has at most KVR_TRANSFERS_MAX, on either side */

struct apply {
    struct store *store;
    struct fleet *fleet;
    struct known known;
    struct expect expect;
    struct rollups *rollups;
    struct fault_watch *faults;
    bool counted; /* this transaction is committed */
    uint64_t events, contradictions;
};

struct apply *apply_open(struct store *store, struct fleet *fleet)
{
    struct apply *apply = calloc(1, sizeof(*apply));

    if (apply == NULL)
        return NULL;
    apply->store = apply->known.store = store;
    apply->fleet = fleet;
    apply->rollups = rollups_open(store);
    apply->faults = fault_watch_open(store);
    return apply->rollups != NULL && apply->faults != NULL ? apply : apply_close(apply);
}

struct apply *apply_close(struct apply *apply)
{
    if (apply != NULL) {
        known_forget(&apply->known);
        expect_done(&apply->expect);
        rollups_close(apply->rollups);
        fault_watch_close(apply->faults);
    }
    free(apply);
    return NULL;
}

void apply_reset(struct apply *apply)
{
    known_end(&apply->known, apply->counted);
    if (!apply->counted) {
        rollups_forget(apply->rollups);
        fault_watch_forget(apply->faults, NULL);
    }
    apply->counted = false;
    apply->events = apply->contradictions = 0;
}

void apply_forget_ended(struct apply *apply)
{
    known_forget_ended(&apply->known);
}

bool apply_begin(struct apply *apply)
{
    if (!store_begin(apply->store))
        return false;
    if (store_others_wrote(apply->store)) {
        known_forget(&apply->known);
        rollups_forget_rows(apply->rollups);
    }
    return true;
}

bool apply_expect(struct apply *apply, const struct kvr_report *const reports[], size_t count)
{
    return expect_reports(&apply->expect, &apply->known, reports, count);
}

void apply_hear(struct apply *apply, const struct kvr_report *report, int64_t now_ns)
{
    fault_watch_forget(apply->faults, report != NULL ? report->agent : NULL);
    if (report != NULL)
        rollups_hear_report(apply->rollups, report, now_ns);
    else
        rollups_forget(apply->rollups);
}

struct fault_watch *apply_faults(struct apply *apply)
{
    return apply->faults;
}

static kvr_status database_failed(struct apply *apply, struct kvr_error *error)
{
    return kvr_error_set(error, KVR_SYSTEM, "ingest", "the database refused: %s",
                         store_problem(apply->store));
}

static bool take_opening(struct apply *apply, struct known_transfer *known,
                         const struct kvr_report *report, const struct kvr_event *event)
{
    struct known_transfer *opening;

    if (known->transfer.sides[event->role].boot != 0 || event->kind == KVR_EVENT_OPENED)
        return true;
    opening = known_touch(&apply->known, transfer_opening_id(report->agent, report->boot, event));
    if (opening == NULL)
        return false;
    if (!transfer_take_opening(&known->transfer, event->role, &opening->transfer))
        return true;
    opening->remove = true;
    return known_join(&apply->known, known, opening);
}

static uint64_t transfer_of(const struct kvr_report *report, const struct kvr_event *event)
{
    return event->transfer != 0 ? event->transfer
                                : transfer_opening_id(report->agent, report->boot, event);
}

static kvr_status apply_event(struct apply *apply, const struct kvr_report *report, uint32_t index,
                              int64_t now_ns, struct kvr_error *error)
{
    const struct kvr_event *event = &report->events[index];
    int64_t at_ns = (int64_t)kvr_report_wall(report, event->at);
    struct known_transfer *known;
    struct reported *reported;

    if (at_ns <= 0) /* no time that a clock could show: before 1970, or after 2262 */
        at_ns = now_ns;
    if (event->kind == KVR_EVENT_KIND_END)
        return KVR_OK; /* a kind of a newer agent: only its number counts */
    known = known_touch(&apply->known, transfer_of(report, event));
    if (known == NULL || (event->transfer != 0 && !take_opening(apply, known, report, event)))
        return database_failed(apply, error);
    known->remove = false;
    transfer_merge(&known->transfer, report->agent, report->boot, event, at_ns);
    known->transfer.updated_ns = now_ns;
    reported = known_reported(known, report);
    if (reported == NULL || !known_keep_records(reported, event) ||
        !event_pack_add(&reported->pack, event, report->sequence_first + index, at_ns))
        return kvr_error_set(error, KVR_NO_MEMORY, "ingest", "no memory for events");
    return KVR_OK;
}

/* No agent can have numbered its events so. */
static kvr_status check_numbers(const struct kvr_report *report, uint64_t last,
                                struct kvr_error *error)
{
    if (report->event_count > 0 && last > EVENT_NUMBER_MAX)
        return kvr_error_set(error, KVR_REFUSED, "ingest",
                             "event %" PRIu64 " of %s: no agent makes so many in its life", last,
                             report->agent);
    if (report->event_count > 0 && report->sequence_made != 0 && last > report->sequence_made)
        return kvr_error_set(error, KVR_REFUSED, "ingest",
                             "event %" PRIu64 " of %s, in a report that says it made %" PRIu64,
                             last, report->agent, report->sequence_made);
    return KVR_OK;
}

/* The network was late with a report that its agent has sent again since: its last event is here,
 * under its number. No other program can have put it there before, because ids of transfers are
 * random. */
static bool is_late(struct apply *apply, const struct kvr_report *report, bool *ret_late)
{
    uint32_t last = report->event_count;

    *ret_late = false;
    while (last > 0 && report->events[last - 1].kind == KVR_EVENT_KIND_END)
        last--; /* it is not kept */
    if (last == 0)
        return true;
    return known_flush(&apply->known) &&
           store_has_event(apply->store, transfer_of(report, &report->events[last - 1]),
                           report->agent, report->boot, report->sequence_first + last - 1,
                           &report->events[last - 1], ret_late);
}

/* Up to which number the events of this boot are here. What the agent has not made cannot be here:
 * another program reported in its name, and its own events count from where they are. */
static bool position_of(struct apply *apply, const struct kvr_report *report, uint64_t *ret_known)
{
    bool late;

    if (!store_position(apply->store, report->agent, report->boot, ret_known))
        return false;
    if (report->sequence_made == 0 || *ret_known <= report->sequence_made ||
        report->event_count == 0)
        return true;
    if (!is_late(apply, report, &late))
        return false;
    if (late)
        return true;
    kvr_log_warning("events up to %" PRIu64 " of %s are here, and it has made %" PRIu64
                    ": another program reported in its name; its own events are taken again",
                    *ret_known, report->agent, report->sequence_made);
    apply->contradictions++;
    *ret_known = report->sequence_first - 1;
    return true;
}

static kvr_status apply_events(struct apply *apply, const struct kvr_report *report, int64_t now_ns,
                               uint64_t *ret_acknowledged, struct kvr_error *error)
{
    uint64_t last = report->sequence_first + report->event_count - 1, known;
    uint32_t index = 0;
    kvr_status status = check_numbers(report, last, error);

    if (status != KVR_OK)
        return status;
    if (!position_of(apply, report, &known))
        return database_failed(apply, error);
    *ret_acknowledged = known;
    if (report->event_count == 0 || last <= known)
        return KVR_OK;
    if (report->sequence_first > known + 1 && report->sequence_held <= known + 1)
        return kvr_error_set(error, KVR_STALE, "ingest",
                             "event %llu of %s comes before %llu, which was not sent yet",
                             (unsigned long long)report->sequence_first, report->agent,
                             (unsigned long long)known + 1);
    if (known >= report->sequence_first)
        index = (uint32_t)(known + 1 - report->sequence_first);
    apply->events += report->event_count - index;
    for (; index < report->event_count && status == KVR_OK; index++)
        status = apply_event(apply, report, index, now_ns, error);
    if (status != KVR_OK)
        return status;
    if (!store_set_position(apply->store, report->agent, report->boot, last, now_ns))
        return database_failed(apply, error);
    *ret_acknowledged = last;
    return KVR_OK;
}

static bool is_alive(const struct fleet_boots *alive, uint64_t boot)
{
    for (int i = 0; alive != NULL && i < alive->count; i++)
        if (alive->boots[i] == boot)
            return true;
    return false;
}

kvr_status apply_agent_gone(struct apply *apply, const char *agent, const struct fleet_boots *alive,
                            const char *detail, struct kvr_error *error)
{
    uint64_t *ids = malloc(LIVE_OF_AGENT_MAX * sizeof(ids[0]));
    size_t count = 0;
    kvr_status status = KVR_OK;

    if (ids == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "ingest", "no memory for a list of transfers");
    if (!known_flush(&apply->known) ||
        !store_live_of_agent(apply->store, agent, ids, LIVE_OF_AGENT_MAX, &count))
        status = database_failed(apply, error);
    for (size_t i = 0; i < count && status == KVR_OK; i++) {
        struct known_transfer *known = known_touch(&apply->known, ids[i]);

        if (known == NULL)
            status = database_failed(apply, error);
        for (int role = 0; role < 2 && known != NULL; role++) {
            const struct transfer_side *side = &known->transfer.sides[role];

            if (strcmp(side->agent, agent) == 0 && side->boot != 0 && !is_alive(alive, side->boot))
                transfer_lose(&known->transfer, (kvr_role)role, detail);
        }
    }
    free(ids);
    return status;
}

/* Before the agent's row changes. */
static kvr_status mark(struct apply *apply, const struct kvr_report *report, bool restarted,
                       int64_t now_ns, struct kvr_error *error)
{
    struct kvr_agent_facts *before = calloc(1, sizeof(*before));
    struct mark marks[MARK_KIND_END];
    bool known, stored;
    uint32_t count;

    if (before == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "ingest", "no memory for marks");
    stored = store_agent_before(apply->store, report->agent, before, &known);
    count = marks_of(known ? before : NULL, restarted, report, marks);
    for (uint32_t i = 0; i < count && stored; i++)
        stored = store_add_mark(apply->store, report->agent, report->boot, &marks[i], now_ns);
    free(before);
    return stored ? KVR_OK : database_failed(apply, error);
}

static bool see_engines(struct apply *apply, const struct kvr_report *report, int64_t now_ns)
{
    uint32_t count = report->facts->engine_count + report->facts->gone_count;
    bool stored = true;

    if (!fleet_engines_differ(apply->fleet, report, now_ns))
        return true;
    for (uint32_t i = 0; i < count && stored; i++)
        stored = store_see_engine(apply->store, report->agent, &report->facts->engines[i], now_ns);
    return stored;
}

static kvr_status apply_facts(struct apply *apply, const struct kvr_report *report,
                              const struct fleet_boots *alive, int64_t now_ns,
                              struct kvr_error *error)
{
    uint64_t boot_before;
    struct agent_row row;
    bool others;

    if (!fleet_differs(apply->fleet, report, now_ns))
        return KVR_OK;
    boot_before = fleet_row(apply->fleet, report, now_ns, &row);
    if (boot_before != report->boot || report->leaving)
        KVR_TRY(mark(apply, report, boot_before != report->boot, now_ns, error));
    if (!store_put_agent(apply->store, &row, report->facts) || !see_engines(apply, report, now_ns))
        return database_failed(apply, error);
    if (boot_before == report->boot)
        return KVR_OK; /* else its spool may still hold events */
    if (!store_other_boots(apply->store, report->agent, report->boot, &others))
        return database_failed(apply, error);
    if (!others)
        return KVR_OK; /* no transfer can be of an earlier start: a fleet's first hour is cheap */
    return apply_agent_gone(apply, report->agent, alive, APPLY_RESTARTED, error);
}

kvr_status apply_report(struct apply *apply, const struct kvr_report *report, int64_t now_ns,
                        uint64_t *ret_acknowledged, struct kvr_error *error)
{
    struct fleet_boots alive;
    kvr_status status;

    if (report->facts != NULL && !fleet_boots_alive(apply->fleet, report, kvr_clock_now(), &alive))
        return kvr_error_set(error, KVR_AGAIN, "ingest",
                             "%d other programs report as %s: give each agent a --name of its own",
                             FLEET_BOOTS_MAX, report->agent);
    status = apply_events(apply, report, now_ns, ret_acknowledged, error);
    if (status == KVR_OK && report->facts != NULL)
        status = apply_facts(apply, report, &alive, now_ns, error);
    if (status == KVR_OK && fleet_lost_ends(apply->fleet, report))
        status = apply_agent_gone(apply, report->agent, NULL,
                                  "its agent dropped the event that said how this ended", error);
    if (status == KVR_OK && report->orders_taken != 0 &&
        !store_take_orders(apply->store, report->agent, report->boot, report->orders_taken))
        status = database_failed(apply, error);
    if (status == KVR_OK && !(news_add_report(apply->store, report) &&
                              rollups_take_report(apply->rollups, report, now_ns)))
        status = database_failed(apply, error);
    if (status == KVR_OK && report->facts != NULL &&
        !fault_watch_report(apply->faults, report, &alive, now_ns))
        status = database_failed(apply, error);
    return status;
}

static bool has_ended(transfer_state state)
{
    return state != STATE_END && !transfer_state_live(state);
}

/* Of each transfer that was touched, what has ended in this transaction. */
static bool roll_up(struct apply *apply, int64_t now_ns)
{
    bool taken = true;

    for (struct known_transfer *known = apply->known.touched; known != NULL && taken;
         known = known->next) {
        const struct transfer *transfer = &known->transfer;
        struct rollup_news news = {.ended = has_ended(transfer->state) &&
                                            !has_ended(known->state_before)};

        for (int role = 0; role < 2; role++)
            news.side_ended[role] = transfer->sides[role].ended && !known->ended_before[role];
        if (!known->remove && transfer->updated_ns != 0 &&
            (news.ended || news.side_ended[0] || news.side_ended[1]))
            taken = rollups_take_transfer(apply->rollups, transfer, &news, now_ns);
    }
    return taken;
}

static struct metrics_move move_of(const struct known_transfer *known)
{
    bool exists = !known->remove && known->transfer.updated_ns != 0;

    return (struct metrics_move){.from = known->state_before,
                                 .to = exists ? known->transfer.state : STATE_END,
                                 .held_before = known->held_before,
                                 .held = exists && transfer_held(&known->transfer),
                                 .reason = known->transfer.reason};
}

static bool tell(struct apply *apply)
{
    bool told = true;

    for (struct known_transfer *known = apply->known.touched; known != NULL && told;
         known = known->next) {
        const struct metrics_move move = move_of(known);

        if (move.from != STATE_END || move.to != STATE_END)
            told = news_add_move(apply->store, known->id, &move);
    }
    return told;
}

bool apply_has_changes(const struct apply *apply)
{
    return apply->known.touched != NULL || rollups_changed(apply->rollups) ||
           store_has_written(apply->store);
}

kvr_status apply_flush(struct apply *apply, int64_t now_ns, struct kvr_error *error)
{
    bool stored = known_flush(&apply->known) && tell(apply) && roll_up(apply, now_ns) &&
                  rollups_flush(apply->rollups);

    return stored ? KVR_OK : database_failed(apply, error);
}

kvr_status apply_sum_up(struct apply *apply, int64_t now_ns, bool *ret_more,
                        struct kvr_error *error)
{
    bool more_faults = false, more_engines = false;
    bool done =
        rollups_sum_up(apply->rollups, now_ns, ret_more) &&
        store_end_faults_gone(apply->store, now_ns) &&
        store_prune_marks(apply->store, now_ns - MARKS_KEPT_NS) &&
        store_prune_faults(apply->store, now_ns - FAULTS_KEPT_NS, FAULTS_KEPT_MAX, &more_faults) &&
        store_bound_engines(apply->store, ENGINES_KEPT_MAX, &more_engines);

    *ret_more |= more_faults || more_engines;
    return done ? KVR_OK : database_failed(apply, error);
}

void apply_count(struct apply *apply, struct metrics *metrics, struct changes *changes,
                 int64_t now_ns)
{
    for (struct known_transfer *known = apply->known.touched; known != NULL; known = known->next) {
        const struct transfer *transfer = &known->transfer;
        const struct metrics_move move = move_of(known);
        bool exists = move.to != STATE_END;

        metrics_moved(metrics, &move);
        for (int role = 0; role < 2 && exists; role++)
            if (transfer->sides[role].ended && !known->ended_before[role])
                metrics_ended(metrics, transfer, (kvr_role)role, now_ns);
        if (changes != NULL && (exists || move.from != STATE_END))
            changes_put(changes, transfer, !exists);
    }
    apply->counted = true;
    if (apply->events > 0)
        metrics_events(metrics, apply->events, now_ns);
    metrics_contradicted(metrics, apply->contradictions);
}
