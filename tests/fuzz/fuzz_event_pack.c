/* Any bytes: they are refused, or they are records that pack to the same events again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/event_pack.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "%s\n", what);
        abort();
    }
}

/* As an agent would have reported it. */
static struct kvr_event event_of(const struct event_record *record)
{
    struct kvr_event event = {.kind = record->kind,
                              .role = record->role,
                              .bytes = record->bytes,
                              .retries = (uint32_t)record->retries,
                              .outcome = record->outcome};

    memcpy(event.peer, record->peer, sizeof(event.peer));
    memcpy(event.detail, record->detail, sizeof(event.detail));
    return event;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct event_unpack unpack = {.bytes = data, .count = size}, again;
    struct event_record record, same;
    struct event_pack pack = {0};
    uint64_t count = 0;
    kvr_status status;

    while ((status = event_unpack_next(&unpack, &record)) == KVR_OK) {
        struct kvr_event event = event_of(&record);

        check(strlen(record.peer) < sizeof(record.peer), "a peer without an end");
        check(strlen(record.detail) < sizeof(record.detail), "a detail without an end");
        check(event_pack_add(&pack, &event, record.sequence, record.at_ns), "no memory");
        count++;
    }
    check(status == KVR_NOT_FOUND || status == KVR_MALFORMED, "another end");
    check(count <= size / 3, "a record is shorter than it can be");
    unpack = (struct event_unpack){.bytes = data, .count = size};
    again = (struct event_unpack){.bytes = pack.bytes, .count = pack.count};
    for (; count > 0; count--) {
        check(event_unpack_next(&unpack, &record) == KVR_OK, "the same bytes, once more");
        check(event_unpack_next(&again, &same) == KVR_OK, "what was packed must be read");
        record.retries = (uint32_t)record.retries;
        check(memcmp(&record, &same, sizeof(same)) == 0, "as what it was");
    }
    check(event_unpack_next(&again, &same) == KVR_NOT_FOUND, "and no more");
    event_pack_free(&pack);
    return 0;
}
