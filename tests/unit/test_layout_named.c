/* Goal: a layout made by name equals the engine's tensor, byte for byte; an impossible one is
 * refused naming the field. Method: the strides against those of the tensors' shapes, written out
 * by hand. */
#include "tests/support/check.h"

#include "kv/layout.h"
#include "kv/layout_named.h"

/* 3 layers, 5 pages of 16 tokens, 4 heads of 64 elements of 2 bytes. */
static struct kvr_layout_shape shape(void)
{
    return (struct kvr_layout_shape){
        .region = 9,
        .group = 1,
        .layer_first = 6,
        .layer_count = 3,
        .head_first = 4,
        .head_count = 4,
        .page_tokens = 16,
        .page_count = 5,
        .head_dim = 64,
        .element_bytes = 2,
        .base = 256,
    };
}

struct strides {
    uint64_t layer, part, page, token, head, head_bytes, bytes;
};

static void expect(kvr_layout_name name, uint32_t part_count, uint8_t part,
                   const struct strides *strides)
{
    struct kvr_layout_shape one = shape();
    struct kvr_region_layout layout;
    struct kvr_error error = {0};
    kvr_layout_name found;

    if (name == KVR_LAYOUT_MLA || name == KVR_LAYOUT_STATE) {
        one.head_first = 0;
        one.head_count = 1;
    }
    if (kvr_layout_make(name, &one, &layout, &error) != KVR_OK)
        fail_msg("%s: %s", kvr_layout_name_text(name), error.detail);
    assert_int_equal(layout.part_count, part_count);
    assert_int_equal(layout.parts[0], part);
    assert_int_equal(layout.layer_stride, strides->layer);
    if (part_count > 1)
        assert_int_equal(layout.part_stride, strides->part);
    assert_int_equal(layout.page_stride, strides->page);
    assert_int_equal(layout.token_stride, strides->token);
    if (one.head_count > 1)
        assert_int_equal(layout.head_stride, strides->head);
    assert_int_equal(layout.head_bytes, strides->head_bytes);
    assert_int_equal(layout.bytes, 256 + strides->bytes);
    assert_int_equal(layout.group, 1);
    assert_int_equal(layout.layer_first, 6);
    assert_int_equal(layout.head_first, one.head_first);
    assert_true(kvr_layout_name_find(kvr_layout_name_text(name), &found));
    assert_int_equal(found, name);
}

static void layout_names_are_the_engines_tensors(void **state)
{
    const uint64_t head = 128, token = 4 * head, page = 16 * token, part = 5 * page;

    (void)state;
    expect(KVR_LAYOUT_VLLM_NHD, 2, KVR_PART_K,
           &(struct strides){2 * part, part, page, token, head, head, 3 * 2 * part});
    expect(KVR_LAYOUT_VLLM_HND, 2, KVR_PART_K,
           &(struct strides){2 * part, part, page, head, 16 * head, head, 3 * 2 * part});
    expect(KVR_LAYOUT_VLLM_PAGES_NHD, 2, KVR_PART_K,
           &(struct strides){2 * part, page, 2 * page, token, head, head, 3 * 2 * part});
    expect(KVR_LAYOUT_VLLM_PAGES_HND, 2, KVR_PART_K,
           &(struct strides){2 * part, page, 2 * page, head, 16 * head, head, 3 * 2 * part});
    expect(KVR_LAYOUT_VLLM_CROSS_NHD, 2, KVR_PART_K,
           &(struct strides){2 * page, page, 6 * page, token, head, head, 3 * 2 * part});
    expect(KVR_LAYOUT_VLLM_CROSS_HND, 2, KVR_PART_K,
           &(struct strides){2 * 16 * head, 16 * head, 6 * page, head, 6 * 16 * head, head,
                             3 * 2 * part});
    expect(KVR_LAYOUT_SGLANG_K, 1, KVR_PART_K,
           &(struct strides){part, 0, page, token, head, head, 3 * part});
    expect(KVR_LAYOUT_SGLANG_V, 1, KVR_PART_V,
           &(struct strides){part, 0, page, token, head, head, 3 * part});
    expect(KVR_LAYOUT_MLA, 1, KVR_PART_MLA,
           &(struct strides){5 * 16 * head, 0, 16 * head, head, 0, head, 3 * 5 * 16 * head});
    expect(KVR_LAYOUT_FUSED_NHD, 1, KVR_PART_KV,
           &(struct strides){2 * part, 0, 2 * page, 2 * token, 2 * head, 2 * head, 6 * part});
    expect(KVR_LAYOUT_FUSED_HND, 1, KVR_PART_KV,
           &(struct strides){2 * part, 0, 2 * page, 2 * head, 32 * head, 2 * head, 6 * part});
    expect(KVR_LAYOUT_STATE, 1, KVR_PART_STATE,
           &(struct strides){5 * head, 0, head, head / 16, 0, head / 16, 3 * 5 * head});
}

