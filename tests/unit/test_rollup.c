/* Goal: an ended transfer counts once in each place, its times fall into the right buckets, packed
 * cells are read as they were, and an agent's counters grow only by new bytes. */
#include "tests/support/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/rollup_growth.h"
#include "scheduler/rollup_pack.h"

#define MS (1000000 * (int64_t)1)

static struct transfer ended_transfer(kvr_status outcome)
{
    struct transfer transfer = {.state = outcome == KVR_OK ? STATE_DONE : STATE_FAILED,
                                .reason = outcome,
                                .tenant = "red",
                                .bytes = 4096,
                                .layers = 32,
                                .chunks = 64,
                                .retries = 2};

    strcpy(transfer.sides[KVR_ROLE_SOURCE].agent, "prefill-0");
    strcpy(transfer.sides[KVR_ROLE_TARGET].agent, "decode-0");
    transfer.source_engine.bytes[0] = 1;
    transfer.target_engine.bytes[0] = 2;
    for (int role = 0; role < 2; role++) {
        transfer.sides[role].ended = true;
        transfer.sides[role].outcome = outcome;
        for (int stage = 0; stage < STAGE_END; stage++)
            transfer.sides[role].at_ns[stage] = 1000 * MS + stage * MS;
    }
    return transfer;
}

static void a_transfer_has_its_places(void **state)
{
    struct transfer transfer = ended_transfer(KVR_OK);
    struct rollup_place places[ROLLUP_PLACES_MAX];
    int of[ROLLUP_KIND_END] = {0};

    (void)state;
    assert_int_equal(rollup_places_of(&transfer, places), 7);
    for (int i = 0; i < 7; i++)
        of[places[i].kind]++;
    assert_int_equal(of[ROLLUP_ALL], 1);
    assert_int_equal(of[ROLLUP_REASON], 1);
    assert_int_equal(of[ROLLUP_TENANT], 1);
    assert_int_equal(of[ROLLUP_AGENT], 2);
    assert_int_equal(of[ROLLUP_ENGINE], 2);
    /* On one host both sides may be one agent; and a publish has no target. */
    strcpy(transfer.sides[KVR_ROLE_TARGET].agent, "prefill-0");
    memset(&transfer.target_engine, 0, sizeof(transfer.target_engine));
    assert_int_equal(rollup_places_of(&transfer, places), 5);
}

static void amounts_and_times_are_counted_once(void **state)
{
    struct transfer transfer = ended_transfer(KVR_OK);
    struct rollup_cell cell = {0};
    struct rollup_news source = {.ended = true, .side_ended = {true, false}};
    struct rollup_news target = {.side_ended = {false, true}};

    (void)state;
    assert_true(rollup_add_transfer(&cell, ROLLUP_ALL, &transfer, &source));
    assert_true(rollup_add_transfer(&cell, ROLLUP_ALL, &transfer, &target));
    assert_int_equal(cell.amounts[ROLLUP_ENDED], 1);
    assert_int_equal(cell.amounts[ROLLUP_FAILED], 0);
    assert_int_equal(cell.amounts[ROLLUP_BYTES], 4096);
    assert_int_equal(cell.amounts[ROLLUP_LAYERS], 32);
    assert_int_equal(cell.amounts[ROLLUP_WRITES], 64);
    assert_int_equal(cell.amounts[ROLLUP_REPEATS], 2);
    for (int time = 0; time < ROLLUP_TIME_END; time++)
        assert_int_equal(rollup_times_count((*cell.times)[time]), 1);
    assert_int_equal((*cell.times)[ROLLUP_TOTAL][rollup_bucket_of(10 * MS)], 1);
    assert_int_equal((*cell.times)[ROLLUP_MATCH][rollup_bucket_of(1 * MS)], 1);
    assert_int_equal((*cell.times)[ROLLUP_EXPOSED][rollup_bucket_of(6 * MS)], 1);
    free(cell.times);
}

/* The times of failures would drown those of transfers that are done; by reason they stand alone.
 */
