/* Goal: rails of equal planes are paired however they are ordered, as many as can be; no rail is
 * left without a partner; and planes that say nothing change nothing. Method: cases by hand, and
 * random planes against the best of all matchings. */
#include "tests/support/check.h"

#include <stdio.h>

#include "base/rng.h"
#include "rail_group/rail_pairs.h"

#define MOST 7 /* rails of a side, in random cases */

static struct kvr_rail_pair pairs[KVR_RAIL_PAIRS_MAX];

/* Each letter is the plane of a rail; '-' is unknown. */
static uint32_t pair_up(const char *ours, const char *theirs)
{
    static char text[2][KVR_RAILS_MAX][2];
    const char *planes[2][KVR_RAILS_MAX], *sides[2] = {ours, theirs};

    for (unsigned s = 0; s < 2; s++) {
        for (size_t i = 0; i < strlen(sides[s]); i++) {
            text[s][i][0] = (char)(sides[s][i] == '-' ? '\0' : sides[s][i]);
            planes[s][i] = text[s][i];
        }
    }
    return kvr_rail_pairs(planes[0], (uint32_t)strlen(ours), planes[1], (uint32_t)strlen(theirs),
                          pairs);
}

/* As "0-2 1-0!": '!' marks far pairs. */
static void assert_pairs(const char *ours, const char *theirs, const char *expected)
{
    char text[8 * KVR_RAIL_PAIRS_MAX] = "";
    uint32_t count = pair_up(ours, theirs);

    for (uint32_t i = 0; i < count; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%u-%u%s", i > 0 ? " " : "",
                 pairs[i].ours, pairs[i].theirs, pairs[i].far ? "!" : "");
    assert_string_equal(text, expected);
}

static void equal_planes_find_each_other(void **state)
{
    (void)state;
    assert_pairs("abcd", "abcd", "0-0 1-1 2-2 3-3");
    assert_pairs("abcd", "dcab", "3-0 2-1 0-2 1-3");
    assert_pairs("abcd", "db", "3-0 1-1 0-0! 2-1!");
    assert_pairs("db", "abcd", "0-0! 1-1 1-2! 0-3");
    assert_pairs("aabb", "bbaa", "2-0 3-1 0-2 1-3");
    assert_pairs("aaab", "ba", "3-0 0-1 1-1 2-1");
    assert_pairs("aab", "acc", "0-0 2-1! 2-2! 1-0");
    assert_pairs("abc", "dab", "2-0! 0-1 1-2");
}

/* An unknown plane takes what the known ones leave over. */
static void unknown_planes_take_what_is_left(void **state)
{
    (void)state;
    assert_pairs("a-", "-a", "1-0 0-1");
    assert_pairs("ab", "-a", "1-0 0-1");
    assert_pairs("abc", "--", "0-0 1-1 2-0");
    assert_pairs("--b", "b", "2-0 0-0 1-0");
    assert_pairs("ab", "a-c", "0-0 1-1 0-2!");
    /* All but one keep their partner of an equal plane. */
    assert_pairs("-ab", "abc", "1-0 2-1 0-2");
}

/* A card with several networks: its rail's own stands first. */
static void any_of_several_networks_is_enough(void **state)
{
    const char *one = "10.1.0.0/24", *both = "10.1.0.0/24,10.2.0.0/24",
               *turned = "10.2.0.0/24,10.1.0.0/24", *longer = "10.1.0.0/24,10.2.0.0/241";
    const char *ours[] = {both, "10.3.0.0/24"}, *theirs[] = {"10.3.0.0/24", turned};

    (void)state;
    assert_true(kvr_rail_planes_near(both, turned));
    assert_true(kvr_rail_planes_near(both, one));
    assert_true(kvr_rail_planes_near(both, ""));
    assert_false(kvr_rail_planes_near(turned, one)); /* no way back to the network of its rail */
    assert_false(kvr_rail_planes_near(one, turned));
    assert_false(kvr_rail_planes_near(turned, longer));
    assert_int_equal(kvr_rail_pairs(ours, 2, theirs, 2, pairs), 2);
    assert_int_equal(pairs[0].ours, 1);
    assert_int_equal(pairs[1].ours, 0);
    assert_false(pairs[0].far || pairs[1].far);
}

static void a_side_without_rails_has_no_pairs(void **state)
{
    (void)state;
    assert_int_equal(pair_up("", "ab"), 0);
    assert_int_equal(pair_up("ab", ""), 0);
}

/* Planes that are all unknown, all equal, or all different on both sides. */
static void otherwise_the_place_decides(void **state)
{
    static const char *const kinds[][2] = {{"------------", "------------"},
                                           {"aaaaaaaaaaaa", "aaaaaaaaaaaa"},
                                           {"abcdefghijkl", "mnopqrstuvwx"},
                                           {"abcdefghijkl", "------------"}};
    char ours[16], theirs[16];

    (void)state;
    for (size_t kind = 0; kind < sizeof(kinds) / sizeof(kinds[0]); kind++) {
        for (uint32_t n = 1; n <= 12; n++) {
            for (uint32_t m = 1; m <= 12; m++) {
                uint32_t most = n > m ? n : m;

                snprintf(ours, sizeof(ours), "%.*s", (int)n, kinds[kind][0]);
                snprintf(theirs, sizeof(theirs), "%.*s", (int)m, kinds[kind][1]);
                assert_int_equal(pair_up(ours, theirs), most);
                for (uint32_t k = 0; k < most; k++) {
                    assert_int_equal(pairs[k].ours, k % n);
                    assert_int_equal(pairs[k].theirs, k % m);
                    assert_int_equal(pairs[k].far, kind == 2);
                }
            }
        }
    }
}

