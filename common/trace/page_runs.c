#include "trace/page_runs.h"

#include "base/varint.h"

#define VERSION      1
#define VERSION_MASK 0x0f
#define ROLE_BIT     0x10

#define NUMBER_BYTES 5 /* the longest of a number or a folded difference of 32 bits */

_Static_assert(KVR_GROUPS_MAX <= 1 << 7, "a group's number has one byte");

void kvr_pages_ask(struct kvr_pages_wish *wish, kvr_ns now, kvr_ns length)
{
    kvr_ns until = now + kvr_min_u64(length, KVR_PAGES_ASKED_MAX_NS);

    if (until > wish->until)
        wish->until = until;
}

bool kvr_pages_wanted(const struct kvr_pages_wish *wish, const struct kvr_spans_choice *spans,
                      const struct kvr_span_book *book, const struct kvr_event *ended)
{
    bool slow = book != NULL && ended->at - book->opened > spans->slow_ns;

    return ended->at < wish->until || (wish->every != 0 && (ended->outcome != KVR_OK || slow ||
                                                            ended->transfer % wish->every == 0));
}

/* ---- write ---- */

/* The pages from `from` on that are neighbours. */
static uint32_t run_length(const struct kvr_page_ids *pages, uint32_t from)
{
    uint32_t length = 1;

    while (from + length < pages->count && pages->ids[from + length] == pages->ids[from] + length)
        length++;
    return length;
}

static uint32_t count_runs(const struct kvr_page_ids *pages)
{
    uint32_t count = 0;

    for (uint32_t page = 0; page < pages->count; page += run_length(pages, page))
        count++;
    return count;
}

/* NULL: no room. */
static uint8_t *put_runs(uint8_t *at, const uint8_t *end, const struct kvr_page_ids *pages)
{
    uint32_t next = 0, length;

    for (uint32_t page = 0; page < pages->count; page += length) {
        if (end - at < (ptrdiff_t)(2 * NUMBER_BYTES))
            return NULL;
        length = run_length(pages, page);
        at = kvr_put_varint(at, kvr_fold((uint64_t)pages->ids[page] - next));
        at = kvr_put_varint(at, length - 1);
        next = pages->ids[page] + length;
    }
    return at;
}

size_t kvr_page_runs_pack(const struct kvr_page_ids groups[KVR_GROUPS_MAX], kvr_role role,
                          uint8_t bytes[KVR_PAGE_RUNS_BYTES_MAX])
{
    const uint8_t *end = bytes + KVR_PAGE_RUNS_BYTES_MAX;
    uint8_t *at = bytes, groups_used = 0;

    for (uint32_t group = 0; group < KVR_GROUPS_MAX; group++)
        groups_used += groups[group].count > 0;
    *at++ = VERSION | (role == KVR_ROLE_TARGET ? ROLE_BIT : 0);
    *at++ = groups_used;
    for (uint32_t group = 0; group < KVR_GROUPS_MAX; group++) {
        if (groups[group].count == 0)
            continue;
        if (end - at < 1 + NUMBER_BYTES)
            return 0;
        *at++ = (uint8_t)group;
        at = kvr_put_varint(at, count_runs(&groups[group]));
        at = put_runs(at, end, &groups[group]);
        if (at == NULL)
            return 0;
    }
    return (size_t)(at - bytes);
}

/* ---- read ---- */

struct reader {
    const uint8_t *bytes;
    size_t count;
    kvr_page_runs_visit *visit; /* NULL: checks alone */
    void *self;
};

static bool take(struct reader *reader, uint64_t max, uint64_t *ret_number)
{
    return kvr_take_varint(&reader->bytes, &reader->count, ret_number) && *ret_number <= max;
}

/* next: the page that would continue the run before; UINT64_MAX: this is the group's first run. */
static bool take_run(struct reader *reader, uint32_t group, uint64_t *next)
{
    bool first = *next == UINT64_MAX;
    uint64_t step, more, page;

    if (!take(reader, UINT64_MAX, &step) || !take(reader, UINT32_MAX, &more))
        return false;
    page = (first ? 0 : *next) + kvr_unfold(step);
    if (page > UINT32_MAX || page + more > UINT32_MAX - 1 || (!first && page == *next))
        return false;
    if (reader->visit != NULL)
        reader->visit(reader->self, group,
                      (struct kvr_page_run){(uint32_t)page, (uint32_t)more + 1});
    *next = page + more + 1;
    return true;
}

static bool take_groups(struct reader *reader)
{
    uint64_t groups = 0, group, runs, group_from = 0;
    bool good = take(reader, KVR_GROUPS_MAX, &groups);

    for (uint64_t i = 0; good && i < groups; i++) {
        uint64_t next = UINT64_MAX;

        good = take(reader, KVR_GROUPS_MAX - 1, &group) && group >= group_from &&
               take(reader, KVR_PAGE_RUNS_BYTES_MAX, &runs) && runs > 0;
        group_from = group + 1;
        for (uint64_t k = 0; good && k < runs; k++)
            good = take_run(reader, (uint32_t)group, &next);
    }
    return good && reader->count == 0;
}

kvr_status kvr_page_runs_unpack(const uint8_t *bytes, size_t count, kvr_role *ret_role,
                                kvr_page_runs_visit *visit, void *self)
{
    struct reader checker, reader;

    if (count == 0 || count > KVR_PAGE_RUNS_BYTES_MAX)
        return KVR_MALFORMED;
    checker = (struct reader){bytes + 1, count - 1, NULL, NULL};
    reader = (struct reader){bytes + 1, count - 1, visit, self};
    if ((bytes[0] & VERSION_MASK) != VERSION)
        return KVR_UNSUPPORTED;
    if ((bytes[0] & ~(VERSION_MASK | ROLE_BIT)) != 0 || !take_groups(&checker))
        return KVR_MALFORMED;
    *ret_role = (bytes[0] & ROLE_BIT) != 0 ? KVR_ROLE_TARGET : KVR_ROLE_SOURCE;
    (void)take_groups(&reader);
    return KVR_OK;
}