static void a_failure_has_times_by_reason_alone(void **state)
{
    struct transfer transfer = ended_transfer(KVR_PEER_LOST);
    struct rollup_news news = {.ended = true, .side_ended = {true, true}};
    struct rollup_cell all = {0}, reason = {0};

    (void)state;
    assert_true(rollup_add_transfer(&all, ROLLUP_ALL, &transfer, &news));
    assert_true(rollup_add_transfer(&reason, ROLLUP_REASON, &transfer, &news));
    assert_int_equal(all.amounts[ROLLUP_ENDED], 1);
    assert_int_equal(all.amounts[ROLLUP_FAILED], 1);
    assert_int_equal(all.amounts[ROLLUP_BYTES], 0);
    assert_null(all.times);
    assert_int_equal(rollup_times_count((*reason.times)[ROLLUP_TOTAL]), 1);
    free(reason.times);
}

static void buckets_are_in_order_and_without_gaps(void **state)
{
    (void)state;
    assert_int_equal(rollup_bucket_begin(0), 0);
    for (uint32_t i = 0; i < ROLLUP_BUCKETS; i++) {
        int64_t begin = rollup_bucket_begin(i), end = rollup_bucket_begin(i + 1);

        assert_true(begin < end);
        assert_int_equal(rollup_bucket_of(begin), i);
        if (i + 1 < ROLLUP_BUCKETS)
            assert_int_equal(rollup_bucket_of(end - 1), i);
        if (begin > 100 * 1000) /* ns */
            assert_true(end - begin <= begin / 4);
    }
    assert_int_equal(rollup_bucket_of(-1), 0);
    assert_int_equal(rollup_bucket_of(INT64_MAX), ROLLUP_BUCKETS - 1);
    assert_true(rollup_bucket_begin(ROLLUP_BUCKETS - 1) > 900 * (int64_t)KVR_S);
}

static void percentiles_are_near(void **state)
{
    uint32_t buckets[ROLLUP_BUCKETS] = {0};

    (void)state;
    assert_int_equal(rollup_percentile(buckets, 50), -1);
    for (int64_t i = 1; i <= 1000; i++)
        buckets[rollup_bucket_of(i * MS)]++;
    assert_in_range(rollup_percentile(buckets, 50), 490 * MS, 510 * MS);
    assert_in_range(rollup_percentile(buckets, 90), 880 * MS, 920 * MS);
    assert_in_range(rollup_percentile(buckets, 99), 960 * MS, 1075 * MS);
}

/* ---- packed ---- */

static void cell_equals(const struct rollup_cell *a, const struct rollup_cell *b)
{
    assert_non_null(b);
    assert_memory_equal(a->amounts, b->amounts, sizeof(a->amounts));
    assert_true((a->times != NULL) == (b->times != NULL));
    if (a->times != NULL)
        assert_memory_equal(*a->times, *b->times, sizeof(*a->times));
}

static struct rollup_row some_row(unsigned cells)
{
    struct transfer transfer = ended_transfer(KVR_OK);
    struct rollup_news news = {.ended = true, .side_ended = {true, true}};
    struct rollup_row row = {.name = {.kind = ROLLUP_AGENT}};

    for (unsigned i = 0; i < cells; i++) {
        char name[24];
        struct rollup_key key;
        struct rollup_cell *cell;

        snprintf(name, sizeof(name), "decode-%04u", (i * 7919) % cells);
        key = rollup_key_text(name);
        cell = rollup_row_cell(&row, &key);
        assert_non_null(cell);
        transfer.bytes = i * UINT64_C(1000003);
        if (i % 5 == 0)
            cell->amounts[ROLLUP_ERRORS] = i + 1;
        else
            assert_true(rollup_add_transfer(cell, ROLLUP_AGENT, &transfer, &news));
    }
    return row;
}

