#include "tests/support/check.h"

#include <math.h>
#include <stdio.h>

#include "base/text.h"
#include "tests/support/json_case.h"

static bool is_near(double one, double other)
{
    return fabs(one - other) <= 1e-11 * fmax(fabs(one), fabs(other));
}

static void expect_members(json_t *found, json_t *wanted)
{
    void *at = json_object_iter(found);
    const char *key;
    json_t *value;

    assert_int_equal(json_object_size(found), json_object_size(wanted));
    json_object_foreach(wanted, key, value)
    {
        assert_string_equal(json_object_iter_key(at), key);
        expect_json(key, json_object_iter_value(at), value);
        at = json_object_iter_next(found, at);
    }
}

void expect_json(const char *where, json_t *found, json_t *wanted)
{
    if (json_typeof(found) != json_typeof(wanted))
        fail_msg("%s is of another kind", where);
    if (json_is_object(wanted)) {
        expect_members(found, wanted);
    } else if (json_is_array(wanted)) {
        assert_int_equal(json_array_size(found), json_array_size(wanted));
        for (size_t i = 0; i < json_array_size(wanted); i++)
            expect_json(where, json_array_get(found, i), json_array_get(wanted, i));
    } else if (json_is_real(wanted)) {
        if (!is_near(json_real_value(found), json_real_value(wanted)))
            fail_msg("%s is %.17g, not %.17g", where, json_real_value(found),
                     json_real_value(wanted));
    } else if (!json_equal(found, wanted)) {
        fail_msg("%s differs", where);
    }
}

json_t *json_case_uuid(const struct kvr_uuid *uuid)
{
    static const struct kvr_uuid none;
    char text[2 * sizeof(uuid->bytes) + 5], *to = text;

    if (kvr_uuid_equal(uuid, &none))
        return json_null();
    for (size_t i = 0; i < sizeof(uuid->bytes); i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *to++ = '-';
        to += sprintf(to, "%02x", uuid->bytes[i]);
    }
    return json_string(text);
}

uint64_t json_case_number(struct kvr_rng *rng)
{
    return kvr_rng_next(rng) >> kvr_rng_below(rng, 64);
}

void json_case_name(struct kvr_rng *rng, char *to, size_t capacity, bool raw)
{
    static const char *const parts[] = {"\"",       "\\",       "/",
                                        "\t",       "\x1b[2J",  "\x7f",
                                        "\xc3\xa9", "\xc2\x85", "\xf0\x9f\x98\x80",
                                        "\xff",     "\xc3",     "\xed\xa0\x80",
                                        "a",        "mlx5_0",   "</script>",
                                        "%s"};
    char text[400] = "";
    uint64_t count = kvr_rng_below(rng, 8);

    for (uint64_t i = 0; i < count; i++)
        strcat(text, parts[kvr_rng_below(rng, sizeof(parts) / sizeof(parts[0]))]);
    if (raw)
        snprintf(to, capacity, "%s", text);
    else
        kvr_text_show(text, capacity, to);
}