/* ---- against the best of all matchings ------------------------------------------------------- */

struct matrix {
    uint32_t rows, columns;
    bool at[MOST][MOST];
};

/* Tries every choice of a column, or none, for each row. */
static uint32_t best_matching(const struct matrix *matrix, uint32_t row, uint32_t taken)
{
    uint32_t best;

    if (row == matrix->rows)
        return 0;
    best = best_matching(matrix, row + 1, taken);
    for (uint32_t column = 0; column < matrix->columns; column++) {
        uint32_t size;

        if (!matrix->at[row][column] || (taken >> column & 1) != 0)
            continue;
        size = 1 + best_matching(matrix, row + 1, taken | UINT32_C(1) << column);
        best = size > best ? size : best;
    }
    return best;
}

static bool any_in_row(const struct matrix *matrix, uint32_t row)
{
    for (uint32_t column = 0; column < matrix->columns; column++)
        if (matrix->at[row][column])
            return true;
    return false;
}

static struct matrix turned(const struct matrix *matrix)
{
    struct matrix other = {.rows = matrix->columns, .columns = matrix->rows};

    for (uint32_t i = 0; i < matrix->rows; i++)
        for (uint32_t j = 0; j < matrix->columns; j++)
            other.at[j][i] = matrix->at[i][j];
    return other;
}

/* Each rail of the rows: near pairs if there can be any, else far ones. */
static void assert_covered(const struct matrix *possible, const struct matrix *near,
                           const struct matrix *far)
{
    for (uint32_t i = 0; i < possible->rows; i++) {
        assert_int_equal(any_in_row(near, i), any_in_row(possible, i));
        assert_true(any_in_row(near, i) || any_in_row(far, i));
    }
}

static void random_planes(struct kvr_rng *rng, unsigned planes, unsigned unknown_percent,
                          char *ret_text)
{
    uint32_t count = (uint32_t)kvr_rng_between(rng, 1, MOST);

    for (uint32_t i = 0; i < count; i++)
        ret_text[i] =
            (char)(kvr_rng_percent(rng, unknown_percent) ? '-'
                                                         : 'a' + (char)kvr_rng_below(rng, planes));
    ret_text[count] = '\0';
}

static void check_against_the_best(const char *ours, const char *theirs)
{
    struct matrix possible = {.rows = (uint32_t)strlen(ours), .columns = (uint32_t)strlen(theirs)};
    struct matrix near = possible, far = possible, back[3];
    uint32_t count = pair_up(ours, theirs);

    for (uint32_t i = 0; i < possible.rows; i++)
        for (uint32_t j = 0; j < possible.columns; j++)
            possible.at[i][j] = ours[i] == theirs[j] || ours[i] == '-' || theirs[j] == '-';
    assert_true(count <= possible.rows + possible.columns);
    for (uint32_t k = 0; k < count; k++) {
        uint32_t i = pairs[k].ours, j = pairs[k].theirs;
        bool *made = pairs[k].far ? &far.at[i][j] : &near.at[i][j];

        assert_true(k >= possible.columns || j == k);
        assert_int_equal(pairs[k].far, !possible.at[i][j]);
        assert_false(*made); /* no pair twice */
        *made = true;
    }
    assert_int_equal(best_matching(&near, 0, 0), best_matching(&possible, 0, 0));
    back[0] = turned(&possible), back[1] = turned(&near), back[2] = turned(&far);
    assert_covered(&possible, &near, &far);
    assert_covered(&back[0], &back[1], &back[2]);
    for (uint32_t i = 0; i < far.rows; i++)
        for (uint32_t j = 0; j < far.columns; j++)
            assert_true(!far.at[i][j] || !any_in_row(&possible, i) || !any_in_row(&back[0], j));
}

static void as_many_are_near_as_can_be(void **state)
{
    char ours[MOST + 1], theirs[MOST + 1];
    struct kvr_rng rng;

    (void)state;
    for (uint64_t seed = 0; seed < check_cases(300, 30000); seed++) {
        kvr_rng_init(&rng, seed);
        unsigned planes = (unsigned)kvr_rng_between(&rng, 1, MOST);
        unsigned unknown = seed % 2 == 0 ? 0 : (unsigned)kvr_rng_below(&rng, 60);

        random_planes(&rng, planes, unknown, ours);
        random_planes(&rng, planes, unknown, theirs);
        check_against_the_best(ours, theirs);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_planes_find_each_other),
        cmocka_unit_test(unknown_planes_take_what_is_left),
        cmocka_unit_test(any_of_several_networks_is_enough),
        cmocka_unit_test(a_side_without_rails_has_no_pairs),
        cmocka_unit_test(otherwise_the_place_decides),
        cmocka_unit_test(as_many_are_near_as_can_be),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