/* Twice the same row added gives everything twice. */
static void packed_rows_are_read_and_added(void **state)
{
    struct rollup_row row = some_row(100), sum = {0};
    struct rollup_pack amounts = {0}, times = {0};

    (void)state;
    assert_true(rollup_pack_amounts(&row, &amounts) && rollup_pack_times(&row, &times));
    for (int round = 1; round <= 2; round++) {
        struct rollup_unpack a = {.bytes = amounts.bytes, .count = amounts.count};
        struct rollup_unpack t = {.bytes = times.bytes, .count = times.count};

        assert_int_equal(rollup_row_add(&sum, a, t), KVR_OK);
        assert_int_equal(HASH_COUNT(sum.cells), 100);
        for (struct rollup_cell *cell = row.cells; cell != NULL; cell = cell->hh.next) {
            struct rollup_cell *other = rollup_row_cell(&sum, &cell->key);

            if (round == 1)
                cell_equals(cell, other);
            else
                assert_int_equal(other->amounts[ROLLUP_BYTES], 2 * cell->amounts[ROLLUP_BYTES]);
        }
    }
    /* Names that begin alike cost little. */
    assert_true(amounts.count < 100 * 20);
    rollup_pack_free(&amounts);
    rollup_pack_free(&times);
    rollup_row_clear(&row);
    rollup_row_clear(&sum);
}

static void what_is_cut_off_is_refused(void **state)
{
    struct rollup_row row = some_row(3), sum = {0};
    struct rollup_pack amounts = {0}, times = {0};
    int refused = 0;

    (void)state;
    assert_true(rollup_pack_amounts(&row, &amounts) && rollup_pack_times(&row, &times));
    for (size_t count = 0; count < amounts.count + times.count; count++) {
        bool first = count < amounts.count;
        struct rollup_unpack a = {.bytes = amounts.bytes, .count = first ? count : amounts.count};
        struct rollup_unpack t = {.bytes = times.bytes, .count = first ? 0 : count - amounts.count};

        refused += rollup_row_add(&sum, a, t) == KVR_MALFORMED;
    }
    /* All but those that end behind a cell. */
    assert_int_equal(refused, amounts.count + times.count - 3 - 2);
    rollup_pack_free(&amounts);
    rollup_pack_free(&times);
    rollup_row_clear(&row);
    rollup_row_clear(&sum);
}

static void too_many_cells_are_one(void **state)
{
    struct rollup_row row = {0};

    (void)state;
    for (unsigned i = 0; i < ROLLUP_CELLS_MAX + 50; i++) {
        struct rollup_key key;
        char name[16];

        snprintf(name, sizeof(name), "tenant-%u", i);
        key = rollup_key_text(name);
        rollup_row_cell(&row, &key)->amounts[ROLLUP_ENDED]++;
    }
    assert_int_equal(HASH_COUNT(row.cells), ROLLUP_CELLS_MAX + 1);
    assert_int_equal(rollup_row_cell(&row, &(struct rollup_key){0})->amounts[ROLLUP_ENDED], 50);
    rollup_row_clear(&row);
}

/* ---- growth ---- */

struct grown {
    uint64_t rail_bytes[2], rail_errors, pair_bytes;
    int visits;
};

static bool keep(void *self, rollup_kind kind, const struct rollup_key *key,
                 const uint64_t amounts[ROLLUP_AMOUNT_END])
{
    struct grown *grown = self;

    grown->visits++;
    if (kind == ROLLUP_RAIL) {
        grown->rail_bytes[(uint8_t)key->bytes[0]] += amounts[ROLLUP_BYTES];
        grown->rail_errors += amounts[ROLLUP_ERRORS];
    } else {
        assert_int_equal(key->count, strlen("decode-0") + 2);
        grown->pair_bytes += amounts[ROLLUP_BYTES];
    }
    return true;
}

struct growth_case {
    struct rollup_growth growth;
    struct kvr_agent_facts facts;
    struct kvr_report_pairs pairs;
    struct kvr_report report;
    struct grown grown;
};

static struct growth_case *growth_case(void)
{
    struct growth_case *one = calloc(1, sizeof(*one));

