/* Goal: page tables are read as they were packed, one table has one form, and damaged bytes are
 * refused without a read past them. A recorder's wish ends by itself.
 * Method: tables out and in; the bytes of one by heart; every cut and every wrong bit of it, in
 * memory of exactly that size (the sanitizers watch). */
#include "tests/support/check.h"

#include <stdlib.h>

#include "base/rng.h"
#include "trace/page_runs.h"

#define PAGES_MAX 40000

static uint8_t bytes[KVR_PAGE_RUNS_BYTES_MAX];
static uint32_t ids[KVR_GROUPS_MAX][PAGES_MAX], read_ids[KVR_GROUPS_MAX][PAGES_MAX];
static uint32_t read_counts[KVR_GROUPS_MAX], read_runs;
static struct kvr_page_ids groups[KVR_GROUPS_MAX];

static void visit(void *self, uint32_t group, struct kvr_page_run run)
{
    (void)self;
    assert_true(group < KVR_GROUPS_MAX && run.page_count > 0);
    read_runs++;
    for (uint32_t i = 0; i < run.page_count && read_counts[group] < PAGES_MAX; i++)
        read_ids[group][read_counts[group]++] = run.page_first + i;
}

static kvr_status unpack(const uint8_t *from, size_t count, kvr_role *ret_role)
{
    memset(read_counts, 0, sizeof(read_counts));
    read_runs = 0;
    return kvr_page_runs_unpack(from, count, ret_role, visit, NULL);
}

static void set_group(uint32_t group, uint32_t count)
{
    groups[group] = (struct kvr_page_ids){ids[group], count};
}

static int clear(void **state)
{
    (void)state;
    memset(groups, 0, sizeof(groups));
    return 0;
}

static void tables_come_back_as_they_were(void **state)
{
    struct kvr_rng rng;

    (void)state;
    kvr_rng_init(&rng, 1);
    for (uint32_t round = 0; round < 300; round++) {
        kvr_role role = (kvr_role)(round % 2), read_role;
        size_t size;

        clear(NULL);
        for (uint32_t group = 0; group < KVR_GROUPS_MAX; group += 1 + kvr_rng_next(&rng) % 9) {
            set_group(group, (uint32_t)kvr_rng_next(&rng) % 200);
            for (uint32_t i = 0; i < groups[group].count; i++)
                ids[group][i] = i > 0 && kvr_rng_next(&rng) % 4 > 0
                                    ? ids[group][i - 1] + 1
                                    : (uint32_t)kvr_rng_next(&rng) % (UINT32_MAX - 300);
        }
        size = kvr_page_runs_pack(groups, role, bytes);
        assert_true(size > 0);
        assert_int_equal(unpack(bytes, size, &read_role), KVR_OK);
        assert_int_equal(read_role, role);
        for (uint32_t group = 0; group < KVR_GROUPS_MAX; group++) {
            assert_int_equal(read_counts[group], groups[group].count);
            assert_memory_equal(read_ids[group], ids[group],
                                groups[group].count * sizeof(ids[0][0]));
        }
    }
}

/* A database keeps these bytes for as long as its retention. */
static void the_bytes_keep_their_meaning(void **state)
{
    static const uint32_t table[] = {300, 301, 302, 7, 9, 10};
    static const uint8_t packed[] = {0x11, 1, 2, 3, /* version and role, one group: 2 */
                                     0xd8, 4, 2,    /* +300, 3 pages */
                                     0xcf, 4, 0,    /* 303 - 296, one page */
                                     2,    1};      /* 8 + 1, 2 pages */
    kvr_role role;

    (void)state;
    memcpy(ids[2], table, sizeof(table));
    set_group(2, 6);
    assert_int_equal(kvr_page_runs_pack(groups, KVR_ROLE_TARGET, bytes), sizeof(packed));
    assert_memory_equal(bytes, packed, sizeof(packed));
    assert_int_equal(unpack(packed, sizeof(packed), &role), KVR_OK);
    assert_int_equal(role, KVR_ROLE_TARGET);
    assert_int_equal(read_runs, 3);
}

