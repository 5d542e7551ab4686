/* Goal: no bytes of an agent break kvrail-filter. Nothing is put into the packet filter twice,
 * nothing is removed that is not there, and nothing stays of an agent that is gone. Method: the
 * input is messages of three agents; the changes are kept in a plain list. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "filter/filter_book.h"

#define HELD_MAX 65536

static struct held {
    struct filter_change changes[HELD_MAX];
    uint32_t count;
} held;

static bool same(const struct filter_change *a, const struct filter_change *b)
{
    return a->element == b->element && a->uid == b->uid && a->port == b->port &&
           (a->element != FILTER_PEER || a->agent == b->agent) &&
           kvr_filter_address_compare(&a->address, &b->address) == 0;
}

static void on_change(void *self, const struct filter_change *change)
{
    uint32_t i;

    (void)self;
    if (change->element == FILTER_AGENT)
        return;
    for (i = 0; i < held.count && !same(&held.changes[i], change); i++)
        ;
    assert((i == held.count) == change->add);
    if (change->add) {
        assert(held.count < HELD_MAX);
        held.changes[held.count++] = *change;
    } else {
        held.changes[i] = held.changes[--held.count];
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct filter_book book;
    struct kvr_filter_message message;
    uint32_t agents[3];
    bool there[3] = {true, true, true};
    uint8_t again[KVR_FILTER_MESSAGE_BYTES];

    for (uint32_t i = 0; i < FILTER_AGENTS_MAX; i++)
        book.agents[i].used = false; /* all else of one is set when it attaches */
    held.count = 0;
    book.sink.change = on_change;
    book.first = 9500;
    book.last = 9563;
    for (uint32_t i = 0; i < 3; i++)
        assert(filter_book_attach(&book, 1000 + i / 2, &agents[i]) == KVR_FILTER_REFUSAL_NONE);
    for (; size > KVR_FILTER_MESSAGE_BYTES; size -= KVR_FILTER_MESSAGE_BYTES + 1) {
        uint32_t agent = data[0] % 3;

        if (kvr_filter_decode(data + 1, true, &message) != KVR_OK) {
            (void)!kvr_filter_decode(data + 1, false, &message);
        } else {
            kvr_filter_encode(&message, again);
            assert(memcmp(again, data + 1, sizeof(again)) == 0);
            if (there[agent] &&
                filter_book_take(&book, agents[agent], &message) != KVR_FILTER_REFUSAL_NONE) {
                filter_book_detach(&book, agents[agent]);
                there[agent] = false;
            }
        }
        data += KVR_FILTER_MESSAGE_BYTES + 1;
    }
    for (uint32_t i = 0; i < 3; i++) {
        if (there[i])
            filter_book_detach(&book, agents[i]);
    }
    assert(held.count == 0);
    return 0;
}
