#include "kv/layout.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

/* Errors begin with the region, because an engine may have hundreds. */
static kvr_status invalid(const struct kvr_region_layout *layout, struct kvr_error *error,
                          const char *format, ...) __attribute__((format(printf, 3, 4)));

static kvr_status invalid(const struct kvr_region_layout *layout, struct kvr_error *error,
                          const char *format, ...)
{
    char sentence[KVR_DETAIL_BYTES];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(sentence, sizeof(sentence), format, arguments);
    va_end(arguments);
    return kvr_error_set(error, KVR_INVALID, "layout", "region %" PRIu32 ": %s", layout->region,
                         sentence);
}

static kvr_status check_count(const struct kvr_region_layout *layout, const char *field,
                              uint64_t count, uint64_t count_max, struct kvr_error *error)
{
    if (count >= 1 && count <= count_max)
        return KVR_OK;
    return invalid(layout, error, "%s is %" PRIu64 ", allowed are 1 to %" PRIu64, field, count,
                   count_max);
}

static kvr_status check_parts(const struct kvr_region_layout *layout, struct kvr_error *error)
{
    uint32_t seen = 0;

    KVR_TRY(check_count(layout, "part_count", layout->part_count, KVR_PARTS_MAX, error));
    for (uint32_t i = 0; i < layout->part_count; i++) {
        uint8_t part = layout->parts[i];

        if (part < KVR_PART_K || part > KVR_PART_STATE)
            return invalid(layout, error, "parts[%" PRIu32 "] is %u, which is no part", i, part);
        if (seen & 1u << part)
            return invalid(layout, error, "parts[%" PRIu32 "] is %u, which is named twice", i,
                           part);
        seen |= 1u << part;
    }
    return KVR_OK;
}

/* Only a state's page holds all tokens of a request. */
static kvr_status check_page_tokens(const struct kvr_region_layout *layout, struct kvr_error *error)
{
    if (layout->page_tokens > 0)
        return check_count(layout, "page_tokens", layout->page_tokens, KVR_PAGE_ENDLESS - 1, error);
    if (layout->part_count == 1 && layout->parts[0] == KVR_PART_STATE)
        return KVR_OK;
    return invalid(layout, error,
                   "page_tokens is 0, which is one page a request: only a region of a state alone "
                   "may have that");
}

static kvr_status check_fields(const struct kvr_region_layout *layout, struct kvr_error *error)
{
    const struct {
        const char *field;
        uint64_t count, count_max;
    } counts[] = {
        {"layer_count", layout->layer_count, KVR_LAYERS_MAX},
        {"head_count", layout->head_count, UINT32_MAX},
        {"page_count", layout->page_count, UINT32_MAX},
        {"head_bytes", layout->head_bytes, UINT64_MAX},
        {"bytes", layout->bytes, UINT64_MAX},
    };

    if (layout->group >= KVR_GROUPS_MAX)
        return invalid(layout, error, "group is %" PRIu32 ", allowed are 0 to %d", layout->group,
                       KVR_GROUPS_MAX - 1);
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        KVR_TRY(check_count(layout, counts[i].field, counts[i].count, counts[i].count_max, error));
    }
    if (layout->layer_first > KVR_LAYERS_MAX - layout->layer_count)
        return invalid(layout, error,
                       "layer_first is %" PRIu32 ", so its %" PRIu32
                       " layers end beyond the limit of %d",
                       layout->layer_first, layout->layer_count, KVR_LAYERS_MAX);
    if (layout->head_first > UINT32_MAX - layout->head_count)
        return invalid(layout, error, "head_first is %" PRIu32 ", so %" PRIu32 " heads overflow",
                       layout->head_first, layout->head_count);
    KVR_TRY(check_parts(layout, error));
    return check_page_tokens(layout, error);
}

struct dimension {
    const char *field; /* of its stride */
    uint64_t count, stride;
};

