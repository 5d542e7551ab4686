/* Goal: every status has a name of its own that leads back to it, and an error record always ends
 * in a NUL. Method: walk the list itself. */
#include "tests/support/check.h"

#include <errno.h>

#include "base/status.h"

static void status_names_lead_back(void **state)
{
    static const kvr_status all[] = {
#define X(symbol, value, name, text) symbol,
        KVR_STATUS_LIST(X)
#undef X
    };

    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        bool known = false;

        assert_true(kvr_status_known(all[i]));
        assert_int_equal(kvr_status_from_name(kvr_status_name(all[i]), &known), all[i]);
        assert_true(known);
        assert_true(strlen(kvr_status_text(all[i])) > 0);
    }
}

static void status_unknown_is_said(void **state)
{
    bool known = true;

    (void)state;
    assert_string_equal(kvr_status_name((kvr_status)1234), "?");
    assert_false(kvr_status_known(1234));
    assert_int_equal(kvr_status_from_name("no such status", &known), KVR_INTERNAL);
    assert_false(known);
    assert_int_equal(kvr_status_from_name("nor this", NULL), KVR_INTERNAL);
}

static void status_error_records_what_failed(void **state)
{
    struct kvr_error error = {.provider_code = 7};

    (void)state;
    assert_int_equal(kvr_error_set(&error, KVR_TOO_LARGE, "plan", "%d pages, at most %d", 9, 8),
                     KVR_TOO_LARGE);
    assert_int_equal(error.status, KVR_TOO_LARGE);
    assert_int_equal(error.provider_code, 0);
    assert_string_equal(error.where, "plan");
    assert_string_equal(error.detail, "9 pages, at most 8");
    assert_int_equal(kvr_error_system(&error, "listen", ENOENT, "open %s", "/x"), KVR_SYSTEM);
    assert_int_equal(error.os_errno, ENOENT);
    assert_string_equal(error.detail, "open /x: No such file or directory");
    assert_int_equal(kvr_error_set(NULL, KVR_FULL, "plan", "nobody listens"), KVR_FULL);
}

static void status_error_cuts_long_sentences(void **state)
{
    struct kvr_error error;
    char name[1000];

    (void)state;
    memset(name, 'a', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    (void)kvr_error_set(&error, KVR_INVALID, "test", "%s", name);
    assert_int_equal(strlen(error.detail), KVR_DETAIL_BYTES - 1);
    (void)kvr_error_system(&error, "test", EIO, "%s", name);
    assert_int_equal(strlen(error.detail), KVR_DETAIL_BYTES - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(status_names_lead_back),
        cmocka_unit_test(status_unknown_is_said),
        cmocka_unit_test(status_error_records_what_failed),
        cmocka_unit_test(status_error_cuts_long_sentences),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
