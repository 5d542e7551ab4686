#include "scheduler/rollup.h"

#include <stdlib.h>
#include <string.h>

#define SUB_BITS   2  /* four buckets for each power of two */
#define UNIT_SHIFT 13 /* of 8,192 ns */

static const char *const kind_names[] = {ROLLUP_KIND_LIST(KVR_NAME)};
static const char *const amount_names[] = {ROLLUP_AMOUNT_LIST(KVR_NAME)};
static const struct {
    const char *name;
    kvr_role role;
    transfer_stage from, to;
} spans[] = {ROLLUP_TIME_LIST(KVR_ROW)};

_Static_assert(ROLLUP_AMOUNT_END <= 8 && ROLLUP_TIME_END <= 8, "a packed cell has a bit for each");

const char *rollup_kind_name(rollup_kind kind)
{
    return kind_names[kind];
}

bool rollup_kind_from_name(const char *name, rollup_kind *ret_kind)
{
    for (int kind = 0; kind < ROLLUP_KIND_END; kind++) {
        if (strcmp(kind_names[kind], name) == 0) {
            *ret_kind = (rollup_kind)kind;
            return true;
        }
    }
    return false;
}

const char *rollup_amount_name(rollup_amount amount)
{
    return amount_names[amount];
}

const char *rollup_time_name(rollup_time time)
{
    return spans[time].name;
}

/* ---- histograms ---- */

uint32_t rollup_bucket_of(int64_t ns)
{
    uint64_t units = ns < 0 ? 0 : (uint64_t)ns >> UNIT_SHIFT;
    uint32_t shift, bucket;

    if (units < 1u << SUB_BITS)
        return (uint32_t)units;
    shift = 63u - (uint32_t)__builtin_clzll(units) - SUB_BITS;
    bucket = (shift << SUB_BITS) + (uint32_t)(units >> shift);
    return bucket < ROLLUP_BUCKETS ? bucket : ROLLUP_BUCKETS - 1;
}

int64_t rollup_bucket_begin(uint32_t bucket)
{
    const uint32_t sub = 1u << SUB_BITS;
    uint32_t shift = bucket < 2 * sub ? 0 : (bucket >> SUB_BITS) - 1;
    int64_t units = bucket < 2 * sub ? bucket : (int64_t)((bucket & (sub - 1)) | sub) << shift;

    return units << UNIT_SHIFT;
}

uint64_t rollup_times_count(const uint32_t buckets[ROLLUP_BUCKETS])
{
    uint64_t count = 0;

    for (uint32_t i = 0; i < ROLLUP_BUCKETS; i++)
        count += buckets[i];
    return count;
}

int64_t rollup_percentile(const uint32_t buckets[ROLLUP_BUCKETS], double percent)
{
    double wanted = percent * (double)rollup_times_count(buckets) / 100;
    double seen = 0;

    for (uint32_t i = 0; i < ROLLUP_BUCKETS; i++) {
        double begin = (double)rollup_bucket_begin(i), end = (double)rollup_bucket_begin(i + 1);

        if (buckets[i] > 0 && seen + buckets[i] >= wanted * (1 - 1e-12))
            return (int64_t)(begin + (end - begin) * (wanted - seen) / buckets[i]);
        seen += buckets[i];
    }
    return -1;
}

/* ---- keys ---- */

static struct rollup_key key_of(const void *bytes, size_t count)
{
    struct rollup_key key = {.count = (uint8_t)count};

    memcpy(key.bytes, bytes, count);
    return key;
}

struct rollup_key rollup_key_text(const char *text)
{
    return key_of(text, strnlen(text, KVR_NAME_BYTES - 1));
}

struct rollup_key rollup_key_engine(const struct kvr_uuid *engine)
{
    return key_of(engine->bytes, sizeof(engine->bytes));
}

struct rollup_key rollup_key_rail(uint32_t rail)
{
    const char byte = (char)rail;

    return key_of(&byte, 1);
}

struct rollup_key rollup_key_pair(const char *peer, uint32_t rail, uint32_t target_rail)
{
    struct rollup_key key = rollup_key_text(peer);

    key.bytes[key.count++] = (char)rail;
    key.bytes[key.count++] = (char)target_rail;
    return key;
}

/* ---- a transfer ---- */

static uint32_t add_place(struct rollup_place *places, uint32_t count, rollup_kind kind,
                          struct rollup_key key)
{
    if (key.count == 0 && kind != ROLLUP_ALL)
        return count;
    places[count] = (struct rollup_place){kind, key};
    return count + 1;
}

uint32_t rollup_places_of(const struct transfer *transfer,
                          struct rollup_place places[ROLLUP_PLACES_MAX])
{
    static const struct kvr_uuid none;
    const char *source = transfer->sides[KVR_ROLE_SOURCE].agent;
    const char *target = transfer->sides[KVR_ROLE_TARGET].agent;
    uint32_t count = 0;

