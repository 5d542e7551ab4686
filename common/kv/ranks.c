#include "kv/ranks.h"

#include <inttypes.h>

/* ---- what a rank holds ----------------------------------------------------------------------- */

struct heads {
    uint32_t first, count; /* count 0: none */
};

/* The heads of every layer of a group. */
static kvr_status read_heads(const struct kvr_region_layout *layouts, uint32_t layout_count,
                             uint32_t group, struct heads heads[KVR_LAYERS_MAX],
                             struct kvr_error *error)
{
    memset(heads, 0, KVR_LAYERS_MAX * sizeof(*heads));
    for (uint32_t i = 0; i < layout_count; i++) {
        const struct kvr_region_layout *layout = &layouts[i];

        if (layout->group != group)
            continue;
        if (layout->layer_first > KVR_LAYERS_MAX ||
            layout->layer_count > KVR_LAYERS_MAX - layout->layer_first)
            return kvr_error_set(error, KVR_INVALID, "ranks",
                                 "region %" PRIu32 ": its layers end beyond the limit of %d",
                                 layout->region, KVR_LAYERS_MAX);
        for (uint32_t layer = layout->layer_first;
             layer < layout->layer_first + layout->layer_count; layer++) {
            struct heads *known = &heads[layer];

            if (known->count > 0 &&
                (known->first != layout->head_first || known->count != layout->head_count))
                return kvr_error_set(error, KVR_INVALID, "ranks",
                                     "layer %" PRIu32 " of group %" PRIu32 ": one part has %" PRIu32
                                     " heads from %" PRIu32 ", another %" PRIu32 " from %" PRIu32,
                                     layer, group, known->count, known->first, layout->head_count,
                                     layout->head_first);
            *known = (struct heads){layout->head_first, layout->head_count};
        }
    }
    return KVR_OK;
}

kvr_status kvr_shares_of_layouts(const struct kvr_region_layout *layouts, uint32_t layout_count,
                                 struct kvr_shares *ret_shares, struct kvr_error *error)
{
    struct heads heads[KVR_LAYERS_MAX];

    ret_shares->count = 0;
    for (uint32_t group = 0; group < KVR_GROUPS_MAX; group++) {
        struct kvr_share *last = NULL;
        kvr_status status = read_heads(layouts, layout_count, group, heads, error);

        if (status != KVR_OK)
            return status;
        for (uint32_t layer = 0; layer < KVR_LAYERS_MAX; layer++) {
            if (heads[layer].count == 0)
                continue;
            if (last != NULL && last->layer_first + last->layer_count == layer &&
                last->head_first == heads[layer].first && last->head_count == heads[layer].count) {
                last->layer_count++;
                continue;
            }
            if (ret_shares->count == KVR_SHARES_MAX)
                return kvr_error_set(error, KVR_TOO_LARGE, "ranks",
                                     "a rank's heads differ from layer to layer more than %d times",
                                     KVR_SHARES_MAX);
            last = &ret_shares->shares[ret_shares->count++];
            *last = (struct kvr_share){group, layer, 1, heads[layer].first, heads[layer].count};
        }
    }
    return KVR_OK;
}

kvr_status kvr_share_of_rank(const struct kvr_rank *rank, uint32_t group, uint32_t layers_total,
                             uint32_t heads_total, struct kvr_share *ret_share,
                             struct kvr_error *error)
{
    uint32_t each, left, stage = rank->pp;
    struct kvr_share share = {.group = group};

