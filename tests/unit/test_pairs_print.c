/* Goal: a person sees at a glance which rails reach which, and a sentence for each pair in trouble.
 * Method: the scheduler's JSON in, text out. */
#include "tests/support/check.h"

#include "tools/pairs_print.h"

#define PAIR(source, target, rail, target_rail, state, detail, bytes)                              \
    "{\"source\":\"" source "\",\"target\":\"" target "\",\"rail\":" rail                          \
    ",\"target_rail\":" target_rail ",\"state\":\"" state "\",\"detail\":" detail                  \
    ",\"bytes\":" bytes ",\"age_seconds\":2.4}"
#define PAIR_SINCE(source, target, rail, target_rail, state, detail, bytes, seconds, breaks)       \
    "{\"source\":\"" source "\",\"target\":\"" target "\",\"rail\":" rail                          \
    ",\"target_rail\":" target_rail ",\"state\":\"" state "\",\"detail\":" detail                  \
    ",\"bytes\":" bytes ",\"age_seconds\":2.4,\"state_seconds\":" seconds ",\"breaks\":" breaks    \
    "}"
#define RAIL(index, name) "{\"index\":" index ",\"name\":" name "}"

static const char pairs_text[] =
    "[" PAIR("p0", "d0", RAIL("0", "\"mlx5_0\""), RAIL("0", "\"mlx5_2\""), "warm", "null",
             "12340000") "," PAIR("p0", "d0", RAIL("1", "\"mlx5_1\""), RAIL("1", "\"mlx5_3\""),
                                  "unreachable", "\"its writes fail: x\"", "0") "," //
    PAIR("p0", "d0", RAIL("0", "\"mlx5_0\""), RAIL("1", "\"mlx5_3\""), "spare",
         "\"its plane is a, the peer's b\"", "0") "," //
    PAIR_SINCE("p1", "d0", RAIL("3", "null"), RAIL("0", "\"mlx5_2\""), "doubted",
               "\"its writes were silent for 3.0 s\"", "70", "11.7", "1") "," //
    PAIR_SINCE("p1", "d0", RAIL("4", "null"), RAIL("0", "\"mlx5_2\""), "slow",
               "\"it delivers little\"", "70", "65", "3") "," //
    PAIR_SINCE("p1", "d0", RAIL("5", "null"), RAIL("0", "\"mlx5_2\""), "warming", "null", "0", "1",
               "1") "]";

static char *printed;
static size_t printed_bytes;
static json_t *pairs;

static int parse(void **state)
{
    (void)state;
    pairs = json_loads(pairs_text, 0, NULL);
    return pairs == NULL;
}

static int forget(void **state)
{
    (void)state;
    json_decref(pairs);
    free(printed);
    printed = NULL;
    return 0;
}

static void pairs_are_a_matrix(void **state)
{
    FILE *out = open_memstream(&printed, &printed_bytes);

    (void)state;
    pairs_print(pairs, out);
    fclose(out);
    assert_string_equal(
        printed,
        "Rails of p0 (rows) to those of d0 (columns), 2 s ago:\n"
        "            0 mlx5_2       1 mlx5_3   \n"
        "  0 mlx5_0  warm 12.34 MB  spare      \n"
        "  1 mlx5_1  -              unreachable\n"
        "  rail 1 mlx5_1 does not reach 1 mlx5_3 of d0: its writes fail: x; 0 B came through\n"
        "  rail 0 mlx5_0 is spare for 1 mlx5_3 of d0, used where no near pair works: its plane is "
        "a, the peer's b; 0 B came through\n"
        "\n"
        "Rails of p1 (rows) to those of d0 (columns), 2 s ago:\n"
        "     0 mlx5_2    \n"
        "  3  doubted 70 B\n"
        "  4  slow 70 B   \n"
        "  5  warming     \n"
        "  rail 3 is in doubt with 0 mlx5_2 of d0, one write at a time: its writes were silent for "
        "3.0 s; for 12 s; 1 time in this session; 70 B came through\n"
        "  rail 4 is slow to 0 mlx5_2 of d0: it delivers little; for 65 s; 3 times in this "
        "session; 70 B came through\n");
}

static void pairs_in_trouble_are_said(void **state)
{
    FILE *out = open_memstream(&printed, &printed_bytes);

    (void)state;
    assert_int_equal(pairs_count_troubled(NULL), 0);
    assert_int_equal(pairs_count_troubled(pairs), 4);
    pairs_print_troubled(pairs, false, 1, out);
    fclose(out);
    assert_string_equal(printed,
                        "  rail 1 mlx5_1 does not reach 1 mlx5_3 of d0: its writes fail: x\n"
                        "  and 3 more pairs\n");
}

static void pairs_of_any_kind_can_be_printed(void **state)
{
    static const char odd[] = "[{\"rail\":{\"index\":-1},\"target_rail\":{\"index\":99},"
                              "\"state\":\"warp\",\"bytes\":1e99}]";
    static const char *const texts[] = {"[]", "[1, null, {}]", odd};

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        FILE *out;

        forget(state);
        out = open_memstream(&printed, &printed_bytes);
        pairs = json_loads(texts[i], 0, NULL);
        pairs_print(pairs, out);
        fclose(out);
    }
    assert_non_null(strstr(printed, "a state that is not known here"));
}

static void pairs_are_asked_for_by_name(void **state)
{
    char path[PAIRS_PATH_BYTES];

    (void)state;
    pairs_path(NULL, NULL, path);
    assert_string_equal(path, "/api/v1/rails/matrix");
    pairs_path("p 0", "d&0", path);
    assert_string_equal(path, "/api/v1/rails/matrix?source=p%200&target=d%260");
    pairs_path(NULL, "d0", path);
    assert_string_equal(path, "/api/v1/rails/matrix?target=d0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(pairs_are_a_matrix, parse, forget),
        cmocka_unit_test_setup_teardown(pairs_in_trouble_are_said, parse, forget),
        cmocka_unit_test_setup_teardown(pairs_of_any_kind_can_be_printed, parse, forget),
        cmocka_unit_test(pairs_are_asked_for_by_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
