#include "tools/compare/compare_sample.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>

#define CARRIED 3 /* numbers of a rail: writes, bytes, retries */

static kvr_status no_memory(struct kvr_error *error)
{
    return kvr_error_set(error, KVR_NO_MEMORY, "compare", "no memory for the transfers of a trace");
}

static uint64_t key_of(const struct kvtrace_book *book, const struct kvtrace_transfer *transfer)
{
    int64_t parts[5] = {transfer->attempt, 0, 0, 0, 0};

    for (int role = 0; role < 2; role++) {
        int64_t engine = transfer->sides[role].engine;

        if (engine != KVTRACE_NONE) {
            parts[1 + 2 * role] = book->engines[engine]->tp;
            parts[2 + 2 * role] = book->engines[engine]->pp;
        }
    }
    return XXH3_64bits_withSeed(transfer->request, strlen(transfer->request),
                                XXH3_64bits(parts, sizeof(parts)));
}

static kvr_status add_transfer(struct compare_sample *sample,
                               const struct kvtrace_transfer *transfer, struct kvr_error *error)
{
    struct compare_transfer *one;

    if (sample->count == sample->room) {
        size_t room = 2 * sample->room + 1024;
        struct compare_transfer *larger =
            realloc(sample->transfers, room * sizeof(sample->transfers[0]));

        if (larger == NULL)
            return no_memory(error);
        sample->transfers = larger;
        sample->room = room;
    }
    one = &sample->transfers[sample->count++];
    *one = (struct compare_transfer){.request =
                                         XXH3_64bits(transfer->request, strlen(transfer->request)),
                                     .key = key_of(&sample->book, transfer),
                                     .at_us = transfer->at_us,
                                     .tokens = transfer->tokens,
                                     .outcome = transfer->outcome,
                                     .other = KVTRACE_NONE};
    for (int time = 0; time < KVTRACE_TIME_END; time++)
        one->times_us[time] = transfer->outcome == KVTRACE_DONE
                                  ? kvtrace_time_us(transfer, (kvtrace_time)time)
                                  : KVTRACE_NEVER;
    sample->outcomes[transfer->outcome]++;
    return KVR_OK;
}

static uint64_t *carried_of(struct compare_sample *sample, int64_t agent, int64_t rail)
{
    return &sample->carried[(agent * KVR_RAILS_MAX + rail) * CARRIED];
}

static kvr_status add_agent(struct compare_sample *sample, struct kvr_error *error)
{
    size_t one = (size_t)KVR_RAILS_MAX * CARRIED, count = (size_t)sample->book.agent_count;
    uint64_t *larger = realloc(sample->carried, count * one * sizeof(larger[0]));

    if (larger == NULL)
        return no_memory(error);
    sample->carried = larger;
    memset(larger + (count - 1) * one, 0, one * sizeof(larger[0]));
    return KVR_OK;
}

static void add_rails(struct compare_sample *sample, const struct kvtrace_side *side)
{
    for (size_t i = 0; i < side->rails.count && side->agent != KVTRACE_NONE; i += 4) {
        const int64_t *row = side->rails.numbers + i;
        uint64_t *carried = carried_of(sample, side->agent, row[0]);

        for (int k = 0; k < CARRIED; k++)
            carried[k] += (uint64_t)row[k + 1];
    }
}

static kvr_status take(struct compare_sample *sample, const struct kvtrace_record *record,
                       struct kvr_error *error)
{
    KVR_TRY(kvtrace_book_take(&sample->book, record, error));
    if (record->kind == KVTRACE_AGENT)
        return add_agent(sample, error);
    if (record->kind != KVTRACE_TRANSFER)
        return KVR_OK;
    for (int role = 0; role < 2; role++)
        add_rails(sample, &record->transfer.sides[role]);
    return add_transfer(sample, &record->transfer, error);
}

/* The rails that carried something, with their names. */
static kvr_status name_rails(struct compare_sample *sample, struct kvr_error *error)
{
    size_t room = (size_t)sample->book.agent_count * KVR_RAILS_MAX;

    if (room == 0)
        return KVR_OK;
    sample->rails = calloc(room, sizeof(sample->rails[0]));
    if (sample->rails == NULL)
        return no_memory(error);
    for (int64_t agent = 0; agent < sample->book.agent_count; agent++) {
        const struct kvtrace_agent *known = sample->book.agents[agent];

        for (int64_t rail = 0; rail < (int64_t)known->rail_count; rail++) {
            const uint64_t *carried = carried_of(sample, agent, rail);
            struct compare_rail *one = &sample->rails[sample->rail_count];

            if (carried[0] == 0)
                continue;
            *one = (struct compare_rail){.role = known->role,
                                         .writes = carried[0],
                                         .bytes = carried[1],
                                         .retries = carried[2]};
            snprintf(one->agent, sizeof(one->agent), "%s", known->name);
            snprintf(one->rail, sizeof(one->rail), "%s", known->rails[rail].name);
            sample->rail_count++;
        }
    }
    return KVR_OK;
}

