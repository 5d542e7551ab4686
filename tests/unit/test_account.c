/* Goal: a user or group is found by name and by number, and nothing else is taken for one. Method:
 * root, which every host has, and texts that are nearly numbers. */
#include "tests/support/check.h"

#include "base/account.h"

static void names_and_numbers_are_found(void **state)
{
    uid_t user = 7;
    gid_t group = 7;

    (void)state;
    assert_true(kvr_user_find("root", &user) && user == 0);
    assert_true(kvr_group_find("root", &group) && group == 0);
    assert_true(kvr_user_find("4242424", &user) && user == 4242424);
    assert_true(kvr_group_find("4294967294", &group) && group == 4294967294);
}

static void other_texts_are_refused(void **state)
{
    static const char *const texts[] = {
        "",           "nobody-of-that-name", "-1", "+1", " 1", "1x", "4294967295",
        "4294967296", "99999999999999999999"};
    uid_t user = 7;
    gid_t group = 7;

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        assert_false(kvr_user_find(texts[i], &user));
        assert_false(kvr_group_find(texts[i], &group));
    }
    assert_true(user == 7 && group == 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_numbers_are_found),
        cmocka_unit_test(other_texts_are_refused),
    };

    return cmocka_run_group_tests_name("account", tests, NULL, NULL);
}