static void too_many_runs_are_not_packed(void **state)
{
    size_t neighbours, scattered;

    (void)state;
    for (uint32_t i = 0; i < PAGES_MAX; i++)
        ids[0][i] = i;
    set_group(0, PAGES_MAX);
    neighbours = kvr_page_runs_pack(groups, KVR_ROLE_SOURCE, bytes);
    assert_in_range(neighbours, 1, 16);
    for (uint32_t i = 0; i < PAGES_MAX; i++)
        ids[0][i] = i * 2;
    assert_int_equal(kvr_page_runs_pack(groups, KVR_ROLE_SOURCE, bytes), 0);
    /* 200,000 tokens of 16 a page, no two pages neighbours, among a million pages. */
    for (uint32_t i = 0; i < 12500; i++)
        ids[0][i] = (i * 7919) % 1000003;
    set_group(0, 12500);
    scattered = kvr_page_runs_pack(groups, KVR_ROLE_SOURCE, bytes);
    assert_in_range(scattered, 1, KVR_PAGE_RUNS_BYTES_MAX);
}

static void damage_is_refused(void **state)
{
    static const uint32_t table[] = {300, 301, 302, 7, 9, 10};
    size_t size;
    kvr_role role;

    (void)state;
    for (uint32_t group = 0; group < 3; group++) {
        memcpy(ids[group], table, sizeof(table));
        set_group(group, 6);
    }
    size = kvr_page_runs_pack(groups, KVR_ROLE_SOURCE, bytes);
    for (size_t cut = 0; cut <= size; cut++) {
        uint8_t *exact = malloc(cut > 0 ? cut : 1);

        memcpy(exact, bytes, cut);
        if (cut < size) {
            assert_int_equal(unpack(exact, cut, &role), KVR_MALFORMED);
            assert_int_equal(read_runs, 0);
        }
        for (size_t bit = 0; cut == size && bit < 8 * size; bit++) {
            exact[bit / 8] ^= (uint8_t)(1 << bit % 8);
            (void)unpack(exact, size, &role);
            exact[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
        free(exact);
    }
    bytes[0] = 2;
    assert_int_equal(unpack(bytes, size, &role), KVR_UNSUPPORTED);
    bytes[0] = 0x21;
    assert_int_equal(unpack(bytes, size, &role), KVR_MALFORMED);
    /* A run that continues the one before is not the one form. */
    assert_int_equal(unpack((const uint8_t[]){1, 1, 0, 2, 2, 0, 0, 0}, 8, &role), KVR_MALFORMED);
    /* Pages beyond 32 bits. */
    assert_int_equal(
        unpack((const uint8_t[]){1, 1, 0, 1, 0, 0xff, 0xff, 0xff, 0xff, 0x0f}, 10, &role),
        KVR_MALFORMED);
}

static void a_wish_ends_by_itself(void **state)
{
    const struct kvr_spans_choice spans = {.slow_ns = KVR_S};
    struct kvr_event ended = {.transfer = 12};
    struct kvr_span_book book = {.opened = 1};
    struct kvr_pages_wish wish = {0};

    (void)state;
    ended.at = 5 * KVR_S;
    assert_false(kvr_pages_wanted(&wish, &spans, &book, &ended));
    kvr_pages_ask(&wish, ended.at, KVR_S);
    assert_true(kvr_pages_wanted(&wish, &spans, NULL, &ended));
    kvr_pages_ask(&wish, ended.at, 0); /* another recorder does not shorten it */
    assert_true(kvr_pages_wanted(&wish, &spans, NULL, &ended));
    ended.at = 6 * KVR_S;
    assert_false(kvr_pages_wanted(&wish, &spans, &book, &ended));
    kvr_pages_ask(&wish, ended.at, UINT64_MAX / 2);
    assert_true(wish.until == ended.at + KVR_PAGES_ASKED_MAX_NS);

    wish = (struct kvr_pages_wish){.every = 4};
    assert_true(kvr_pages_wanted(&wish, &spans, NULL, &ended));
    ended.transfer = 13;
    assert_false(kvr_pages_wanted(&wish, &spans, NULL, &ended));
    assert_true(kvr_pages_wanted(&wish, &spans, &book, &ended)); /* slow */
    ended.outcome = KVR_PEER_LOST;
    assert_true(kvr_pages_wanted(&wish, &spans, NULL, &ended));
    wish.every = 0;
    assert_false(kvr_pages_wanted(&wish, &spans, &book, &ended));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(tables_come_back_as_they_were, clear),
        cmocka_unit_test_setup(the_bytes_keep_their_meaning, clear),
        cmocka_unit_test_setup(too_many_runs_are_not_packed, clear),
        cmocka_unit_test_setup(damage_is_refused, clear),
        cmocka_unit_test(a_wish_ends_by_itself),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
