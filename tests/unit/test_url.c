/* Goal: the ways to write where a scheduler is mean the same, and nothing else is taken for one. */
#include "tests/support/check.h"

#include "base/url.h"

static void urls_are_read(void **state)
{
    static const struct {
        const char *text;
        bool https;
        const char *url; /* NULL: refused */
    } cases[] = {
        {"10.0.0.5", false, "http://10.0.0.5:9470"},
        {"10.0.0.5", true, "https://10.0.0.5:9470"},
        {"s.example:80", false, "http://s.example:80"},
        {"http://s.example", true, "http://s.example:9470"},
        {"HTTPS://s.example:443/", false, "https://s.example:443"},
        {"https://[::1]:1", false, "https://[::1]:1"},
        {"", false, NULL},
        {"http://", false, NULL},
        {"http:///", false, NULL},
        {"ftp://s", false, NULL},
        {"http://s/api", false, NULL},
        {"http://s?token=x", false, NULL},
        {"http://user:secret@s", false, NULL},
        {"s:99999", false, NULL},
    };
    char url[KVR_URL_BYTES];
    struct kvr_error error;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        kvr_status status = kvr_url_parse(cases[i].text, 9470, cases[i].https, url, &error);

        if ((status == KVR_OK) != (cases[i].url != NULL))
            fail_msg("'%s' was %s", cases[i].text, status == KVR_OK ? url : "refused");
        if (cases[i].url != NULL)
            assert_string_equal(url, cases[i].url);
    }
    assert_int_equal(kvr_url_scheme("https://s"), 8);
    assert_int_equal(kvr_url_scheme("HTTP://s"), 7);
    assert_int_equal(kvr_url_scheme("s"), 0);
    assert_true(kvr_url_encrypted("https://s:1") && !kvr_url_encrypted("http://s:1"));
    assert_true(kvr_url_is_loopback("https://localhost:1"));
    assert_true(kvr_url_is_loopback("http://[::1]:1"));
    assert_false(kvr_url_is_loopback("http://10.0.0.5:1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(urls_are_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