/* Dimensions of size one have no stride; the others by stride, smallest first. */
static uint32_t sort_dimensions(const struct kvr_region_layout *layout,
                                struct dimension ret_sorted[5])
{
    const struct dimension all[5] = {
        {"head_stride", layout->head_count, layout->head_stride},
        {"token_stride", layout->page_tokens > 0 ? layout->page_tokens : 1, layout->token_stride},
        {"page_stride", layout->page_count, layout->page_stride},
        {"part_stride", layout->part_count, layout->part_stride},
        {"layer_stride", layout->layer_count, layout->layer_stride},
    };
    uint32_t count = 0;

    for (uint32_t i = 0; i < 5; i++) {
        uint32_t at = count;

        if (all[i].count == 1)
            continue;
        for (; at > 0 && ret_sorted[at - 1].stride > all[i].stride; at--)
            ret_sorted[at] = ret_sorted[at - 1];
        ret_sorted[at] = all[i];
        count++;
    }
    return count;
}

/* Pages are found one after the other: no engine has bytes of a page beyond the start of the next.
 */
static kvr_status check_nesting(const struct kvr_region_layout *layout, struct kvr_error *error)
{
    bool tokens = layout->page_tokens > 1 && layout->token_stride > layout->page_stride;
    bool heads = layout->head_count > 1 && layout->head_stride > layout->page_stride;

    if (layout->page_count == 1 || (!tokens && !heads))
        return KVR_OK;
    return invalid(layout, error,
                   "page_stride is %" PRIu64 ", less than %s of %" PRIu64
                   ", so a page does not lie in one piece of its region",
                   layout->page_stride, tokens ? "token_stride" : "head_stride",
                   tokens ? layout->token_stride : layout->head_stride);
}

/* Places do not overlap when each stride steps over all smaller dimensions. Strides that interleave
 * without nesting could also be free of overlaps, but no engine lays out pages so. */
static kvr_status check_places(const struct kvr_region_layout *layout, struct kvr_error *error)
{
    struct dimension sorted[5];
    uint32_t count = sort_dimensions(layout, sorted);
    uint64_t extent = layout->head_bytes, reach, end;

    for (uint32_t i = 0; i < count; i++) {
        if (sorted[i].stride < extent)
            return invalid(layout, error,
                           "%s is %" PRIu64 ", but %" PRIu64
                           " B lie inside each step, so places overlap",
                           sorted[i].field, sorted[i].stride, extent);
        if (__builtin_mul_overflow(sorted[i].stride, sorted[i].count - 1, &reach) ||
            __builtin_add_overflow(extent, reach, &extent))
            return invalid(layout, error, "%s is %" PRIu64 ", so %" PRIu64 " steps overflow",
                           sorted[i].field, sorted[i].stride, sorted[i].count);
    }
    if (__builtin_add_overflow(layout->base, extent, &end))
        return invalid(layout, error, "base is %" PRIu64 ", so the last page's end overflows",
                       layout->base);
    if (end > layout->bytes)
        return invalid(layout, error, "bytes is %" PRIu64 ", but its pages end at %" PRIu64,
                       layout->bytes, end);
    return KVR_OK;
}

kvr_status kvr_layout_check(const struct kvr_region_layout *layout, struct kvr_error *error)
{
    KVR_TRY(check_fields(layout, error));
    KVR_TRY(check_places(layout, error));
    return check_nesting(layout, error);
}

void kvr_layout_span(const struct kvr_region_layout *layout, uint32_t page_first,
                     uint32_t page_last, uint64_t *ret_first, uint64_t *ret_end)
{
    uint64_t tokens = layout->page_tokens > 0 ? layout->page_tokens : 1;

    *ret_first = layout->base + page_first * layout->page_stride;
    *ret_end = layout->base + (layout->layer_count - 1) * layout->layer_stride +
               (layout->part_count - 1) * layout->part_stride + page_last * layout->page_stride +
               (tokens - 1) * layout->token_stride +
               (layout->head_count - 1) * layout->head_stride + layout->head_bytes;
}
