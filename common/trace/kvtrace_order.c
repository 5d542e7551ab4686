#include "trace/kvtrace_order.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "trace/kvtrace_scan.h"

#define PART_BYTES (64u << 10) /* of a part that is being read */

/* Where a line belongs. `number` counts the puts: nothing is equal. */
struct key {
    int64_t at_us;
    uint64_t tie, number;
    uint64_t bytes; /* of the line, its newline with it */
};

/* A line in memory. */
struct kept {
    struct key key;
    size_t first; /* in text */
};

/* Sorted lines in the file, each behind its key. */
struct part {
    off_t next, end;  /* in the file: what is not read yet */
    size_t at, count; /* in bytes */
    size_t room;
    char *bytes;    /* NULL: not read yet */
    struct key key; /* of its first line */
    bool over;      /* it has no line any more */
};

/* A line as a record; two, so that a caller can compare. */
struct slot {
    struct kvtrace_record record;
    char *line;
    int64_t *numbers;
    size_t room; /* of the line; the numbers have as much as it needs */
};

struct kvtrace_order {
    size_t room;
    struct kvtrace_text text;
    struct kept *kept;
    size_t kept_count, kept_room, kept_next;
    uint64_t puts;
    uint64_t number; /* of the record that was given last */
    int file;        /* -1: none yet */
    off_t file_bytes;
    struct part *parts;
    size_t part_count;
    bool reading;
    struct slot slots[2];
    int slot;
};

static kvr_status no_memory(struct kvr_error *error)
{
    return kvr_error_set(error, KVR_NO_MEMORY, "trace", "no memory to sort a trace");
}

/* ---- open and close -------------------------------------------------------------------------- */

kvr_status kvtrace_order_open(size_t room, struct kvtrace_order **ret_order,
                              struct kvr_error *error)
{
    struct kvtrace_order *order = calloc(1, sizeof(*order));

    if (order == NULL)
        return no_memory(error);
    order->room = room;
    order->file = -1;
    *ret_order = order;
    return KVR_OK;
}

struct kvtrace_order *kvtrace_order_close(struct kvtrace_order *order)
{
    if (order == NULL)
        return NULL;
    if (order->file >= 0)
        (void)close(order->file);
    for (size_t i = 0; i < order->part_count; i++)
        free(order->parts[i].bytes);
    for (int i = 0; i < 2; i++) {
        free(order->slots[i].line);
        free(order->slots[i].numbers);
    }
    free(order->parts);
    free(order->kept);
    free(order->text.at);
    free(order);
    return NULL;
}

/* ---- keys ------------------------------------------------------------------------------------ */

bool kvtrace_moment(const struct kvtrace_record *record, int64_t *ret_at_us)
{
    switch (record->kind) {
    case KVTRACE_REQUEST:
        *ret_at_us = record->request.at_us;
        return true;
    case KVTRACE_TRANSFER:
        *ret_at_us = record->transfer.at_us;
        return true;
    case KVTRACE_FAULT:
        *ret_at_us = record->fault.at_us;
        return true;
    case KVTRACE_MARK:
        *ret_at_us = record->mark.at_us;
        return true;
    default:
        return false;
    }
}

/* Requests come before their transfers, and stay as they were put. */
static uint64_t tie_of(const struct kvtrace_record *record)
{
    const char *text = record->kind == KVTRACE_TRANSFER ? record->transfer.id
                       : record->kind == KVTRACE_FAULT  ? record->fault.kind
                       : record->kind == KVTRACE_MARK   ? record->mark.kind
                                                        : "";

    return ((uint64_t)record->kind << 56) | (XXH3_64bits(text, strlen(text)) >> 8);
}

static int compare_keys(const struct key *a, const struct key *b)
{
    if (a->at_us != b->at_us)
        return a->at_us < b->at_us ? -1 : 1;
    if (a->tie != b->tie)
        return a->tie < b->tie ? -1 : 1;
    return (a->number > b->number) - (a->number < b->number);
}

static int by_key(const void *left, const void *right)
{
    return compare_keys(&((const struct kept *)left)->key, &((const struct kept *)right)->key);
}

static void sort_kept(struct kvtrace_order *order)
{
    if (order->kept_count > 0)
        qsort(order->kept, order->kept_count, sizeof(order->kept[0]), by_key);
}

/* ---- the file -------------------------------------------------------------------------------- */

static kvr_status file_failed(struct kvr_error *error)
{
    return kvr_error_system(error, "trace", errno,
                            "the temporary file to sort a trace, in $TMPDIR or /var/tmp, cannot be "
                            "written or read");
}

