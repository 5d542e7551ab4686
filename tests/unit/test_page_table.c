/* Goal: ids come in order, inside their region, within capacity, all or nothing; runs release them
 * again. Method: named cases, and random tables read back through a small window. */
#include "tests/support/check.h"

#include "base/rng.h"
#include "kv/page_table.h"

static _Alignas(64) unsigned char arena[1 << 18];
static struct kvr_buddy memory;

static struct kvr_page_table table_of(uint32_t capacity, uint32_t page_limit)
{
    struct kvr_page_table table;

    kvr_buddy_init(&memory, arena, sizeof(arena));
    assert_int_equal(kvr_page_table_init(&table, &memory, capacity, page_limit), KVR_OK);
    return table;
}

static void page_table_keeps_order(void **state)
{
    struct kvr_page_table table = table_of(6, 100);
    const uint32_t first[] = {5, 99, 5}, second[] = {7, 8};

    (void)state;
    assert_int_equal(kvr_page_table_append(&table, 0, first, 3, NULL), KVR_OK);
    assert_int_equal(kvr_page_table_append(&table, 3, second, 2, NULL), KVR_OK);
    assert_int_equal(kvr_page_table_append(&table, 5, NULL, 0, NULL), KVR_OK);
    assert_int_equal(table.count, 5);
    assert_memory_equal(table.ids, first, sizeof(first));
    assert_memory_equal(table.ids + 3, second, sizeof(second));
    kvr_page_table_done(&table, &memory);
    assert_null(table.ids);
    assert_int_equal(memory.used_bytes, 0);
}

static void refused(struct kvr_page_table *table, uint32_t page_first, const uint32_t *ids,
                    uint32_t id_count, kvr_status status, const char *sentence)
{
    uint32_t count = table->count;
    struct kvr_error error = {0};

    assert_int_equal(kvr_page_table_append(table, page_first, ids, id_count, &error), status);
    assert_string_equal(error.detail, sentence);
    assert_int_equal(table->count, count);
}

static void page_table_refuses_whole_calls(void **state)
{
    struct kvr_page_table table = table_of(4, 100);
    const uint32_t good[] = {1, 2}, outside[] = {3, 100}, many[] = {1, 2, 3};

    (void)state;
    assert_int_equal(kvr_page_table_append(&table, 0, good, 2, NULL), KVR_OK);
    refused(&table, 1, good, 1, KVR_INVALID, "pages from 1 were given where page 2 is next");
    refused(&table, 2, outside, 2, KVR_INVALID,
            "page id 100 is outside the region, which has 100 pages");
    refused(&table, 2, many, 3, KVR_TOO_LARGE,
            "3 more pages after 2 are more than the 4 that the request can have");
    refused(&table, 2, good, UINT32_MAX, KVR_TOO_LARGE,
            "4294967295 more pages after 2 are more than the 4 that the request can have");
    kvr_page_table_done(&table, &memory);
}

static void refused_runs(struct kvr_page_table *table, struct kvr_page_run second,
                         kvr_status status, const char *sentence)
{
    const struct kvr_page_run runs[] = {{10, 2}, second};
    struct kvr_error error = {0};

    assert_int_equal(kvr_page_table_append_runs(table, 0, runs, 2, &error), status);
    assert_string_equal(error.detail, sentence);
    assert_int_equal(table->count, 0);
}

static void page_table_refuses_runs_whole(void **state)
{
    struct kvr_page_table table = table_of(8, UINT32_MAX);

    (void)state;
    refused_runs(&table, (struct kvr_page_run){20, 0}, KVR_INVALID,
                 "run 1 at page id 20 has no pages");
    refused_runs(&table, (struct kvr_page_run){20, 7}, KVR_TOO_LARGE,
                 "9 more pages after 0 are more than the 8 that the request can have");
    refused_runs(&table, (struct kvr_page_run){UINT32_MAX, UINT32_MAX}, KVR_INVALID,
                 "page id 8589934589 is outside the region, which has 4294967295 pages");
    refused_runs(&table, (struct kvr_page_run){0, UINT32_MAX}, KVR_TOO_LARGE,
                 "4294967297 more pages after 0 are more than the 8 that the request can have");
    assert_int_equal(kvr_page_table_append_runs(&table, 1, NULL, 0, NULL), KVR_INVALID);
    kvr_page_table_done(&table, &memory);
}

