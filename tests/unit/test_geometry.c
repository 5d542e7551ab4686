/* Goal: what an agent writes of an engine's pages is read as it was, and other text is refused.
 * Method: texts out and in; texts by heart; the layouts of an engine by heart. */
#include "tests/support/check.h"

#include <stdio.h>

#include "agent/core/region_set.h"
#include "trace/geometry.h"

static void geometries_come_back_as_they_were(void **state)
{
    struct kvr_geometry out = {.dtype = "bfloat16", .layers = 32, .group_count = 2}, in;
    char text[KVR_GEOMETRY_BYTES];

    (void)state;
    out.groups[0] = (struct kvr_geometry_group){0, 32, 16, 65536};
    out.groups[1] = (struct kvr_geometry_group){3, 4, 0, 2048};
    kvr_geometry_write(&out, text);
    assert_string_equal(text, "bfloat16 32 0:32:16:65536 3:4:0:2048");
    assert_true(kvr_geometry_read(text, &in));
    assert_memory_equal(&in, &out, sizeof(in));
    out = (struct kvr_geometry){.layers = 1};
    kvr_geometry_write(&out, text);
    assert_string_equal(text, "- 1");
    assert_true(kvr_geometry_read(text, &in));
    assert_memory_equal(&in, &out, sizeof(in));
}

static void what_has_no_room_is_left_out(void **state)
{
    static struct kvr_geometry out, in;
    char text[KVR_GEOMETRY_BYTES];

    (void)state;
    snprintf(out.dtype, sizeof(out.dtype), "float8_e4m3fn");
    out.group_count = KVR_GROUPS_MAX;
    for (uint32_t i = 0; i < KVR_GROUPS_MAX; i++)
        out.groups[i] = (struct kvr_geometry_group){i, 10, 4096, 1000000000};
    kvr_geometry_write(&out, text);
    assert_non_null(strstr(text, " ..."));
    assert_true(kvr_geometry_read(text, &in));
    assert_in_range(in.group_count, 5, KVR_GROUPS_MAX - 1);
    assert_memory_equal(in.groups, out.groups, in.group_count * sizeof(in.groups[0]));
}

static void other_text_is_refused(void **state)
{
    static const char *const texts[] = {"",
                                        " ",
                                        "bfloat16",
                                        "bfloat16 ",
                                        "bfloat16 x",
                                        "bfloat16 257",
                                        "a_type_of_far_too_many_letters 1",
                                        "- 1 0",
                                        "- 1 0:1",
                                        "- 1 0:1:1",
                                        "- 1 32:1:1:1",
                                        "- 1 0:1:1:-1",
                                        "- 1 0:1:1:1:1",
                                        "- 1 0:1:4294967296:1"};
    struct kvr_geometry in;

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if (kvr_geometry_read(texts[i], &in))
            fail_msg("\"%s\" was read", texts[i]);
}

/* K and V in two regions, and a state in a third one. */
static void an_engine_s_layouts_are_one_geometry(void **state)
{
    struct kvr_region_layout layouts[] = {
        {.group = 0,
         .layer_count = 4,
         .part_count = 1,
         .head_count = 8,
         .page_tokens = 16,
         .head_bytes = 256},
        {.group = 0,
         .layer_count = 4,
         .part_count = 1,
         .head_count = 8,
         .page_tokens = 16,
         .head_bytes = 256},
        {.group = 2,
         .layer_first = 4,
         .layer_count = 2,
         .part_count = 1,
         .head_count = 1,
         .head_bytes = 1000},
    };
    const struct kvr_region_set set = {.count = 3, .layouts = layouts};
    const struct kvr_compat compat = {.dtype = "bfloat16", .layers_total = 6};
    char text[KVR_GEOMETRY_BYTES];

    (void)state;
    kvr_region_set_geometry(&set, &compat, text);
    assert_string_equal(text, "bfloat16 6 0:4:16:65536 2:2:0:1000");
    kvr_region_set_geometry(NULL, &compat, text);
    assert_string_equal(text, "bfloat16 6");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(geometries_come_back_as_they_were),
        cmocka_unit_test(what_has_no_room_is_left_out),
        cmocka_unit_test(other_text_is_refused),
        cmocka_unit_test(an_engine_s_layouts_are_one_geometry),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
