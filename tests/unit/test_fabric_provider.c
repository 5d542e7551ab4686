/* Goal: the table of providers is complete, the values derived from it agree, and so does
 * ADDING.md. Method: the table's rows; the page's table read as text. */
#include "tests/support/check.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/removed.h"
#include "fabric/fabric_provider.h"

#define CELLS 7

static void rows_are_whole(void **state)
{
    const struct kvr_provider *row;

    (void)state;
    for (unsigned i = 0; (row = kvr_provider_at(i)) != NULL; i++) {
        struct kvr_rail_facts facts[1];
        struct kvr_error error = {0};
        struct kvr_fabric fabric = {0};

        assert_ptr_equal(kvr_provider_find(row->name), row);
        assert_true(strlen(row->name) < sizeof(facts->provider));
        assert_null(strpbrk(row->name, "+|"));
        assert_null(kvr_removed_provider(row->name));
        assert_non_null(row->default_rail);
        assert_true(row->costs.write > 0 && row->costs.wire_byte > 0);
        kvr_fabric_of(row->name, &fabric);
        assert_non_null(fabric.ops);
        assert_true(kvr_fabric_version(row->name)[0] != '\0');
        if (kvr_fabric_list(row->name, facts, 1, &error) == 0)
            continue; /* not on this host */
        assert_string_equal(facts[0].provider, row->name);
        assert_int_equal(facts[0].same_host_only, row->same_host_only);
        assert_int_equal(facts[0].target_copies, row->target_copies);
        assert_int_equal(facts[0].exposed, row->exposed);
    }
    assert_null(kvr_provider_find("pigeon"));
    assert_null(kvr_provider_find(""));
}

static void choices_follow_from_the_rows(void **state)
{
    (void)state;
    assert_string_equal(kvr_provider_choices(), "efa-direct|efa|verbs|tcp|local");
    assert_string_equal(kvr_provider_choices_mixed(),
                        "efa-direct|efa|verbs|tcp|local|efa-direct+local|efa+local|verbs+local|"
                        "tcp+local");
    assert_string_equal(kvr_provider_choices_loopback(), "tcp|local");
}

static void cards_name_their_provider(void **state)
{
    struct kvr_topology_card card = {.kind = KVR_CARD_RDMA, .vendor = 0x1d0f, .device = 0xefa1};

    (void)state;
    assert_string_equal(kvr_provider_of_card(&card), "efa");
    card.vendor = 0x15b3;
    assert_string_equal(kvr_provider_of_card(&card), "verbs");
    card.kind = KVR_CARD_INTERFACE;
    assert_string_equal(kvr_provider_of_card(&card), "tcp");
    card.kind = KVR_CARD_GPU;
    assert_string_equal(kvr_provider_of_card(&card), "");
}

static const char *yes_no(bool value)
{
    return value ? "yes" : "no";
}

/* The cells of "| `tcp` | libfabric | … |"; false: another kind of line. */
static bool cells_of(char *line, char *ret_cells[CELLS])
{
    char *rest, *cell = strtok_r(line, "|\n", &rest);
    unsigned count = 0;

    if (strncmp(line, " `", 2) != 0 && strncmp(line, "| `", 3) != 0)
        return false;
    for (; cell != NULL && count < CELLS; cell = strtok_r(NULL, "|\n", &rest)) {
        cell += strspn(cell, " `");
        cell[strcspn(cell, "`")] = '\0';
        for (size_t n = strlen(cell); n > 0 && cell[n - 1] == ' '; n--)
            cell[n - 1] = '\0';
        ret_cells[count++] = cell;
    }
    return count == CELLS;
}

static void the_page_has_the_same_rows(void **state)
{
    unsigned found = 0, rows = 0;
    char path[4096], line[512], *cells[CELLS];
    FILE *page;

    (void)state;
    assert_non_null(getenv("KVRAIL_ROOT_DIR"));
    snprintf(path, sizeof(path), "%s/common/fabric/ADDING.md", getenv("KVRAIL_ROOT_DIR"));
    page = fopen(path, "re");
    assert_non_null(page);
    while (fgets(line, sizeof(line), page) != NULL) {
        const struct kvr_provider *row;

        if (!cells_of(line, cells))
            continue;
        row = kvr_provider_find(cells[0]);
        if (row == NULL)
            fail_msg("ADDING.md has a row for '%s', which the table lacks", cells[0]);
        found++;
        assert_string_equal(cells[1],
                            row->libfabric.prov_names[0] != NULL ? "libfabric" : "our own");
        assert_string_equal(cells[2], yes_no(row->same_host_only));
        assert_string_equal(cells[3], yes_no(row->target_copies));
        assert_string_equal(cells[4], yes_no(row->exposed));
        assert_string_equal(cells[5], yes_no(row->kernel_tcp));
        assert_string_equal(cells[6], yes_no(row->rail_ports));
    }
    fclose(page);
    while (kvr_provider_at(rows) != NULL)
        rows++;
    assert_int_equal(found, rows);
}

static void removed_names_are_found_in_mixed_ones(void **state)
{
    (void)state;
    assert_non_null(strstr(kvr_removed_provider("shm"), "local"));
    assert_non_null(kvr_removed_provider("tcp+shm"));
    assert_non_null(kvr_removed_provider("shm+local"));
    assert_null(kvr_removed_provider("shmem"));
    assert_null(kvr_removed_provider("tcp+local"));
    assert_null(kvr_removed_provider(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_whole),
        cmocka_unit_test(choices_follow_from_the_rows),
        cmocka_unit_test(cards_name_their_provider),
        cmocka_unit_test(the_page_has_the_same_rows),
        cmocka_unit_test(removed_names_are_found_in_mixed_ones),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
