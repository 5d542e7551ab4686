/* Goal: a plain name is what may stand in a file's name, a URI and a metric, and nothing else is
 * taken for one. Method: names that are, and that are nearly. */
#include "tests/support/check.h"

#include "base/plain_name.h"

static void plain_names(void **state)
{
    static const char *const names[] = {"a", "9", "red", "Team-7.prod_eu", "a.", "default"};
    char longest[KVR_NAME_BYTES];

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        assert_true(kvr_plain_name(names[i], strlen(names[i])));
    memset(longest, 'x', sizeof(longest));
    assert_true(kvr_plain_name(longest, KVR_NAME_BYTES - 1));
    assert_false(kvr_plain_name(longest, KVR_NAME_BYTES));
    assert_false(kvr_plain_name_or_none(longest)); /* it has no NUL */
    assert_true(kvr_plain_name_or_none("red"));
    assert_true(kvr_plain_name_or_none(""));
}

static void other_names(void **state)
{
    static const char *const names[] = {"",     ".a",  "-a",        "_a",  "a b", "a/b",
                                        "a\"b", "a\n", "a\xc3\xa4", "a=b", "a+b", "*"};

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        assert_false(kvr_plain_name(names[i], strlen(names[i])));
    assert_false(kvr_plain_name("a\0b", 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_names),
        cmocka_unit_test(other_names),
    };

    return cmocka_run_group_tests_name("plain_name", tests, NULL, NULL);
}
