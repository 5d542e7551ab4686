/* Goal: a search of transfers finds what its filter asks for, all of it, each once, newest first,
 * and a page of it costs no more than its candidates.
 * Method: random transfers and random filters, page by page, against a loop over all transfers. */
#include "tests/support/check.h"

#include <stdio.h>

#include "base/rng.h"
#include "scheduler/store_sqlite.h"
#include "tests/support/store_case.h"

#define COUNT 400
#define MOST  5000 /* candidates of a page: SEARCH_MOST */

static const char *const tenants[] = {"red", "blue"};
static const char *const sources[] = {"prefill-0", "prefill-1", "both"};
static const char *const targets[] = {"decode-0", "decode-1", "both"};
static const struct kvr_uuid engines[] = {{{1}}, {{2}}, {{3}}};
static const kvr_status reasons[] = {KVR_PEER_LOST, KVR_EXPIRED};
static const int64_t durations[] = {-1,         0,           99999999,    100000000,   999999999,
                                    1000000000, 10000000000, 99999999999, 100000000000};
#define ANY_OF(array) (array)[kvr_rng_below(rng, sizeof(array) / sizeof((array)[0]))]

static void put(struct fixture *fixture, struct transfer *transfer)
{
    transfer->ordinal = 0;
    assert_true(store_put_transfer(fixture->store, transfer));
}

static void fill_side(struct kvr_rng *rng, struct transfer_side *side, const char *agent)
{
    int64_t duration = ANY_OF(durations);

    snprintf(side->agent, sizeof(side->agent), "%s", agent);
    side->boot = 1;
    side->rails = kvr_rng_below(rng, 16);
    side->path = (kvr_path)kvr_rng_below(rng, KVR_PATH_END);
    if (duration >= 0) {
        side->at_ns[STAGE_OPENED] = WALL;
        side->at_ns[STAGE_ENDED] = WALL + duration;
    }
}

static struct transfer random_transfer(struct kvr_rng *rng, uint64_t id)
{
    static const transfer_state states[] = {STATE_DONE, STATE_DONE, STATE_FAILED, STATE_OPENED,
                                            STATE_FIRST_POST};
    struct transfer transfer = {.id = id, .state = ANY_OF(states)};

    if (transfer.state == STATE_FAILED)
        transfer.reason = ANY_OF(reasons);
    snprintf(transfer.request, sizeof(transfer.request), "%s-%llu",
             kvr_rng_below(rng, 2) == 0 ? "chat" : "batch", (unsigned long long)id);
    snprintf(transfer.tenant, sizeof(transfer.tenant), "%s", ANY_OF(tenants));
    transfer.source_engine = ANY_OF(engines);
    transfer.target_engine = ANY_OF(engines);
    transfer.updated_ns = WALL + (int64_t)kvr_rng_below(rng, 50); /* many share one moment */
    fill_side(rng, &transfer.sides[KVR_ROLE_SOURCE], ANY_OF(sources));
    fill_side(rng, &transfer.sides[KVR_ROLE_TARGET], ANY_OF(targets));
    return transfer;
}

static struct transfer_filter random_filter(struct kvr_rng *rng)
{
    struct transfer_filter filter = {.limit = 1 + (uint32_t)kvr_rng_below(rng, 40)};
    uint64_t asked = kvr_rng_below(rng, 1 << 10);

    if ((asked & 1) != 0)
        filter.agent = kvr_rng_below(rng, 2) == 0 ? ANY_OF(sources) : ANY_OF(targets);
    if (filter.agent != NULL && (asked & 2) != 0) {
        filter.has_rail = true;
        filter.rail = (uint32_t)kvr_rng_below(rng, 5);
    }
    if ((asked & 4) != 0)
        filter.engine = &ANY_OF(engines);
    if ((asked & 8) != 0)
        filter.reason = kvr_status_name(ANY_OF(reasons));
    if ((asked & 16) != 0)
        filter.path = (kvr_path)(1 + kvr_rng_below(rng, KVR_PATH_END - 1));
    if ((asked & 32) != 0)
        filter.min_duration_ns = durations[1 + kvr_rng_below(rng, 8)];
    if ((asked & 64) != 0)
        filter.tenant = ANY_OF(tenants);
    if ((asked & 128) != 0)
        filter.request = kvr_rng_below(rng, 2) == 0 ? "chat-1" : "b";
    if ((asked & 256) != 0)
        filter.from_ns = WALL + (int64_t)kvr_rng_below(rng, 50);
    if ((asked & 512) != 0)
        filter.until_ns = WALL + (int64_t)kvr_rng_below(rng, 50);
    filter.kind = (transfer_filter_kind)kvr_rng_below(rng, FILTER_REQUEST);
    filter.state = kvr_rng_below(rng, 2) == 0 ? STATE_FAILED : STATE_FIRST_POST;
    return filter;
}

