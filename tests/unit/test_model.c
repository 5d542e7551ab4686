/* Goal: a scaled model has exactly the requested bytes a token, in whole words, or the refusal
 * names the nearest size that works. */
#include "tests/support/check.h"

#include <stdio.h>

#include "tools/replay/model.h"

static void presets_have_their_published_sizes(void **state)
{
    static const struct {
        const char *name;
        uint64_t token_bytes;
    } sizes[] = {{"llama-3.1-8b", 131072}, {"llama-3.1-70b", 327680}, {"qwen3-235b-a22b", 192512},
                 {"deepseek-v3", 70272},   {"gpt-oss-120b", 73728},   {"qwen3-next", 24576}};
    struct model_geometry geometry;

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        assert_non_null(model_find(sizes[i].name));
        assert_int_equal(model_scale(model_find(sizes[i].name), 0, 0, NULL, &geometry), KVR_OK);
        assert_int_equal(geometry.token_bytes, sizes[i].token_bytes);
        assert_string_equal(geometry.scaling, "");
        assert_non_null(strstr(MODEL_NAMES, sizes[i].name));
    }
    assert_null(model_find("gpt-2"));
}

static void scaling_is_exact_and_said(void **state)
{
    const char *name = MODEL_NAMES;
    char text[64];

    (void)state;
    for (size_t length; *name != '\0'; name += length + (name[length] == '|')) {
        length = strcspn(name, "|");
        snprintf(text, sizeof(text), "%.*s", (int)length, name);
        for (uint32_t layers = 1; layers <= 100; layers++) {
            uint64_t bytes = model_nearest_token_bytes(model_find(text), layers, 8192);
            struct model_geometry geometry;

            assert_int_equal(model_scale(model_find(text), layers, bytes, NULL, &geometry), KVR_OK);
            assert_int_equal((geometry.kinds[MODEL_FULL] + geometry.kinds[MODEL_WINDOW]) *
                                 geometry.model->part_count * geometry.heads *
                                 (uint64_t)geometry.head_bytes,
                             bytes);
            assert_int_equal(geometry.layers, layers);
            assert_int_equal(geometry.kinds[0] + geometry.kinds[1] + geometry.kinds[2], layers);
            assert_true(geometry.kinds[MODEL_FULL] > 0);
            assert_int_equal(geometry.state_bytes % (8 * MODEL_STATE_TOKENS), 0);
            assert_true((geometry.state_bytes > 0) == (geometry.model->state_bytes > 0));
            assert_int_equal(geometry.head_bytes % 8, 0);
            assert_true(geometry.scaling[0] != '\0');
        }
    }
}

/* A model cut to fewer layers keeps the pattern's end: full attention comes last. */
static void hybrid_layers_follow_their_pattern(void **state)
{
    const struct model *model = model_find("qwen3-next");
    struct model_geometry geometry;

    (void)state;
    assert_int_equal(model_scale(model, 0, 0, NULL, &geometry), KVR_OK);
    assert_int_equal(geometry.kinds[MODEL_FULL], 12);
    assert_int_equal(geometry.kinds[MODEL_STATE], 36);
    assert_int_equal(geometry.state_bytes, 1097728);
    for (uint32_t layer = 0; layer < 48; layer++)
        assert_int_equal(model_layer_kind(model, 48, layer),
                         layer % 4 == 3 ? MODEL_FULL : MODEL_STATE);
    assert_int_equal(model_layer_kind(model, 6, 5), MODEL_FULL);
    assert_int_equal(model_layer_kind(model, 6, 1), MODEL_FULL);
    assert_int_equal(model_layer_kind(model, 6, 0), MODEL_STATE);
    assert_int_equal(model_layer_kind(model_find("gpt-oss-120b"), 36, 0), MODEL_WINDOW);
    assert_int_equal(model_layer_kind(model_find("llama-3.1-8b"), 32, 0), MODEL_FULL);
}

static void default_keeps_all_heads(void **state)
{
    struct model_geometry geometry;

    (void)state;
    assert_int_equal(model_scale(model_find("llama-3.1-8b"), 8, 8192, NULL, &geometry), KVR_OK);
    assert_int_equal(geometry.heads, 8);
    assert_int_equal(geometry.head_bytes, 64);
    assert_string_equal(geometry.scaling,
                        "llama-3.1-8b is scaled: 8 of 32 layers, 8 of 8 heads, 64 of 256 bytes a "
                        "head, 8192 of 131072 bytes a token");
}

static void what_does_not_fit_is_refused_with_the_nearest(void **state)
{
    struct kvr_error error = {0};
    struct model_geometry geometry;

    (void)state;
    assert_int_equal(model_scale(model_find("deepseek-v3"), 61, 8192, &error, &geometry),
                     KVR_INVALID);
    assert_non_null(strstr(error.detail, "nearest that can is 8296"));
    assert_int_equal(model_scale(model_find("llama-3.1-8b"), 8, 4, &error, &geometry), KVR_INVALID);
    assert_non_null(strstr(error.detail, "nearest that can is 128"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(presets_have_their_published_sizes),
        cmocka_unit_test(scaling_is_exact_and_said),
        cmocka_unit_test(hybrid_layers_follow_their_pattern),
        cmocka_unit_test(default_keeps_all_heads),
        cmocka_unit_test(what_does_not_fit_is_refused_with_the_nearest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