    one->report = (struct kvr_report){.boot = 7, .facts = &one->facts, .pairs = &one->pairs};
    strcpy(one->report.agent, "prefill-0");
    one->facts.rail_count = 2;
    one->pairs.peer_count = one->pairs.pair_count = 1;
    strcpy(one->pairs.peers[0].peer, "decode-0");
    one->pairs.peers[0].pair_count = 1;
    return one;
}

static void take(struct growth_case *one, uint64_t bytes, int64_t second)
{
    one->facts.rails[0].bytes = one->pairs.pairs[0].bytes = bytes;
    assert_true(
        rollup_growth_take(&one->growth, &one->report, second * (int64_t)KVR_S, keep, &one->grown));
}

static void growth_end(struct growth_case *one)
{
    rollup_growth_forget(&one->growth, INT64_MAX);
    free(one);
}

static void counters_grow_by_what_is_new(void **state)
{
    struct growth_case *one = growth_case();

    (void)state;
    take(one, 1000, 100);
    assert_int_equal(one->grown.visits, 0); /* only what later ones count from */
    take(one, 1500, 101);
    assert_int_equal(one->grown.rail_bytes[0], 500);
    assert_int_equal(one->grown.pair_bytes, 500);
    take(one, 1500, 101); /* sent twice */
    one->facts.rails[0].epoch = 3;
    one->facts.rails[0].counters[KVR_RAIL_WRONG_TAG] = 2;
    take(one, 1700, 102);
    assert_int_equal(one->grown.rail_bytes[0], 700);
    assert_int_equal(one->grown.rail_errors, 5);
    assert_int_equal(one->grown.rail_bytes[1], 0);
    assert_int_equal(one->grown.visits, 4); /* a rail that does not move is not visited */
    growth_end(one);
}

static void a_late_report_grows_nothing(void **state)
{
    struct growth_case *one = growth_case();

    (void)state;
    one->report.pairs = NULL;
    take(one, 1000, 100);
    take(one, 3000, 101);
    take(one, 2000, 102);
    take(one, 3100, 103);
    assert_int_equal(one->grown.rail_bytes[0], 2100);
    growth_end(one);
}

static void a_start_and_a_silence_begin_anew(void **state)
{
    struct growth_case *one = growth_case();

    (void)state;
    take(one, 1000, 100);
    one->report.boot = 8;
    take(one, 5000, 101);
    take(one, 5001, 102);
    assert_int_equal(one->grown.rail_bytes[0], 1);
    take(one, 9000, 200);
    assert_int_equal(one->grown.rail_bytes[0], 1);
    /* An agent without news sends no facts, and is not silent. */
    one->report.facts = NULL;
    for (int64_t second = 202; second < 230; second += 2)
        take(one, 0, second);
    one->report.facts = &one->facts;
    take(one, 9100, 230);
    assert_int_equal(one->grown.rail_bytes[0], 101);
    growth_end(one);
}

static void a_session_counts_its_pairs_anew(void **state)
{
    struct growth_case *one = growth_case();

    (void)state;
    take(one, 1000, 100);
    take(one, 1200, 101);
    one->facts.rails[0].bytes = 2000;
    one->pairs.pairs[0].bytes = 50;
    assert_true(
        rollup_growth_take(&one->growth, &one->report, 102 * (int64_t)KVR_S, keep, &one->grown));
    assert_int_equal(one->grown.pair_bytes, 250);
    growth_end(one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_transfer_has_its_places),
        cmocka_unit_test(amounts_and_times_are_counted_once),
        cmocka_unit_test(a_failure_has_times_by_reason_alone),
        cmocka_unit_test(buckets_are_in_order_and_without_gaps),
        cmocka_unit_test(percentiles_are_near),
        cmocka_unit_test(packed_rows_are_read_and_added),
        cmocka_unit_test(what_is_cut_off_is_refused),
        cmocka_unit_test(too_many_cells_are_one),
        cmocka_unit_test(counters_grow_by_what_is_new),
        cmocka_unit_test(a_late_report_grows_nothing),
        cmocka_unit_test(a_start_and_a_silence_begin_anew),
        cmocka_unit_test(a_session_counts_its_pairs_anew),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
