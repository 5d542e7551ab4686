#include "agent/core/gone_book.h"

#include <string.h>

static void forget(struct gone_book *book, uint32_t count)
{
    book->count -= count;
    memmove(book->engines, book->engines + count, book->count * sizeof(book->engines[0]));
}

void gone_book_add(struct gone_book *book, const struct kvr_engine_facts *engine, kvr_ns now)
{
    if (book->count == KVR_ENGINES_MAX)
        forget(book, 1);
    book->engines[book->count++] = (struct gone_engine){*engine, now};
}

void gone_book_tell(struct gone_book *book, kvr_ns now, bool heard, struct kvr_agent_facts *facts)
{
    uint32_t old = 0;

    for (uint32_t i = 0; i < book->count && !heard; i++)
        book->engines[i].since = now;
    while (old < book->count && now - book->engines[old].since > GONE_BOOK_KEPT_NS)
        old++;
    forget(book, old);
    for (uint32_t i = book->count; i > 0; i--) {
        if (facts->engine_count + facts->gone_count == KVR_ENGINES_MAX)
            return;
        facts->engines[facts->engine_count + facts->gone_count++] = book->engines[i - 1].facts;
    }
}