    if (rank->tp >= rank->tp_size || rank->pp >= rank->pp_size || layers_total < rank->pp_size ||
        heads_total == 0)
        return kvr_error_set(error, KVR_INVALID, "ranks",
                             "rank tp %" PRIu32 " of %" PRIu32 ", pp %" PRIu32 " of %" PRIu32
                             ", of %" PRIu32 " layers and %" PRIu32 " heads",
                             rank->tp, rank->tp_size, rank->pp, rank->pp_size, layers_total,
                             heads_total);
    if (heads_total % rank->tp_size != 0 && rank->tp_size % heads_total != 0)
        return kvr_error_set(error, KVR_INCOMPATIBLE, "ranks",
                             "num kv heads: %" PRIu32 " heads cannot be cut for %" PRIu32 " ranks",
                             heads_total, rank->tp_size);
    share.head_count = heads_total >= rank->tp_size ? heads_total / rank->tp_size : 1;
    share.head_first = heads_total >= rank->tp_size ? rank->tp * share.head_count
                                                    : rank->tp / (rank->tp_size / heads_total);
    each = layers_total / rank->pp_size;
    left = layers_total % rank->pp_size; /* one each for stages pp_size - 1 - left … pp_size - 2 */
    share.layer_first = stage * each;
    share.layer_count = each;
    if (left > 0 && stage + 1 + left >= rank->pp_size) {
        uint32_t before = stage + 1 + left - rank->pp_size; /* earlier stages with one more */

        share.layer_first += before;
        share.layer_count += stage + 1 < rank->pp_size;
    }
    *ret_share = share;
    return KVR_OK;
}

/* ---- what two ranks have in common ----------------------------------------------------------- */

static bool ranges_meet(uint32_t a_first, uint32_t a_count, uint32_t b_first, uint32_t b_count)
{
    return a_first < b_first + b_count && b_first < a_first + a_count;
}

static bool share_meets(const struct kvr_share *a, const struct kvr_share *b)
{
    return a->group == b->group &&
           ranges_meet(a->layer_first, a->layer_count, b->layer_first, b->layer_count) &&
           ranges_meet(a->head_first, a->head_count, b->head_first, b->head_count);
}

bool kvr_shares_meet(const struct kvr_shares *a, const struct kvr_shares *b)
{
    for (uint32_t i = 0; i < a->count; i++) {
        for (uint32_t j = 0; j < b->count; j++) {
            if (share_meets(&a->shares[i], &b->shares[j]))
                return true;
        }
    }
    return false;
}

static bool has_cell(const struct kvr_shares *shares, const struct kvr_share *cell)
{
    for (uint32_t i = 0; i < shares->count; i++) {
        if (share_meets(&shares->shares[i], cell))
            return true; /* a cell lies wholly inside or outside, because of the cuts */
    }
    return false;
}

/* ---- which source gives what ----------------------------------------------------------------- */

/* The end of the cell that begins at (layer, head) in the target's share: the next place where a
 * source's share begins or ends. */
static void cut_end(uint32_t first, uint32_t count, uint32_t at, uint32_t *end)
{
    if (first > at && first < *end)
        *end = first;
    if (first + count > at && first + count < *end)
        *end = first + count;
}

static void cut_cell(const struct kvr_ranks_input *input, const struct kvr_share *share,
                     uint32_t layer, uint32_t head, struct kvr_share *ret_cell)
{
    uint32_t layer_end = share->layer_first + share->layer_count;
    uint32_t head_end = share->head_first + share->head_count;

    for (uint32_t i = 0; i < input->source_count; i++) {
        for (uint32_t j = 0; j < input->sources[i].count; j++) {
            const struct kvr_share *other = &input->sources[i].shares[j];

            if (other->group != share->group)
                continue;
            cut_end(other->layer_first, other->layer_count, layer, &layer_end);
            cut_end(other->head_first, other->head_count, head, &head_end);
        }
    }
    *ret_cell = (struct kvr_share){share->group, layer, layer_end - layer, head, head_end - head};
}

static kvr_status choose_source(const struct kvr_ranks_input *input, const struct kvr_share *cell,
                                uint32_t *ret_source, struct kvr_error *error)
{
    uint32_t holders[KVR_SOURCES_MAX], count = 0;

    for (uint32_t i = 0; i < input->source_count; i++) {
        if (has_cell(&input->sources[i], cell))
            holders[count++] = i;
    }
    if (count == 0)
        return kvr_error_set(error, KVR_INCOMPATIBLE, "ranks",
                             "layer %" PRIu32 " of group %" PRIu32
                             ": no source rank has head %" PRIu32 ", which the target has",
                             cell->layer_first, cell->group, cell->head_first);
    *ret_source = holders[(input->request % count + input->target_index) % count];
    return KVR_OK;
}

