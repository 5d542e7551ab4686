#include "tests/support/kvtrace_case.h"

#define ROWS_MAX 12

static int64_t numbers[1 << 16];
static size_t number_count;

static int64_t random_number(struct kvr_rng *rng)
{
    uint64_t number = kvr_rng_next(rng);

    switch (kvr_rng_next(rng) % 5) {
    case 0:
        return (int64_t)number;
    case 1:
        return INT64_MAX - (int64_t)(number % 3);
    case 2:
        return INT64_MIN + (int64_t)(number % 3);
    default:
        return (int64_t)(number % 100) - 1;
    }
}

static void random_text(struct kvr_rng *rng, char *text, size_t room)
{
    static const char *const parts[] = {"a", "rdma0",      "\"", "\\", "/",
                                        "é", "\U0001F600", " ",  "u00"};
    size_t count = 0, wanted = kvr_rng_next(rng) % room;

    for (;;) {
        const char *part = parts[kvr_rng_next(rng) % (sizeof(parts) / sizeof(parts[0]))];

        if (count + strlen(part) > wanted)
            break;
        memcpy(text + count, part, strlen(part));
        count += strlen(part);
    }
    text[count] = '\0';
}

static void random_members(struct kvr_rng *rng, const struct kvtrace_fields *fields, void *base)
{
    for (uint32_t i = 0; i < fields->count; i++) {
        const struct kvtrace_field *field = &fields->at[i];
        char *at = (char *)base + field->offset;
        size_t count;

        if (kvr_rng_next(rng) % 4 == 0)
            continue;
        switch (field->type) {
        case KVTRACE_NUMBER:
            *(int64_t *)at = random_number(rng);
            break;
        case KVTRACE_FLAG:
            *(bool *)at = true;
            break;
        case KVTRACE_TEXT:
            random_text(rng, at, field->room);
            break;
        case KVTRACE_CHOICE:
            *(int *)at = (int)(kvr_rng_next(rng) % (uint64_t)field->names);
            break;
        case KVTRACE_ROWS:
            count = kvr_rng_next(rng) % ROWS_MAX * field->room;
            *(struct kvtrace_rows *)at = (struct kvtrace_rows){numbers + number_count, count};
            for (size_t k = 0; k < count; k++)
                numbers[number_count++] = random_number(rng);
            break;
        case KVTRACE_OBJECT:
            random_members(rng, field->fields, at);
            break;
        case KVTRACE_OBJECTS:
            count = kvr_rng_next(rng) % (field->count_max + 1);
            *(size_t *)((char *)base + field->count_offset) = count;
            for (size_t k = 0; k < count; k++)
                random_members(rng, field->fields, at + k * field->room);
            break;
        }
    }
}

void kvtrace_random(struct kvr_rng *rng, kvtrace_kind kind, struct kvtrace_record *ret_record)
{
    number_count = 0;
    kvtrace_clear(ret_record, kind);
    random_members(rng, kvtrace_fields(kind), kvtrace_members(ret_record));
}