static kvr_status read_records(struct compare_sample *sample, struct kvtrace_reader *reader,
                               const char *path, struct kvr_error *error)
{
    const struct kvtrace_record *record;
    struct kvtrace_ending ending;
    struct kvr_error inner = {0};
    kvr_status status;

    while ((status = kvtrace_next(reader, &record, &inner)) == KVR_OK) {
        status = take(sample, record, &inner);
        if (status != KVR_OK)
            return kvr_error_set(error, status, "compare", "%s, line %" PRIu64 ": %s", path,
                                 kvtrace_line(reader), inner.detail);
    }
    if (status != KVR_NOT_FOUND) {
        *error = inner;
        return status;
    }
    kvtrace_ending(reader, &ending);
    if (!ending.complete)
        fprintf(stderr, "kvrail compare: %s: %s\n", path, ending.problem);
    return name_rails(sample, error);
}

kvr_status compare_read(const char *path, struct compare_sample *ret_sample,
                        struct kvr_error *error)
{
    struct kvtrace_reader *reader;
    kvr_status status;

    *ret_sample = (struct compare_sample){0};
    KVR_TRY(kvtrace_open(path, &reader, error));
    status = read_records(ret_sample, reader, path, error);
    kvtrace_close(reader);
    return status;
}

void compare_release(struct compare_sample *sample)
{
    kvtrace_book_close(&sample->book);
    free(sample->transfers);
    free(sample->rails);
    free(sample->carried);
    *sample = (struct compare_sample){0};
}

/* ---- the same requests ----------------------------------------------------------------------- */

static int by_key(const void *left, const void *right)
{
    const struct compare_transfer *a = left, *b = right;

    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return (a->at_us > b->at_us) - (a->at_us < b->at_us);
}

static int by_tokens(const void *left, const void *right)
{
    const struct compare_transfer *a = left, *b = right;

    if (a->tokens != b->tokens)
        return a->tokens < b->tokens ? -1 : 1;
    return (a->at_us > b->at_us) - (a->at_us < b->at_us);
}

static bool key_less(const struct compare_transfer *a, const struct compare_transfer *b)
{
    return a->key < b->key;
}

static bool tokens_less(const struct compare_transfer *a, const struct compare_transfer *b)
{
    return a->tokens < b->tokens;
}

/* Both are sorted so that equal ones meet; the first of one is the first of the other. */
static size_t pair(struct compare_sample *a, struct compare_sample *b,
                   bool (*less)(const struct compare_transfer *, const struct compare_transfer *))
{
    size_t i = 0, k = 0, matched = 0;

    while (i < a->count && k < b->count) {
        struct compare_transfer *one = &a->transfers[i], *other = &b->transfers[k];

        if (less(one, other)) {
            i++;
        } else if (less(other, one)) {
            k++;
        } else {
            one->other = (int64_t)k++;
            other->other = (int64_t)i++;
            matched++;
        }
    }
    return matched;
}

static void sort(struct compare_sample *sample, int (*order)(const void *, const void *))
{
    if (sample->count > 0)
        qsort(sample->transfers, sample->count, sizeof(sample->transfers[0]), order);
}

size_t compare_match(struct compare_sample *a, struct compare_sample *b,
                     compare_matching *ret_matching)
{
    size_t matched;

    sort(a, by_key);
    sort(b, by_key);
    *ret_matching = COMPARE_BY_ID;
    matched = pair(a, b, key_less);
    if (matched > 0)
        return matched;
    sort(a, by_tokens);
    sort(b, by_tokens);
    *ret_matching = COMPARE_BY_ORDER;
    return pair(a, b, tokens_less);
}

/* ---- times ----------------------------------------------------------------------------------- */

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;

    return (a > b) - (a < b);
}

double *compare_sorted_times(const struct compare_sample *sample,
                             const struct compare_sample *other, kvtrace_time time,
                             size_t *ret_count)
{
    double *list = malloc((sample->count > 0 ? sample->count : 1) * sizeof(list[0]));

    *ret_count = 0;
    for (size_t i = 0; list != NULL && i < sample->count; i++) {
        const struct compare_transfer *one = &sample->transfers[i];

        if (one->other != KVTRACE_NONE && one->times_us[time] != KVTRACE_NEVER &&
            other->transfers[one->other].times_us[time] != KVTRACE_NEVER)
            list[(*ret_count)++] = (double)one->times_us[time] / 1e3;
    }
    if (*ret_count > 0)
        qsort(list, *ret_count, sizeof(list[0]), by_value);
    return list;
}
