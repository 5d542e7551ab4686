/* Goal: a layout that kvr_layout_check accepts names no byte outside its region, and none twice.
 * Method: 128-bit addresses: all places where they are few, and always the last one. */
#include <assert.h>
#include <stdlib.h>

#include "kv/layout.h"
#include "tests/support/layout_input.h"

#define PLACES_MAX 2048

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef unsigned __int128 wide;

static wide address(const struct kvr_region_layout *layout, const uint32_t at[5])
{
    return (wide)layout->base + (wide)at[0] * layout->layer_stride +
           (wide)at[1] * layout->part_stride + (wide)at[2] * layout->page_stride +
           (wide)at[3] * layout->token_stride + (wide)at[4] * layout->head_stride;
}

static int by_value(const void *a, const void *b)
{
    wide x = *(const wide *)a, y = *(const wide *)b;

    return x < y ? -1 : x > y;
}

/* Counts `at` up, the last dimension first; false after the last place. */
static bool advance(const uint32_t counts[5], uint32_t at[5])
{
    for (int i = 4; i >= 0; i--) {
        if (++at[i] < counts[i])
            return true;
        at[i] = 0;
    }
    return false;
}

static void check_places(const struct kvr_region_layout *layout)
{
    static wide places[PLACES_MAX];
    const uint32_t counts[5] = {layout->layer_count, layout->part_count, layout->page_count,
                                layout->page_tokens > 0 ? layout->page_tokens : 1,
                                layout->head_count};
    uint32_t at[5] = {0}, last[5], count = 0;
    wide all = 1;

    for (int i = 0; i < 5; i++) {
        last[i] = counts[i] - 1;
        all = all > PLACES_MAX ? all : all * counts[i];
    }
    assert(address(layout, last) + layout->head_bytes <= layout->bytes);
    if (layout->page_count > 1) { /* a page ends before the next begins */
        uint32_t first[5] = {0}, next[5] = {0, 0, 1};

        first[3] = last[3];
        first[4] = last[4];
        assert(address(layout, first) + layout->head_bytes <= address(layout, next));
    }
    if (all > PLACES_MAX)
        return;
    do
        places[count++] = address(layout, at);
    while (advance(counts, at));
    qsort(places, count, sizeof(places[0]), by_value);
    for (uint32_t i = 1; i < count; i++)
        assert(places[i - 1] + layout->head_bytes <= places[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct layout_input input = {.data = data, .size = size};
    struct kvr_region_layout layouts[2];
    const struct kvr_layout_list source = {layouts, 1}, target = {layouts + 1, 1};
    struct kvr_error error;

    for (int i = 0; i < 2; i++) {
        layout_input_layout(&input, &layouts[i]);
        if (kvr_layout_check(&layouts[i], &error) == KVR_OK)
            check_places(&layouts[i]);
    }
    if (kvr_layout_match(layouts, 1, layouts + 1, 1, layouts[1].group, &error) == KVR_OK &&
        kvr_layout_covers(&source, 1, &target, layouts[1].group, &error) == KVR_OK)
        assert(layouts[0].head_bytes == layouts[1].head_bytes &&
               layouts[0].layer_count >= layouts[1].layer_count &&
               layouts[0].head_count >= layouts[1].head_count);
    return 0;
}
