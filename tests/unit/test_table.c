/* Goal: the table gives the answers of a plain array, at every fill. Method: random inserts,
 * removals and look-ups of few keys, beside an array that is indexed by the key. */
#include "tests/support/check.h"

#include "base/rng.h"
#include "base/table.h"

#define KEYS 300

static void table_answers_as_an_array(void **state)
{
    uint64_t cases = check_cases(300000, 30000000);
    bool present[KEYS] = {false};
    uint32_t values[KEYS] = {0}, capacity = 200, found;
    void *memory = malloc(kvr_table_bytes(capacity));
    struct kvr_table table;
    struct kvr_rng rng;
    uint32_t count = 0;

    (void)state;
    kvr_rng_init(&rng, 8);
    kvr_table_init(&table, memory, capacity);
    for (uint64_t i = 0; i < cases; i++) {
        uint64_t key = kvr_rng_below(&rng, KEYS);
        uint32_t value = (uint32_t)kvr_rng_next(&rng);

        if (kvr_rng_percent(&rng, 55)) {
            kvr_status status = kvr_table_insert(&table, key, value);

            assert_int_equal(status, present[key]        ? KVR_EXISTS
                                     : count == capacity ? KVR_NO_MEMORY
                                                         : KVR_OK);
            if (status == KVR_OK) {
                present[key] = true;
                values[key] = value;
                count++;
            }
        } else {
            assert_int_equal(kvr_table_remove(&table, key), present[key]);
            count -= present[key];
            present[key] = false;
        }
        key = kvr_rng_below(&rng, KEYS);
        assert_int_equal(kvr_table_find(&table, key, &found), present[key]);
        if (present[key])
            assert_int_equal(found, values[key]);
        assert_int_equal(table.count, count);
    }
    free(memory);
}

static void table_takes_any_key(void **state)
{
    uint64_t keys[] = {0, 1, UINT64_MAX, UINT64_C(1) << 63, 64, 128, 192};
    void *memory = malloc(kvr_table_bytes(7));
    struct kvr_table table;
    uint32_t value;

    (void)state;
    kvr_table_init(&table, memory, 7);
    for (uint32_t i = 0; i < 7; i++)
        assert_int_equal(kvr_table_insert(&table, keys[i], UINT32_MAX - i), KVR_OK);
    assert_int_equal(kvr_table_insert(&table, 5, 5), KVR_NO_MEMORY);
    for (uint32_t i = 0; i < 7; i++) {
        assert_true(kvr_table_find(&table, keys[i], &value));
        assert_int_equal(value, UINT32_MAX - i);
        assert_true(kvr_table_find(&table, keys[i], NULL));
        assert_true(kvr_table_remove(&table, keys[i]));
        assert_false(kvr_table_remove(&table, keys[i]));
    }
    assert_int_equal(table.count, 0);
    free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_answers_as_an_array),
        cmocka_unit_test(table_takes_any_key),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
