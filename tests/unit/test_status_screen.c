/* Goal: parts of a text share the lines of a screen in their order, each with its least rows, and
 * lines and cells are cut by columns, not bytes. Method: tables of parts and texts. */
#include "tests/support/check.h"

#include <stdio.h>

#include "tools/status_screen.h"

static void expect_shown(struct screen_part parts[3], unsigned lines, unsigned a, unsigned b,
                         unsigned c)
{
    screen_fit(parts, 3, lines);
    assert_int_equal(parts[0].shown, a);
    assert_int_equal(parts[1].shown, b);
    assert_int_equal(parts[2].shown, c);
}

static void screen_gives_earlier_parts_more_room(void **state)
{
    struct screen_part parts[3] = {
        {.head = 1, .rows = 100, .least = 2, .counts = true},
        {.head = 2, .rows = 3, .least = 0},
        {.head = 2, .rows = 20, .least = 2},
    };

    (void)state;
    expect_shown(parts, 20, 14, 0, 2); /* 1 + 14 + 1 and 2 + 2 */
    parts[0].rows = 10;
    expect_shown(parts, 20, 10, 3, 2); /* without a line that counts; all of the second */
    expect_shown(parts, 19, 10, 0, 6);
    parts[0].rows = 1;
    expect_shown(parts, 20, 1, 3, 11);
    expect_shown(parts, 1, 1, 0, 2); /* the least is shown in any case */
    parts[0].rows = 0;
    expect_shown(parts, 100, 0, 3, 20);
}

static void screen_shortens_the_middle(void **state)
{
    char cell[64];

    (void)state;
    assert_string_equal(screen_shorten("prefill-0", 9, cell), "prefill-0");
    assert_string_equal(screen_shorten("prefill-12", 9, cell), "pref…l-12");
    assert_string_equal(screen_shorten("äöüäöü", 5, cell), "äö…öü");
    assert_int_equal(screen_columns("a → b", strlen("a → b")), 5);
}

static void screen_cuts_lines_at_their_columns(void **state)
{
    size_t bytes;
    char *text;
    FILE *out = open_memstream(&text, &bytes);

    (void)state;
    screen_cut("12345\n\n123456\na→bcde\na→bcdef\nend", 6, out);
    screen_cut("12→4567\n", 4, out);
    fclose(out);
    assert_string_equal(text, "12345\n\n123456\na→bcde\na→bcd…\nend\n12→…\n");
    free(text);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(screen_gives_earlier_parts_more_room),
        cmocka_unit_test(screen_shortens_the_middle),
        cmocka_unit_test(screen_cuts_lines_at_their_columns),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
