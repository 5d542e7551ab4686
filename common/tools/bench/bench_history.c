#include "tools/bench/bench_history.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "scheduler/event_pack.h"
#include "scheduler/rollups.h"
#include "scheduler/store_rollups.h"
#include "scheduler/store_sqlite.h"

#define LOST_OF     200                     /* one transfer of so many */
#define ARRIVES_NS  (200 * (int64_t)KVR_MS) /* an event comes so long after it happened */
#define INDEXES_MAX 32
#define SQL_BYTES   512

struct bench_fleet bench_history_fleet(uint64_t seed, uint32_t agents, uint64_t transfers,
                                       kvr_ns span, kvr_ns wall_now)
{
    return (struct bench_fleet){
        .seed = seed,
        .boot = kvr_min_u64(seed, INT64_MAX) + 1,
        .pairs = agents / 2,
        .transfers = transfers,
        .transfers_per_s = (double)transfers / ((double)span / (double)KVR_S),
        .start = wall_now - span,
    };
}

/* ---- one transfer ---- */

/* How many steps of it have come. */
static uint32_t steps_of(const struct bench_fleet *fleet, const struct bench_transfer *transfer,
                         bool *ret_lost)
{
    bool live = transfer->number + 2 * BENCH_HISTORY_LIVE >= fleet->transfers &&
                (transfer->mix >> 60) % 2 == 0;

    *ret_lost = !live && transfer->mix / 7 % LOST_OF == 0;
    if (!live && !*ret_lost)
        return BENCH_FLEET_EVENTS;
    return 1 + (uint32_t)(transfer->mix >> 32) % (BENCH_FLEET_EVENTS - 2);
}

/* Of one agent, as one row: an agent reports a transfer in one or two of its reports. */
struct side {
    char agent[KVR_NAME_BYTES];
    struct event_pack pack;
};

static bool add_step(const struct bench_fleet *fleet, const struct bench_transfer *made,
                     uint32_t step, struct side sides[2], struct transfer *transfer)
{
    struct kvr_event event;
    struct side *side;
    int64_t at_ns;

    bench_fleet_event(fleet, made, step, &event);
    side = &sides[event.role];
    bench_fleet_name(fleet, event.role == KVR_ROLE_SOURCE ? made->source : made->target,
                     side->agent);
    at_ns = (int64_t)event.at;
    transfer->id = event.transfer != 0 ? event.transfer
                                       : transfer_opening_id(side->agent, fleet->boot, &event);
    transfer->updated_ns = at_ns + ARRIVES_NS;
    transfer_merge(transfer, side->agent, fleet->boot, &event, at_ns);
    return event_pack_add(&side->pack, &event, made->number * BENCH_FLEET_EVENTS + step, at_ns);
}

static bool roll_up(struct rollups *rollups, const struct transfer *transfer, int64_t at_s)
{
    const struct rollup_news news = {
        .ended = true, .side_ended = {transfer->sides[0].ended, transfer->sides[1].ended}};

    return transfer_state_live(transfer->state) ||
           rollups_take_transfer(rollups, transfer, &news, at_s * (int64_t)KVR_S);
}

/* counted_s: the second that has its sums. */
static bool add_transfer(const struct bench_fleet *fleet, const struct bench_transfer *made,
                         int64_t counted_s, struct store *store, struct rollups *rollups)
{
    struct side sides[2] = {0};
    struct transfer transfer = {0};
    bool lost, stored = true;
    uint32_t steps = steps_of(fleet, made, &lost);

    for (uint32_t step = 0; step < steps && stored; step++)
        stored = add_step(fleet, made, step, sides, &transfer);
    for (int role = 0; role < 2; role++) {
        if (lost)
            transfer_lose(&transfer, (kvr_role)role,
                          "its agent fell silent before it said how this ended");
        if (stored && sides[role].pack.count > 0)
            stored = store_add_events(store, &transfer,
                                      &(struct event_row){
                                          .agent = sides[role].agent,
                                          .boot = fleet->boot,
                                          .arrived_ns = transfer.updated_ns,
                                          .records = sides[role].pack.bytes,
                                          .bytes = sides[role].pack.count,
                                      });
        event_pack_free(&sides[role].pack);
    }
    return stored && store_put_transfer(store, &transfer) && roll_up(rollups, &transfer, counted_s);
}

/* ---- the rest ---- */

static bool add_agents(const struct bench_fleet *fleet, int64_t now_ns, struct store *store)
{
    struct kvr_agent_facts *facts = malloc(sizeof(*facts));
    bool stored = facts != NULL;

    for (uint32_t i = 0; i < bench_fleet_agents(fleet) && stored; i++) {
        struct agent_row row = {.boot = fleet->boot, .seen_ns = now_ns};

        bench_fleet_name(fleet, i, row.name);
        bench_fleet_facts(fleet, i, (kvr_ns)now_ns, facts);
        stored = store_put_agent(store, &row, facts) &&
                 store_set_position(store, row.name, fleet->boot, 1, now_ns);
    }
    free(facts);
    return stored;
}