static bool carries(const struct transfer_filter *filter, const struct transfer_side *side)
{
    return strcmp(side->agent, filter->agent) == 0 &&
           (!filter->has_rail || (side->rails >> filter->rail & 1) != 0);
}

static bool of_state(const struct transfer_filter *filter, const struct transfer *transfer)
{
    if (filter->kind == FILTER_LIVE)
        return transfer_state_live(transfer->state);
    return filter->kind != FILTER_STATE || transfer->state == filter->state;
}

static bool matches(const struct transfer_filter *filter, const struct transfer *transfer)
{
    const struct transfer_side *sides = transfer->sides;

    return of_state(filter, transfer) &&
           (filter->agent == NULL || carries(filter, &sides[0]) || carries(filter, &sides[1])) &&
           (filter->engine == NULL || kvr_uuid_equal(filter->engine, &transfer->source_engine) ||
            kvr_uuid_equal(filter->engine, &transfer->target_engine)) &&
           (filter->reason == NULL ||
            strcmp(filter->reason, kvr_status_name(transfer->reason)) == 0) &&
           (filter->path == KVR_PATH_NONE || filter->path == transfer_path(transfer)) &&
           (filter->min_duration_ns == 0 ||
            (!transfer_state_live(transfer->state) &&
             transfer_duration_ns(transfer) >= filter->min_duration_ns)) &&
           (filter->tenant == NULL || strcmp(filter->tenant, transfer->tenant) == 0) &&
           (filter->request == NULL ||
            strncmp(filter->request, transfer->request, strlen(filter->request)) == 0) &&
           transfer->updated_ns >= filter->from_ns &&
           (filter->until_ns == 0 || transfer->updated_ns <= filter->until_ns);
}

/* Ids in the order in which they come. */
struct listed {
    uint64_t ids[COUNT];
    size_t count;
    bool too_many;
};

static void list_one(void *self, const struct transfer *transfer)
{
    struct listed *listed = self;

    listed->too_many |= listed->count == COUNT;
    if (!listed->too_many)
        listed->ids[listed->count++] = transfer->id;
}

static int newest_first(const void *a, const void *b)
{
    const struct transfer *x = a, *y = b;
    bool x_live = transfer_state_live(x->state), y_live = transfer_state_live(y->state);

    if (x_live != y_live)
        return x_live ? -1 : 1;
    if (!x_live && x->updated_ns != y->updated_ns)
        return x->updated_ns > y->updated_ns ? -1 : 1;
    return x->ordinal > y->ordinal ? -1 : 1;
}

/* All pages of it; returns how many there were. */
static int search_all(struct fixture *fixture, struct transfer_filter filter, struct listed *listed)
{
    struct transfer_found found;
    int pages = 0;

    do {
        size_t before = listed->count;

        if (!store_search_transfers(fixture->store, &filter, list_one, listed, &found))
            fail_msg("%s", store_problem(fixture->store));
        assert_true(listed->count - before <= filter.limit && !listed->too_many);
        assert_true(listed->count - before == filter.limit || found.next.ordinal == 0 ||
                    found.searched_ns != 0);
        filter.before = found.next.ordinal;
        filter.before_ns = found.next.updated_ns;
        assert_true(++pages <= 2 * COUNT);
    } while (found.next.ordinal != 0);
    return pages;
}

static void a_search_finds_what_a_loop_over_all_finds(void **state)
{
    static struct transfer transfers[COUNT];
    struct fixture *fixture = *state;
    struct kvr_rng storage, *rng = &storage;
    uint64_t all = 0;

    kvr_rng_init(rng, 16);
    assert_true(store_begin(fixture->store));
    for (uint64_t i = 0; i < COUNT; i++) {
        transfers[i] = random_transfer(rng, i + 1);
        put(fixture, &transfers[i]);
    }
    assert_true(store_commit(fixture->store));
    qsort(transfers, COUNT, sizeof(transfers[0]), newest_first);
    for (int round = 0; round < 600; round++) {
        struct transfer_filter filter = random_filter(rng);
        struct listed listed = {0};
        size_t at = 0;

        (void)search_all(fixture, filter, &listed);
        for (size_t i = 0; i < COUNT; i++) {
            if (!matches(&filter, &transfers[i]))
                continue;
            if (at == listed.count || listed.ids[at] != transfers[i].id)
                fail_msg("filter %d: transfer %llu is not at place %zu", round,
                         (unsigned long long)transfers[i].id, at);
            at++;
        }
        assert_int_equal(at, listed.count);
        all += at;
    }
    assert_true(all > 600);
}