static kvr_status open_file(struct kvtrace_order *order, struct kvr_error *error)
{
    const char *folder = getenv("TMPDIR");
    char path[4096];

    if (order->file >= 0)
        return KVR_OK;
    snprintf(path, sizeof(path), "%s/kvrail-order-XXXXXX",
             folder != NULL && folder[0] != '\0' ? folder : "/var/tmp");
    order->file = mkostemp(path, O_CLOEXEC);
    if (order->file < 0 || unlink(path) != 0)
        return file_failed(error);
    return KVR_OK;
}

static kvr_status write_all(struct kvtrace_order *order, const void *bytes, size_t count,
                            struct kvr_error *error)
{
    const char *at = bytes;

    while (count > 0) {
        ssize_t put = pwrite(order->file, at, count, order->file_bytes);

        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return file_failed(error);
        at += put;
        count -= (size_t)put;
        order->file_bytes += put;
    }
    return KVR_OK;
}

/* The lines, in a buffer of one write. */
static kvr_status write_kept(struct kvtrace_order *order, struct kvr_error *error)
{
    struct kvtrace_text out = {.at = malloc(PART_BYTES), .room = PART_BYTES};
    kvr_status status = out.at != NULL ? KVR_OK : no_memory(error);

    for (size_t i = 0; i < order->kept_count && status == KVR_OK; i++) {
        const struct kept *one = &order->kept[i];
        const char *line = order->text.at + one->first;

        if (out.count + sizeof(one->key) + one->key.bytes > out.room) {
            status = write_all(order, out.at, out.count, error);
            out.count = 0;
        }
        if (status == KVR_OK && sizeof(one->key) + one->key.bytes > out.room) {
            status = write_all(order, &one->key, sizeof(one->key), error);
            if (status == KVR_OK)
                status = write_all(order, line, one->key.bytes, error);
            continue;
        }
        memcpy(out.at + out.count, &one->key, sizeof(one->key));
        memcpy(out.at + out.count + sizeof(one->key), line, one->key.bytes);
        out.count += sizeof(one->key) + one->key.bytes;
    }
    if (status == KVR_OK)
        status = write_all(order, out.at, out.count, error);
    free(out.at);
    return status;
}

/* What is in memory becomes a part of the file. */
static kvr_status spill(struct kvtrace_order *order, struct kvr_error *error)
{
    struct part *larger;

    if (order->kept_count == 0)
        return KVR_OK;
    KVR_TRY(open_file(order, error));
    larger = realloc(order->parts, (order->part_count + 1) * sizeof(larger[0]));
    if (larger == NULL)
        return no_memory(error);
    order->parts = larger;
    larger[order->part_count] = (struct part){.next = order->file_bytes};
    sort_kept(order);
    KVR_TRY(write_kept(order, error));
    larger[order->part_count++].end = order->file_bytes;
    order->kept_count = order->text.count = 0;
    return KVR_OK;
}

/* ---- put ------------------------------------------------------------------------------------- */

static kvr_status add_line(struct kvtrace_order *order, const struct kvtrace_record *record,
                           size_t *ret_bytes, struct kvr_error *error)
{
    size_t before = order->text.count;
    const char *wrong = kvtrace_print(&order->text, record);

    if (wrong != NULL) {
        order->text.count = before;
        return kvr_error_set(error, KVR_INVALID, "trace",
                             "a record \"%s\" cannot be written: no line can hold its \"%s\"",
                             kvtrace_kind_name(record->kind), wrong);
    }
    if (order->text.failed)
        return no_memory(error);
    *ret_bytes = order->text.count - before;
    return KVR_OK;
}

kvr_status kvtrace_order_put(struct kvtrace_order *order, const struct kvtrace_record *record,
                             struct kvr_error *error)
{
    struct kept one = {.first = order->text.count};
    size_t bytes = 0;

    if (!kvtrace_moment(record, &one.key.at_us))
        return kvr_error_set(error, KVR_INVALID, "trace", "a record \"%s\" has no time",
                             kvtrace_kind_name(record->kind));
    if (order->kept_count == order->kept_room) {
        size_t room = 2 * order->kept_room + 1024;
        struct kept *larger = realloc(order->kept, room * sizeof(larger[0]));

        if (larger == NULL)
            return no_memory(error);
        order->kept = larger;
        order->kept_room = room;
    }
    KVR_TRY(add_line(order, record, &bytes, error));
    one.key.bytes = bytes;
    one.key.tie = tie_of(record);
    one.key.number = order->puts++;
    order->kept[order->kept_count++] = one;
    if (order->text.count + order->kept_count * sizeof(one) >= order->room)
        return spill(order, error);
    return KVR_OK;
}

/* ---- next ------------------------------------------------------------------------------------ */

/* At least `wanted` bytes of the part in its buffer; all of it is there in the file. */
static kvr_status need(struct kvtrace_order *order, struct part *part, size_t wanted,
                       struct kvr_error *error)
{
    size_t room = wanted > PART_BYTES ? wanted : PART_BYTES;
    char *larger;