static bool add_audit(const struct bench_fleet *fleet, int64_t now_ns, struct store *store)
{
    int64_t step = (now_ns - (int64_t)fleet->start) / BENCH_HISTORY_AUDIT;
    bool stored = true;

    for (uint64_t i = 0; i < BENCH_HISTORY_AUDIT && stored; i++) {
        struct bench_transfer about = bench_fleet_transfer(fleet, i % fleet->transfers);
        struct audit_entry entry = {.action = "abandon", .actor = "router", .outcome = "done"};

        strcpy(entry.from, "10.0.0.1");
        bench_fleet_request(&about, entry.object);
        stored = store_add_audit(store, &entry, (int64_t)fleet->start + (int64_t)i * step);
    }
    return stored;
}

/* ---- indexes: made after the rows, in one go ---- */

struct indexes {
    int count;
    char names[INDEXES_MAX][KVR_NAME_BYTES], sqls[INDEXES_MAX][SQL_BYTES];
};

static int keep_index(void *self, int columns, char **values, char **names)
{
    struct indexes *indexes = self;

    (void)columns;
    (void)names;
    if (indexes->count < INDEXES_MAX) {
        snprintf(indexes->names[indexes->count], KVR_NAME_BYTES, "%s", values[0]);
        snprintf(indexes->sqls[indexes->count++], SQL_BYTES, "%s", values[1]);
    }
    return 0;
}

static bool drop_indexes(sqlite3 *database, struct indexes *indexes)
{
    char sql[KVR_NAME_BYTES + 16];
    bool done = sqlite3_exec(database,
                             "SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND "
                             "sql IS NOT NULL AND tbl_name = 'transfers'",
                             keep_index, indexes, NULL) == SQLITE_OK;

    for (int i = 0; i < indexes->count && done; i++) {
        snprintf(sql, sizeof(sql), "DROP INDEX %s", indexes->names[i]);
        done = sqlite3_exec(database, sql, NULL, NULL, NULL) == SQLITE_OK;
    }
    return done;
}

static bool make_indexes(sqlite3 *database, const struct indexes *indexes)
{
    bool done = true;

    for (int i = 0; i < indexes->count && done; i++)
        done = sqlite3_exec(database, indexes->sqls[i], NULL, NULL, NULL) == SQLITE_OK;
    return done;
}

/* ---- sums over time ---- */

#define REPORTING_MAX 32 /* agents */
#define PEERS_MAX     8  /* of one of them */
#define MINUTE        60

/* The way through the seconds, from the first one on. */
struct passing {
    const struct bench_fleet *fleet;
    struct rollups *rollups;
    int64_t at_s, now_s;
    int64_t fine_s; /* from here on the database keeps sums of seconds; it begins a minute */
};

static struct passing passing_from(const struct bench_fleet *fleet, struct rollups *rollups,
                                   int64_t now_s)
{
    int64_t fine_s = now_s - rollup_steps[0].kept_seconds;

    return (struct passing){.fleet = fleet,
                            .rollups = rollups,
                            .at_s = (int64_t)(fleet->start / KVR_S),
                            .now_s = now_s,
                            .fine_s = fine_s - fine_s % MINUTE};
}

/* Before `fine_s` a minute is counted as its first second: longer sums are the same, and there are
 * a sixtieth of the rows to write, which the scheduler would have removed by now. */
static int64_t counted_at(const struct passing *passing, int64_t at_s)
{
    return at_s < passing->fine_s ? at_s - at_s % MINUTE : at_s;
}

/* Until that second all is counted; then the next one begins. */
static bool end_second(const struct passing *passing, int64_t at_s)
{
    bool last = at_s % MINUTE == MINUTE - 1, more = last, stored = true;

    if (last || at_s >= passing->fine_s)
        stored = rollups_flush(passing->rollups);
    while (more && stored)
        stored = rollups_sum_up(passing->rollups, at_s * (int64_t)KVR_S, &more);
    return stored;
}

/* Of the rails, the last hour. Each agent has rows of its own, and the questions are about one of
 * them. */
