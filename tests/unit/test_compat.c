/* Goal: the refusal between two agents that do not fit names the field and both values. Frames of
 * any length are cut out of the bytes of a connection. */
#include "tests/support/check.h"

#include "wire/compat.h"
#include "wire/frame.h"

static struct kvr_compat llama(void)
{
    return (struct kvr_compat){"llama-3.1-8b", "bfloat16", 32, 8, 128};
}

static void compat_names_the_field_and_both_values(void **state)
{
    struct kvr_compat source = llama(), target = llama(), list[2] = {llama(), llama()};
    struct kvr_error error;

    (void)state;
    assert_int_equal(kvr_compat_check(&source, &target, &error), KVR_OK);
    target.kv_heads_total = 4;
    assert_int_equal(kvr_compat_check(&source, &target, &error), KVR_INCOMPATIBLE);
    assert_string_equal(error.detail, "num kv heads: the source has 8, the target has 4");
    strcpy(list[0].model, "qwen3");
    assert_int_equal(kvr_compat_check_any(list, 2, &target, 1, &error), KVR_INCOMPATIBLE);
    assert_string_equal(error.detail, "num kv heads: the source has 8, the target has 4");
    assert_int_equal(kvr_compat_check_any(list, 2, &source, 1, &error), KVR_OK);
    assert_int_equal(kvr_compat_check_any(list, 0, &source, 1, &error), KVR_OK);
    strcpy(target.dtype, "float8_e4m3");
    assert_int_equal(kvr_compat_check(&source, &target, NULL), KVR_INCOMPATIBLE);
}

static const struct kvr_write_limits least = {1, 1, KVR_CHUNK_BYTES_MIN, false};

static void compat_versions(void **state)
{
    struct kvr_msg_hello source = {1, 3, .boot = 1, .beat_ms = 1000, .limits = least};
    struct kvr_msg_hello target = {2, 5, .boot = 2, .beat_ms = 1000, .limits = least};
    struct kvr_error error;
    uint32_t version = 0;

    (void)state;
    assert_int_equal(kvr_hello_check(&source, &target, &version, &error), KVR_OK);
    assert_int_equal(version, 3);
    target.version_min = 4;
    assert_int_equal(kvr_hello_check(&source, &target, &version, &error), KVR_VERSION);
    assert_string_equal(error.detail, "protocol version: the source speaks 1 to 3, the target "
                                      "speaks 4 to 5: upgrade both agents together");
    target.version_min = 1;
    target.beat_ms = 0;
    assert_int_equal(kvr_hello_check(&source, &target, &version, &error), KVR_INVALID);
    target.beat_ms = 1000;
    target.boot = 0;
    assert_int_equal(kvr_hello_check(&source, &target, &version, &error), KVR_INVALID);
}

/* A write without its tag would not count there. Rails for one host are paired with such rails. */
static void compat_rails_that_take_tags(void **state)
{
    struct kvr_rail_address ours[2] = {{.rail = 0, .tags = true}, {.rail = 1, .same_host = true}};
    struct kvr_rail_address theirs[2] = {{.rail = 4, .tags = true}, {.rail = 5, .same_host = true}};
    struct kvr_msg_hello source = {7, 7, .boot = 1, .beat_ms = 1000, .limits = least};
    struct kvr_msg_hello target = {7, 7, .boot = 2, .beat_ms = 1000, .limits = least};
    struct kvr_error error;
    uint32_t version = 0;

    (void)state;
    source.rails = ours;
    target.rails = theirs;
    source.rail_count = target.rail_count = 2;
    assert_int_equal(kvr_hello_check(&source, &target, &version, &error), KVR_OK);
    ours[0].tags = false;
    assert_int_equal(kvr_hello_check(&source, &target, &version, &error), KVR_INCOMPATIBLE);
    assert_string_equal(error.detail,
                        "tags: rail 4 of the target takes writes with tags alone, and "
                        "rail 0 of the source carries none: use the same libfabric "
                        "on both hosts");
    theirs[0].tags = false;
    assert_int_equal(kvr_hello_check(&source, &target, &version, &error), KVR_OK);
}

/* A plan divides by these limits. */
static void compat_write_limits(void **state)
{
    static const struct kvr_write_limits wrong[] = {
        {0, 1, 4096, false}, {1, 0, 4096, false}, {1, 1, 4095, false}, {0}};
    struct kvr_error error;
    uint32_t version = 0;

    (void)state;
    for (size_t i = 0; i < 2 * sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct kvr_msg_hello source = {2, 2, .boot = 1, .beat_ms = 1000, .limits = least};
        struct kvr_msg_hello target = source;
        struct kvr_msg_hello *either = i % 2 == 0 ? &source : &target;

        assert_int_equal(kvr_hello_check(&source, &target, &version, &error), KVR_OK);
        either->limits = wrong[i / 2];
        assert_int_equal(kvr_hello_check(&source, &target, &version, &error), KVR_INVALID);
        assert_non_null(strstr(error.detail, i % 2 == 0 ? "write limits: the source has"
                                                        : "write limits: the target has"));
    }
}

static void frame_of_any_length_is_cut_out(void **state)
{
    uint8_t *buffer = malloc(KVR_FRAME_BUFFER_BYTES), header[4];
    struct kvr_frame_parser parser;
    const uint8_t *frame;
    size_t room, bytes;

    (void)state;
    kvr_frame_parser_init(&parser, buffer);
    kvr_frame_header(KVR_FRAME_BYTES_MAX, header);
    for (size_t i = 0; i < KVR_FRAME_BYTES_MAX + 4; i++) {
        assert_int_equal(kvr_frame_parser_next(&parser, &frame, &bytes), KVR_AGAIN);
        *kvr_frame_parser_room(&parser, &room) = i < 4 ? header[i] : 7;
        kvr_frame_parser_filled(&parser, 1);
    }
    assert_int_equal(kvr_frame_parser_next(&parser, &frame, &bytes), KVR_OK);
    assert_int_equal(bytes, KVR_FRAME_BYTES_MAX);
    assert_int_equal(kvr_frame_parser_next(&parser, &frame, &bytes), KVR_AGAIN);

    kvr_frame_header(KVR_FRAME_BYTES_MAX + 1, kvr_frame_parser_room(&parser, &room));
    kvr_frame_parser_filled(&parser, 4);
    assert_int_equal(kvr_frame_parser_next(&parser, &frame, &bytes), KVR_MALFORMED);
    assert_int_equal(bytes, KVR_FRAME_BYTES_MAX + 1);
    free(buffer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compat_names_the_field_and_both_values),
        cmocka_unit_test(compat_versions),
        cmocka_unit_test(compat_rails_that_take_tags),
        cmocka_unit_test(compat_write_limits),
        cmocka_unit_test(frame_of_any_length_is_cut_out),
    };

    return cmocka_run_group_tests_name("compat", tests, NULL, NULL);
}
