#include "tests/support/layout_input.h"

uint64_t layout_input_number(struct layout_input *input, uint32_t byte_count)
{
    uint64_t number = 0;

    for (uint32_t i = 0; i < byte_count && input->used < input->size; i++)
        number |= (uint64_t)input->data[input->used++] << 8 * i;
    return number;
}

static uint32_t small(struct layout_input *input, uint32_t bound)
{
    return (uint32_t)layout_input_number(input, 1) % bound;
}

static void any_layout(struct layout_input *input, struct kvr_region_layout *layout)
{
    uint32_t *const words[] = {
        &layout->region,      &layout->group,       &layout->layer_first,
        &layout->layer_count, &layout->part_count,  &layout->head_first,
        &layout->head_count,  &layout->page_tokens, &layout->page_count,
    };
    uint64_t *const longs[] = {
        &layout->bytes,       &layout->base,         &layout->layer_stride, &layout->part_stride,
        &layout->page_stride, &layout->token_stride, &layout->head_stride,  &layout->head_bytes,
    };

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        *words[i] = (uint32_t)layout_input_number(input, 4);
    for (size_t i = 0; i < sizeof(longs) / sizeof(longs[0]); i++)
        *longs[i] = layout_input_number(input, 8);
    for (size_t i = 0; i < KVR_PARTS_MAX; i++)
        layout->parts[i] = (uint8_t)layout_input_number(input, 1);
}

/* Two bits give the stride against its contents: equal, with a gap, shifted far, short. */
static uint64_t add_dimension(struct layout_input *input, uint32_t count, uint64_t *extent)
{
    uint32_t kind = small(input, 16);
    uint64_t stride = *extent;

    if (kind == 1)
        stride += small(input, 255);
    if (kind == 2)
        stride <<= small(input, 40);
    if (kind == 3)
        stride -= 1;
    *extent += stride * (count - 1);
    return stride;
}

static void near_layout(struct layout_input *input, struct kvr_region_layout *layout)
{
    uint32_t order = small(input, 4), tokens;
    uint64_t extent;

    layout->region = small(input, 4);
    layout->layer_first = small(input, 4);
    layout->layer_count = 1 + small(input, 4);
    layout->part_count = 1 + small(input, 2);
    layout->parts[0] = (uint8_t)(KVR_PART_K + small(input, 5));
    layout->parts[1] = (uint8_t)(1 + layout->parts[0] % 5);
    layout->head_first = small(input, 3);
    layout->head_count = 1 + small(input, 4);
    layout->page_tokens = 1 + small(input, 5);
    if (layout->part_count == 1 && layout->parts[0] == KVR_PART_STATE && small(input, 2) == 1)
        layout->page_tokens = 0;
    tokens = layout->page_tokens > 0 ? layout->page_tokens : 1;
    layout->page_count = 1 + small(input, 32);
    layout->head_bytes = (1 + layout_input_number(input, 1)) << small(input, 48);
    extent = layout->head_bytes;
    if (order & 1) {
        layout->head_stride = add_dimension(input, layout->head_count, &extent);
        layout->token_stride = add_dimension(input, tokens, &extent);
    } else {
        layout->token_stride = add_dimension(input, tokens, &extent);
        layout->head_stride = add_dimension(input, layout->head_count, &extent);
    }
    if (order & 2)
        layout->page_stride = add_dimension(input, layout->page_count, &extent);
    layout->part_stride = add_dimension(input, layout->part_count, &extent);
    layout->layer_stride = add_dimension(input, layout->layer_count, &extent);
    if (!(order & 2))
        layout->page_stride = add_dimension(input, layout->page_count, &extent);
    layout->base = small(input, 8) * (uint64_t)small(input, 255);
    layout->bytes = layout->base + extent + small(input, 4) - (small(input, 32) == 1);
}

void layout_input_layout(struct layout_input *input, struct kvr_region_layout *ret_layout)
{
    *ret_layout = (struct kvr_region_layout){0};
    if (small(input, 8) == 1)
        any_layout(input, ret_layout);
    else
        near_layout(input, ret_layout);
}