static bool add_reports(const struct passing *passing, int64_t at_ns)
{
    const struct bench_fleet *fleet = passing->fleet;
    struct kvr_agent_facts *facts = malloc(sizeof(*facts));
    struct kvr_report_pairs *pairs = malloc(sizeof(*pairs));
    bool taken = facts != NULL && pairs != NULL;

    for (uint32_t i = 0; i < bench_fleet_agents(fleet) && i < REPORTING_MAX && taken; i++) {
        struct kvr_report report = {.boot = fleet->boot, .facts = facts};

        bench_fleet_name(fleet, i, report.agent);
        bench_fleet_facts(fleet, i, (kvr_ns)at_ns, facts);
        bench_fleet_pairs(fleet, i, 0, fleet->pairs < PEERS_MAX ? fleet->pairs : PEERS_MAX, pairs);
        for (uint32_t k = 0; k < pairs->pair_count; k++)
            pairs->pairs[k].bytes = (uint64_t)at_ns / 1000;
        report.pairs = bench_fleet_role(fleet, i) == KVR_ROLE_SOURCE ? pairs : NULL;
        taken = rollups_take_report(passing->rollups, &report, at_ns);
    }
    free(facts);
    free(pairs);
    return taken;
}

/* From one second to another; in most nothing is to be done. */
static bool pass_time(struct passing *passing, int64_t until_s)
{
    bool stored = true;

    for (; passing->at_s < until_s && stored; passing->at_s++) {
        if (passing->at_s > passing->now_s - 3600)
            stored = add_reports(passing, passing->at_s * (int64_t)KVR_S);
        stored = stored && end_second(passing, passing->at_s);
    }
    return stored;
}

/* As the writer counts it, at the second after it began: transfers come in the order of their
 * begins. */
static bool add_transfers(const struct bench_fleet *fleet, int64_t now_ns, struct store *store)
{
    struct rollups *rollups = rollups_open(store);
    struct passing passing = passing_from(fleet, rollups, now_ns / (int64_t)KVR_S);
    bool stored = rollups != NULL;

    for (uint64_t number = 0; number < fleet->transfers && stored; number++) {
        struct bench_transfer made = bench_fleet_transfer(fleet, number);
        int64_t at_s = (int64_t)(made.begin / KVR_S) + 1;

        stored = pass_time(&passing, at_s) &&
                 add_transfer(fleet, &made, counted_at(&passing, at_s), store, rollups);
    }
    stored = stored && pass_time(&passing, passing.now_s);
    rollups_close(rollups);
    return stored;
}

/* ---- all of it ---- */

static bool count_transfers(struct store *store, uint64_t *ret_count)
{
    uint64_t counts[STATE_END];
    bool counted = store_count_states(store, counts);

    *ret_count = 0;
    for (int state = 0; state < STATE_END && counted; state++)
        *ret_count += counts[state];
    return counted;
}

/* Without the care for a power cut: a database that was cut off is of no use anyway. Memory for
 * pages makes the indexes: they are sorted in pieces of that size. */
#define FILL_PRAGMAS                                                                               \
    "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -262144"

static bool fill(const struct bench_fleet *fleet, struct store *store, struct indexes *indexes)
{
    int64_t now_ns = (int64_t)kvr_clock_wall();
    sqlite3 *database = store_sqlite_database(store);
    bool stored = sqlite3_exec(database, FILL_PRAGMAS, NULL, NULL, NULL) == SQLITE_OK &&
                  drop_indexes(database, indexes) && store_begin(store) &&
                  add_agents(fleet, now_ns, store) && add_audit(fleet, now_ns, store);

    return stored && add_transfers(fleet, now_ns, store) && store_commit(store) &&
           make_indexes(database, indexes) &&
           sqlite3_exec(database, "PRAGMA journal_mode = WAL", NULL, NULL, NULL) == SQLITE_OK;
}

static kvr_status fill_empty(const struct bench_fleet *fleet, struct store *store,
                             struct kvr_error *error)
{
    struct indexes *indexes = calloc(1, sizeof(*indexes));
    bool filled = indexes != NULL && fill(fleet, store, indexes);

    free(indexes);
    if (filled)
        return KVR_OK;
    return kvr_error_set(error, KVR_SYSTEM, "bench", "the database cannot be filled: %s",
                         store_problem(store));
}

kvr_status bench_history_fill(const struct bench_fleet *fleet, const char *folder, bool *ret_filled,
                              struct kvr_error *error)
{
    struct store *store;
    uint64_t there = 0;
    kvr_status status = KVR_OK;

    KVR_TRY(store_open_writer(&(struct store_place){.folder = folder}, &store, error));
    if (!count_transfers(store, &there))
        status = kvr_error_set(error, KVR_SYSTEM, "bench", "the database cannot be read: %s",
                               store_problem(store));
    else if (there != 0 && there != fleet->transfers)
        status = kvr_error_set(error, KVR_INVALID, "bench",
                               "%s has a database with %" PRIu64 " transfers: give another folder, "
                               "or so many",
                               folder, there);
    *ret_filled = status == KVR_OK && there == 0;
    if (*ret_filled)
        status = fill_empty(fleet, store, error);
    store_close(store);
    return status;
}