/* One page a request: the state need not be divided among tokens. */
static void layout_names_a_state_of_one_page(void **state)
{
    struct kvr_layout_shape one = shape();
    struct kvr_region_layout layout;

    (void)state;
    one.head_first = 0;
    one.head_count = 1;
    one.head_dim = 7;
    one.page_tokens = 0;
    assert_int_equal(kvr_layout_make(KVR_LAYOUT_STATE, &one, &layout, NULL), KVR_OK);
    assert_int_equal(layout.page_tokens, 0);
    assert_int_equal(layout.head_bytes, 14);
    assert_int_equal(layout.page_stride, 14);
    assert_int_equal(layout.layer_stride, 14 * one.page_count);
}

static void refused(kvr_layout_name name, const struct kvr_layout_shape *one, const char *sentence)
{
    struct kvr_region_layout layout = {.region = 77};
    struct kvr_error error = {0};

    assert_int_equal(kvr_layout_make(name, one, &layout, &error), KVR_INVALID);
    assert_string_equal(error.detail, sentence);
    assert_int_equal(layout.region, 77);
}

static void layout_names_refuse_what_cannot_be(void **state)
{
    struct kvr_layout_shape one = shape();
    kvr_layout_name name;

    (void)state;
    one.element_bytes = 3;
    refused(KVR_LAYOUT_VLLM_NHD, &one,
            "region 9: element_bytes is 3, allowed are 1, 2, 4, 8 and 16");
    one = shape();
    one.base = 255;
    refused(KVR_LAYOUT_VLLM_NHD, &one, "region 9: base is 255, no multiple of the element's 2 B");
    one = shape();
    refused(KVR_LAYOUT_MLA, &one, "region 9: heads 4 to 7, but mla has head 0 alone");
    one.head_first = 0;
    one.head_count = 1;
    one.head_dim = 7;
    refused(KVR_LAYOUT_STATE, &one,
            "region 9: a state of 14 B is no multiple of the 16 tokens of its page");
    one = shape();
    one.bytes = 1000;
    refused(KVR_LAYOUT_VLLM_NHD, &one, "region 9: bytes is 1000, but its pages end at 246016");
    one = shape();
    one.page_count = one.page_tokens = one.head_dim = UINT32_MAX;
    refused(KVR_LAYOUT_VLLM_NHD, &one, "region 9: its sizes are more than 2^64 bytes");
    one = shape();
    one.head_first = 0;
    one.head_count = 1;
    one.page_tokens = 0;
    refused(KVR_LAYOUT_MLA, &one,
            "region 9: page_tokens is 0, which is one page a request: only a region of a state "
            "alone may have that");
    assert_false(kvr_layout_name_find("vllm", &name));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layout_names_are_the_engines_tensors),
        cmocka_unit_test(layout_names_a_state_of_one_page),
        cmocka_unit_test(layout_names_refuse_what_cannot_be),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
