/* Any bytes: they are refused, or they are page tables that pack to the same bytes again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/page_runs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PAGES_MAX 200000 /* of all groups; a few bytes can say billions */

static uint32_t ids[PAGES_MAX];
static struct kvr_page_ids groups[KVR_GROUPS_MAX];
static uint64_t pages;

static void check(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "%s\n", what);
        abort();
    }
}

static void visit(void *self, uint32_t group, struct kvr_page_run run)
{
    (void)self;
    check(group < KVR_GROUPS_MAX && run.page_count > 0, "a group or a run that there is not");
    check(run.page_first <= UINT32_MAX - run.page_count, "pages beyond 32 bits");
    if (groups[group].count == 0)
        groups[group].ids = &ids[pages < PAGES_MAX ? pages : 0];
    for (uint32_t i = 0; i < run.page_count && pages + i < PAGES_MAX; i++)
        ids[pages + i] = run.page_first + i;
    groups[group].count += run.page_count;
    pages += run.page_count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t packed[KVR_PAGE_RUNS_BYTES_MAX];
    kvr_role role = KVR_ROLE_SOURCE;
    kvr_status status;
    size_t count;

    memset(groups, 0, sizeof(groups));
    pages = 0;
    status = kvr_page_runs_unpack(data, size, &role, visit, NULL);
    check(status == KVR_OK || status == KVR_MALFORMED || status == KVR_UNSUPPORTED, "another end");
    check(status == KVR_OK || pages == 0, "refused bytes were visited");
    if (status != KVR_OK || pages > PAGES_MAX)
        return 0;
    count = kvr_page_runs_pack(groups, role, packed);
    check(count == 0 || (count == size && memcmp(packed, data, size) == 0), "from other bytes");
    return 0;
}