static void page_table_runs_lead_back(void **state)
{
    uint64_t cases = check_cases(2000, 20000);
    struct kvr_rng rng;

    (void)state;
    kvr_rng_init(&rng, 42);
    for (uint64_t i = 0; i < cases; i++) {
        struct kvr_page_table table = table_of(64, 16), copy;
        uint32_t count = (uint32_t)kvr_rng_below(&rng, 65), ids[64], at = 0;

        for (uint32_t page = 0; page < count; page++)
            ids[page] = page > 0 && kvr_rng_percent(&rng, 70) && ids[page - 1] < 15
                            ? ids[page - 1] + 1
                            : (uint32_t)kvr_rng_below(&rng, 16);
        assert_int_equal(kvr_page_table_append(&table, 0, ids, count, NULL), KVR_OK);
        assert_int_equal(kvr_page_table_init(&copy, &memory, 64, 16), KVR_OK);
        while (at < count) {
            struct kvr_page_run runs[3];
            uint32_t pages,
                run_count = kvr_page_table_runs(&table, at, count - at, runs, 3, &pages);

            assert_in_range(run_count, 1, 3);
            assert_int_equal(kvr_page_table_append_runs(&copy, at, runs, run_count, NULL), KVR_OK);
            assert_int_equal(copy.count, at + pages);
            at += pages;
        }
        assert_memory_equal(copy.ids, ids, count * sizeof(*ids));
    }
}

static void page_table_runs_stop_at_the_end(void **state)
{
    struct kvr_page_table table = table_of(4, 100);
    const struct kvr_page_run all = {10, 4};
    struct kvr_page_run run;
    uint32_t pages;

    (void)state;
    assert_int_equal(kvr_page_table_append_runs(&table, 0, &all, 1, NULL), KVR_OK);
    assert_int_equal(kvr_page_table_runs(&table, 1, UINT32_MAX, &run, 1, &pages), 1);
    assert_int_equal(pages, 3);
    assert_int_equal(run.page_first, 11);
    assert_int_equal(run.page_count, 3);
    assert_int_equal(kvr_page_table_runs(&table, 9, 1, &run, 1, &pages), 0);
    assert_int_equal(pages, 0);
    assert_int_equal(kvr_page_table_runs(&table, 0, 4, &run, 0, &pages), 0);
    assert_int_equal(pages, 0);
}

static void page_table_without_memory(void **state)
{
    struct kvr_page_table table;

    (void)state;
    kvr_buddy_init(&memory, arena, sizeof(arena));
    assert_int_equal(kvr_page_table_init(&table, &memory, UINT32_MAX, 1), KVR_NO_MEMORY);
    assert_int_equal(kvr_page_table_init(&table, &memory, 0, 1), KVR_OK);
    assert_int_equal(kvr_page_table_append(&table, 0, &(uint32_t){0}, 1, NULL), KVR_TOO_LARGE);
    kvr_page_table_done(&table, &memory);
}

struct sent {
    uint32_t calls, refused_call, pages;
};

static kvr_status count_sent(void *self, uint32_t page_first, uint32_t page_count,
                             const struct kvr_page_run *runs, uint32_t run_count)
{
    struct sent *sent = self;
    uint32_t pages = 0;

    if (++sent->calls == sent->refused_call)
        return KVR_AGAIN;
    assert_int_equal(page_first, sent->pages);
    assert_in_range(run_count, 1, KVR_PAGE_RUNS_SENT);
    for (uint32_t i = 0; i < run_count; i++)
        pages += runs[i].page_count;
    assert_int_equal(pages, page_count);
    sent->pages += pages;
    return KVR_OK;
}

static void page_table_is_sent_in_parts(void **state)
{
    struct kvr_page_table table = table_of(2 * KVR_PAGE_RUNS_SENT + 2, 100);
    struct sent sent = {.refused_call = 2};
    uint32_t next = 0;

    (void)state;
    for (uint32_t i = 0; i < table.capacity; i++) /* no two ids are neighbours */
        assert_int_equal(kvr_page_table_append(&table, i, &(uint32_t){i % 2 * 2}, 1, NULL), KVR_OK);
    assert_int_equal(kvr_page_table_send(&table, &next, table.count, &memory, count_sent, &sent),
                     KVR_AGAIN);
    assert_int_equal(next, KVR_PAGE_RUNS_SENT);
    assert_int_equal(kvr_page_table_send(&table, &next, table.count, &memory, count_sent, &sent),
                     KVR_OK);
    assert_int_equal(next, table.count);
    assert_int_equal(sent.calls, 4);
    assert_int_equal(kvr_page_table_send(&table, &next, table.count, &memory, count_sent, &sent),
                     KVR_OK);
    assert_int_equal(sent.calls, 4);
    kvr_page_table_done(&table, &memory);
    assert_int_equal(memory.used_bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(page_table_keeps_order),
        cmocka_unit_test(page_table_refuses_whole_calls),
        cmocka_unit_test(page_table_refuses_runs_whole),
        cmocka_unit_test(page_table_runs_lead_back),
        cmocka_unit_test(page_table_runs_stop_at_the_end),
        cmocka_unit_test(page_table_is_sent_in_parts),
        cmocka_unit_test(page_table_without_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