/* ---- many ---- */

static int count_steps(void *self)
{
    ++*(uint64_t *)self;
    return 0;
}

/* Two and a half pages of candidates; only the first and the last transfer are blue, and the last
 * failed. */
static void put_many(struct fixture *fixture)
{
    struct transfer transfer = {.state = STATE_DONE};

    strcpy(transfer.sides[KVR_ROLE_SOURCE].agent, "prefill-0");
    strcpy(transfer.sides[KVR_ROLE_TARGET].agent, "decode-0");
    assert_true(store_begin(fixture->store));
    for (uint64_t id = 1; id <= MOST * 5 / 2; id++) {
        bool last = id == MOST * 5 / 2;

        transfer.id = id;
        transfer.updated_ns = WALL + (int64_t)(id / 100);
        transfer.state = last ? STATE_FAILED : STATE_DONE;
        transfer.reason = last ? KVR_RAIL_FAILED : KVR_OK;
        snprintf(transfer.request, sizeof(transfer.request), "chat-%llu", (unsigned long long)id);
        strcpy(transfer.tenant, id == 1 || last ? "blue" : "red");
        put(fixture, &transfer);
    }
    assert_true(store_commit(fixture->store));
}

/* It ends where its candidates end, says so, and the next one goes on. */
static void a_page_has_so_many_candidates_and_no_more(void **state)
{
    struct transfer_filter filter = {.agent = "prefill-0", .tenant = "blue", .limit = 50};
    struct fixture *fixture = *state;
    struct listed listed = {0};
    struct transfer_found found;
    uint64_t thousands = 0;

    SQLITE_ALONE();
    put_many(fixture);
    sqlite3_progress_handler(store_sqlite_database(fixture->store), 1000, count_steps, &thousands);
    assert_true(store_search_transfers(fixture->store, &filter, list_one, &listed, &found));
    sqlite3_progress_handler(store_sqlite_database(fixture->store), 0, NULL, NULL);
    if (thousands > 500)
        fail_msg("a page took %llu,000 steps of SQLite", (unsigned long long)thousands);
    assert_int_equal(listed.count, 1);
    assert_true(found.searched_ns == WALL + MOST * 3 / 2 / 100);
    listed.count = 0;
    assert_int_equal(search_all(fixture, filter, &listed), 3);
    assert_int_equal(listed.count, 2);
    assert_int_equal(listed.ids[0], MOST * 5 / 2);
    assert_int_equal(listed.ids[1], 1);
}

/* Of two filters the rare one leads. */
static void a_search_goes_over_the_index_that_comes_farthest(void **state)
{
    struct transfer_filter filter = {.agent = "prefill-0", .reason = "rail_failed", .limit = 50};
    struct fixture *fixture = *state;
    struct listed listed = {0};
    uint64_t thousands = 0;

    SQLITE_ALONE();
    put_many(fixture);
    sqlite3_progress_handler(store_sqlite_database(fixture->store), 1000, count_steps, &thousands);
    assert_int_equal(search_all(fixture, filter, &listed), 1);
    sqlite3_progress_handler(store_sqlite_database(fixture->store), 0, NULL, NULL);
    assert_int_equal(listed.count, 1);
    if (thousands > 200)
        fail_msg("the search took %llu,000 steps of SQLite", (unsigned long long)thousands);
}

/* By the agent's last report. */
static void rails_have_names(void **state)
{
    struct kvr_agent_facts *facts = calloc(1, sizeof(*facts));
    struct agent_row row = {.name = "prefill-0", .boot = 1};
    char names[KVR_RAILS_MAX][KVR_NAME_BYTES];
    struct fixture *fixture = *state;

    facts->rail_count = 2;
    strcpy(facts->rails[0].name, "mlx5_0");
    strcpy(facts->rails[1].name, "mlx5_1");
    assert_true(store_begin(fixture->store) && store_put_agent(fixture->store, &row, facts) &&
                store_commit(fixture->store));
    assert_true(store_rail_names(fixture->store, "prefill-0", names));
    assert_string_equal(names[1], "mlx5_1");
    assert_string_equal(names[2], "");
    assert_true(store_rail_names(fixture->store, "prefill-1", names));
    assert_string_equal(names[0], "");
    free(facts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_STORE(a_search_finds_what_a_loop_over_all_finds),
        WITH_STORE(a_page_has_so_many_candidates_and_no_more),
        WITH_STORE(a_search_goes_over_the_index_that_comes_farthest),
        WITH_STORE(rails_have_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