/* Joins two rectangles if the result is one; a is before b. */
static bool join(struct kvr_share *a, const struct kvr_share *b)
{
    if (a->group != b->group)
        return false;
    if (a->layer_first == b->layer_first && a->layer_count == b->layer_count &&
        a->head_first + a->head_count == b->head_first) {
        a->head_count += b->head_count;
        return true;
    }
    if (a->head_first == b->head_first && a->head_count == b->head_count &&
        a->layer_first + a->layer_count == b->layer_first) {
        a->layer_count += b->layer_count;
        return true;
    }
    return false;
}

struct gifts {
    struct kvr_gift *list;
    uint32_t count, capacity;
};

/* Joins gift `from` and the gifts behind it to earlier ones of the same source. */
static void join_gifts(struct gifts *gifts, uint32_t from)
{
    for (uint32_t i = from; i < gifts->count;) {
        uint32_t j = 0;

        while (j < i && (gifts->list[j].source != gifts->list[i].source ||
                         !join(&gifts->list[j].share, &gifts->list[i].share)))
            j++;
        if (j == i) {
            i++;
            continue;
        }
        gifts->count--;
        memmove(&gifts->list[i], &gifts->list[i + 1], (gifts->count - i) * sizeof(*gifts->list));
    }
}

/* One row of cells: the layers up to the next cut, all heads. */
static kvr_status add_row(const struct kvr_ranks_input *input, const struct kvr_share *share,
                          uint32_t layer, struct gifts *gifts, uint32_t *ret_layers,
                          struct kvr_error *error)
{
    uint32_t end = share->head_first + share->head_count, first = gifts->count;
    struct kvr_share cell;

    cut_cell(input, share, layer, share->head_first, &cell);
    *ret_layers = cell.layer_count;
    for (uint32_t head = share->head_first; head < end; head += cell.head_count) {
        struct kvr_gift *last = gifts->count > first ? &gifts->list[gifts->count - 1] : NULL;
        uint32_t source;

        cut_cell(input, share, layer, head, &cell);
        KVR_TRY(choose_source(input, &cell, &source, error));
        if (last != NULL && last->source == source && join(&last->share, &cell))
            continue;
        if (gifts->count == gifts->capacity)
            return kvr_error_set(error, KVR_TOO_LARGE, "ranks",
                                 "the target's heads and layers are cut into more than %" PRIu32
                                 " rectangles",
                                 gifts->capacity);
        gifts->list[gifts->count++] = (struct kvr_gift){source, cell};
    }
    join_gifts(gifts, first);
    return KVR_OK;
}

kvr_status kvr_ranks_choose(const struct kvr_ranks_input *input, struct kvr_gift *ret_gifts,
                            uint32_t capacity, uint32_t *ret_count, struct kvr_error *error)
{
    struct gifts gifts = {.list = ret_gifts, .capacity = capacity};

    if (input->source_count > KVR_SOURCES_MAX)
        return kvr_error_set(error, KVR_TOO_LARGE, "ranks",
                             "%" PRIu32 " source ranks, allowed are %d", input->source_count,
                             KVR_SOURCES_MAX);
    for (uint32_t i = 0; i < input->target->count; i++) {
        const struct kvr_share *share = &input->target->shares[i];
        uint32_t layers = 0;

        for (uint32_t layer = share->layer_first; layer < share->layer_first + share->layer_count;
             layer += layers) {
            kvr_status status = add_row(input, share, layer, &gifts, &layers, error);

            if (status != KVR_OK)
                return status;
        }
    }
    *ret_count = gifts.count;
    return KVR_OK;
}