    count = add_place(places, count, ROLLUP_ALL, (struct rollup_key){0});
    count =
        add_place(places, count, ROLLUP_REASON, rollup_key_text(kvr_status_name(transfer->reason)));
    count = add_place(places, count, ROLLUP_TENANT, rollup_key_text(transfer->tenant));
    count = add_place(places, count, ROLLUP_AGENT, rollup_key_text(source));
    if (strcmp(source, target) != 0)
        count = add_place(places, count, ROLLUP_AGENT, rollup_key_text(target));
    if (!kvr_uuid_equal(&transfer->source_engine, &none))
        count =
            add_place(places, count, ROLLUP_ENGINE, rollup_key_engine(&transfer->source_engine));
    if (!kvr_uuid_equal(&transfer->target_engine, &none) &&
        !kvr_uuid_equal(&transfer->target_engine, &transfer->source_engine))
        count =
            add_place(places, count, ROLLUP_ENGINE, rollup_key_engine(&transfer->target_engine));
    return count;
}

static bool add_time(struct rollup_cell *cell, rollup_time time, const struct transfer *transfer)
{
    const int64_t *at_ns = transfer->sides[spans[time].role].at_ns;
    int64_t from = at_ns[spans[time].from], to = at_ns[spans[time].to];

    if (from == 0 || to < from)
        return true;
    if (cell->times == NULL)
        cell->times = calloc(1, sizeof(*cell->times));
    if (cell->times != NULL)
        (*cell->times)[time][rollup_bucket_of(to - from)]++;
    return cell->times != NULL;
}

static void add_amounts(struct rollup_cell *cell, const struct transfer *transfer)
{
    bool done = transfer->state == STATE_DONE;

    cell->amounts[ROLLUP_ENDED]++;
    cell->amounts[ROLLUP_FAILED] += !done;
    cell->amounts[ROLLUP_REPEATS] += transfer->retries;
    if (!done)
        return;
    cell->amounts[ROLLUP_BYTES] += transfer->bytes;
    cell->amounts[ROLLUP_LAYERS] += transfer->layers;
    cell->amounts[ROLLUP_WRITES] += transfer->chunks;
}

bool rollup_add_transfer(struct rollup_cell *cell, rollup_kind kind,
                         const struct transfer *transfer, const struct rollup_news *news)
{
    bool added = true;

    if (news->ended)
        add_amounts(cell, transfer);
    for (int time = 0; time < ROLLUP_TIME_END && added; time++) {
        kvr_role role = spans[time].role;

        if (news->side_ended[role] &&
            (kind == ROLLUP_REASON || transfer->sides[role].outcome == KVR_OK))
            added = add_time(cell, (rollup_time)time, transfer);
    }
    return added;
}

/* ---- rows ---- */

struct rollup_cell *rollup_row_find(const struct rollup_row *row, const struct rollup_key *key)
{
    struct rollup_cell *cell;

    HASH_FIND(hh, row->cells, key->bytes, key->count, cell);
    return cell;
}

struct rollup_cell *rollup_row_cell(struct rollup_row *row, const struct rollup_key *key)
{
    static const struct rollup_key others;
    struct rollup_cell *cell = rollup_row_find(row, key);

    if (cell == NULL && key->count > 0 && HASH_COUNT(row->cells) >= ROLLUP_CELLS_MAX)
        return rollup_row_cell(row, &others);
    if (cell != NULL)
        return cell;
    cell = calloc(1, sizeof(*cell));
    if (cell == NULL)
        return NULL;
    cell->key = *key;
    HASH_ADD_KEYPTR(hh, row->cells, cell->key.bytes, cell->key.count, cell);
    row->unsorted = true;
    return cell;
}

void rollup_row_clear(struct rollup_row *row)
{
    struct rollup_cell *cell = row->cells, *next;

    HASH_CLEAR(hh, row->cells);
    for (; cell != NULL; cell = next) {
        next = cell->hh.next;
        free(cell->times);
        free(cell);
    }
}

static struct rollup_name name_of(rollup_kind kind, const char *part)
{
    struct rollup_name name = {.kind = kind};

    memcpy(name.part, part, strnlen(part, sizeof(name.part) - 1));
    return name;
}

struct rollup_row *rollup_book_find(const struct rollup_book *book, rollup_kind kind,
                                    const char *part)
{
    const struct rollup_name name = name_of(kind, part);
    struct rollup_row *row;

    HASH_FIND(hh, book->rows, &name, sizeof(name), row);
    return row;
}

struct rollup_row *rollup_book_add(struct rollup_book *book, rollup_kind kind, const char *part)
{
    struct rollup_row *row = calloc(1, sizeof(*row));

    if (row == NULL)
        return NULL;
    row->name = name_of(kind, part);
    HASH_ADD(hh, book->rows, name, sizeof(row->name), row);
    return row;
}

void rollup_book_clear(struct rollup_book *book)
{
    struct rollup_row *row = book->rows, *next;

    HASH_CLEAR(hh, book->rows);
    for (; row != NULL; row = next) {
        next = row->hh.next;
        rollup_row_clear(row);
        free(row);
    }
    book->rows = NULL;
}
