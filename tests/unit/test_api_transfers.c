/* Goal: a page of transfers with long page tables stays small enough to be read, and the pages
 * together have each transfer once.
 * Method: transfers with the longest page tables in a database; the test reads page after page. */
#include "tests/support/check.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "scheduler/api_parameters.h"
#include "scheduler/api_transfers.h"
#include "tests/support/store_case.h"
#include "trace/page_runs.h"

#define TRANSFERS 40
#define RUNS      32000

/* No two pages are neighbours. */
static uint32_t pack(uint8_t packed[KVR_PAGE_RUNS_BYTES_MAX])
{
    static uint32_t ids[RUNS];
    const struct kvr_page_ids groups[KVR_GROUPS_MAX] = {{ids, RUNS}};
    size_t bytes;

    for (uint32_t i = 0; i < RUNS; i++)
        ids[i] = 2 * i;
    bytes = kvr_page_runs_pack(groups, KVR_ROLE_TARGET, packed);
    assert_true(bytes > 0);
    return (uint32_t)bytes;
}

/* The first one is live. */
static void fill(struct fixture *fixture)
{
    static uint8_t packed[KVR_PAGE_RUNS_BYTES_MAX];
    uint32_t bytes = pack(packed);
    uint64_t acknowledged;

    for (uint64_t id = 1; id <= TRANSFERS; id++) {
        struct kvr_event event =
            event_of(id == 1 ? KVR_EVENT_MATCHED : KVR_EVENT_ENDED, KVR_ROLE_TARGET, id, id);
        struct kvr_report report = report_of("decode-0", id, &event, 1);

        if (id > 1) {
            event.pages = packed;
            event.pages_bytes = bytes;
        }
        assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
    }
}

/* Returns the answer's number of rows; next "": there is no other page. */
static size_t read_page(struct fixture *fixture, const struct api_query *query, char next[64],
                        bool seen[TRANSFERS + 1])
{
    struct api_answer answer = {0};
    json_t *body, *transfers, *transfer;
    size_t index, count;

    assert_true(api_get_transfers(fixture->store, query, &answer));
    assert_int_equal(answer.status, 200);
    assert_true(strlen(answer.body) < API_PAGE_BYTES + (1u << 20));
    body = json_loads(answer.body, 0, NULL);
    transfers = json_object_get(body, "transfers");
    count = json_array_size(transfers);
    json_array_foreach(transfers, index, transfer)
    {
        uint64_t id = strtoull(json_string_value(json_object_get(transfer, "id")), NULL, 16);

        assert_true(id >= 1 && id <= TRANSFERS && !seen[id]);
        seen[id] = true;
    }
    snprintf(next, 64, "%s",
             json_is_string(json_object_get(body, "next"))
                 ? json_string_value(json_object_get(body, "next"))
                 : "");
    json_decref(body);
    free(answer.body);
    return count;
}

static void read_all(struct fixture *fixture, const char *filter, const char *value)
{
    bool seen[TRANSFERS + 1] = {false};
    char next[64] = "";
    size_t rows = 0;
    int pages = 0;

    do {
        struct api_query query = {2, {{"trace", "yes"}, {"limit", "500"}}};
        char after[64];

        memcpy(after, next, sizeof(after));
        if (filter != NULL) {
            query.parameters[query.count].name = filter;
            query.parameters[query.count++].value = value;
        }
        if (after[0] != '\0') {
            query.parameters[query.count].name = "after";
            query.parameters[query.count++].value = after;
        }
        rows += read_page(fixture, &query, next, seen);
        assert_true(++pages < 10);
    } while (next[0] != '\0');
    assert_int_equal(rows, TRANSFERS);
    assert_true(pages > 1);
}

static void a_page_ends_where_its_text_is_long(void **state)
{
    fill(*state);
    read_all(*state, NULL, NULL);
    read_all(*state, "agent", "decode-0"); /* a search: the live one comes first */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_STORE(a_page_ends_where_its_text_is_long),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