    if (part->count >= wanted)
        return KVR_OK;
    if (part->at > 0)
        memmove(part->bytes, part->bytes + part->at, part->count);
    part->at = 0;
    if (part->room < room) {
        larger = realloc(part->bytes, room);
        if (larger == NULL)
            return no_memory(error);
        part->bytes = larger;
        part->room = room;
    }
    while (part->count < wanted) {
        size_t left = (size_t)(part->end - part->next), free_bytes = part->room - part->count;
        ssize_t got = pread(order->file, part->bytes + part->count,
                            left < free_bytes ? left : free_bytes, part->next);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return file_failed(error);
        part->count += (size_t)got;
        part->next += got;
    }
    return KVR_OK;
}

/* The key of the part's first line. */
static kvr_status read_key(struct kvtrace_order *order, struct part *part, struct kvr_error *error)
{
    part->over = part->count == 0 && part->next == part->end;
    if (part->over)
        return KVR_OK;
    KVR_TRY(need(order, part, sizeof(part->key), error));
    memcpy(&part->key, part->bytes + part->at, sizeof(part->key));
    return KVR_OK;
}

static kvr_status begin_reading(struct kvtrace_order *order, struct kvr_error *error)
{
    order->reading = true;
    if (order->part_count == 0) {
        sort_kept(order);
        return KVR_OK;
    }
    KVR_TRY(spill(order, error));
    for (size_t i = 0; i < order->part_count; i++)
        KVR_TRY(read_key(order, &order->parts[i], error));
    return KVR_OK;
}

static kvr_status make_slot(struct slot *slot, size_t bytes, struct kvr_error *error)
{
    if (slot->room >= bytes)
        return KVR_OK;
    free(slot->line);
    free(slot->numbers);
    slot->line = malloc(bytes);
    slot->numbers = malloc(KVTRACE_NUMBERS(bytes) * sizeof(slot->numbers[0]));
    slot->room = slot->line != NULL && slot->numbers != NULL ? bytes : 0;
    return slot->room > 0 ? KVR_OK : no_memory(error);
}

/* The line as the next record. */
static kvr_status give(struct kvtrace_order *order, const char *line, size_t bytes,
                       const struct kvtrace_record **ret_record, struct kvr_error *error)
{
    struct slot *slot = &order->slots[order->slot];
    struct kvtrace_scan scan = {0};

    order->slot = 1 - order->slot;
    KVR_TRY(make_slot(slot, bytes, error));
    memcpy(slot->line, line, bytes);
    slot->line[bytes - 1] = '\0'; /* its newline */
    scan.at = slot->line;
    scan.end = slot->line + bytes - 1;
    scan.numbers = slot->numbers;
    if (kvtrace_scan_line(&scan, &slot->record) != KVTRACE_SCANNED)
        return kvr_error_set(error, KVR_MALFORMED, "trace",
                             "a line of the temporary file to sort a trace is damaged");
    *ret_record = &slot->record;
    return KVR_OK;
}

static kvr_status next_of_parts(struct kvtrace_order *order,
                                const struct kvtrace_record **ret_record, struct kvr_error *error)
{
    struct part *first = NULL;
    size_t bytes;

    for (size_t i = 0; i < order->part_count; i++) {
        struct part *one = &order->parts[i];

        if (!one->over && (first == NULL || compare_keys(&one->key, &first->key) < 0))
            first = one;
    }
    if (first == NULL)
        return kvr_error_set(error, KVR_NOT_FOUND, "trace", "there is no further record");
    order->number = first->key.number;
    bytes = sizeof(first->key) + first->key.bytes;
    KVR_TRY(need(order, first, bytes, error));
    KVR_TRY(give(order, first->bytes + first->at + sizeof(first->key), first->key.bytes, ret_record,
                 error));
    first->at += bytes;
    first->count -= bytes;
    return read_key(order, first, error);
}

kvr_status kvtrace_order_next(struct kvtrace_order *order, const struct kvtrace_record **ret_record,
                              struct kvr_error *error)
{
    const struct kept *one;

    if (!order->reading)
        KVR_TRY(begin_reading(order, error));
    if (order->part_count > 0)
        return next_of_parts(order, ret_record, error);
    if (order->kept_next == order->kept_count)
        return kvr_error_set(error, KVR_NOT_FOUND, "trace", "there is no further record");
    one = &order->kept[order->kept_next++];
    order->number = one->key.number;
    return give(order, order->text.at + one->first, one->key.bytes, ret_record, error);
}

uint64_t kvtrace_order_number(const struct kvtrace_order *order)
{
    return order->number;
}

void kvtrace_order_keep(struct kvtrace_order *order)
{
    order->slot = 1 - order->slot;
}
