/* Goal: the options name agents as documented, and each recorded agent has a given one: by name,
 * else in order. Method: options and names, one after the other. */
#include "tests/support/check.h"

#include <limits.h>
#include <stdio.h>

#include "tools/replay/replay_agents.h"

static struct replay_agent_options options;
static struct replay_agents agents;
static struct kvr_error error;

static void give(struct kvr_option_list *list, const char *item)
{
    snprintf(list->items[list->count++], sizeof(list->items[0]), "%s", item);
}

static int setup(void **state)
{
    (void)state;
    memset(&options, 0, sizeof(options));
    memset(&agents, 0, sizeof(agents));
    error = (struct kvr_error){0};
    return 0;
}

static void give_sources(uint32_t count, const char *const *items)
{
    for (uint32_t i = 0; i < count; i++) {
        give(&options.sockets[KVR_ROLE_SOURCE], items[i]);
        give(&options.addresses, "10.0.0.1:18900");
    }
}

static void sockets_have_names_where_they_are_given(void **state)
{
    static const char *const sources[] = {"east=/run/a.sock", "/run/b=c.sock", "d.sock"};
    char label[REPLAY_AGENT_LABEL_BYTES];

    (void)state;
    give_sources(3, sources);
    give(&options.sockets[KVR_ROLE_TARGET], "/run/t.sock");
    assert_int_equal(replay_agents_read(&options, &agents, &error), KVR_OK);
    assert_int_equal(agents.counts[KVR_ROLE_SOURCE], 3);
    assert_int_equal(replay_agent_count(&agents), 4);
    assert_string_equal(agents.items[0].name, "east");
    assert_string_equal(agents.items[0].socket, "/run/a.sock");
    assert_string_equal(agents.items[1].name, "");
    assert_string_equal(agents.items[1].socket, "/run/b=c.sock");
    assert_string_equal(agents.items[3].socket, "/run/t.sock");
    assert_string_equal(agents.items[2].address, "10.0.0.1:18900");
    assert_string_equal(replay_agent_label(&agents, 0, label), "east");
    assert_string_equal(replay_agent_label(&agents, 2, label), "source-2");
    assert_string_equal(replay_agent_label(&agents, 3, label), "target");
}

static void refused(const char *sentence)
{
    assert_int_equal(replay_agents_read(&options, &agents, &error), KVR_INVALID);
    assert_non_null(strstr(error.detail, sentence));
}

static void mistakes_are_named(void **state)
{
    static const char *const two[] = {"a=/one", "a=/two"};
    static const char *const no_pids[] = {
        "12x", "", "-1", "0", "1", "2147483648", "4294967295", "18446744073709551616"};

    (void)state;
    give_sources(2, two);
    give(&options.sockets[KVR_ROLE_TARGET], "/t");
    refused("two agents the name 'a'");
    strcpy(options.sockets[KVR_ROLE_SOURCE].items[1], "b=/one");
    refused("has '/one' twice");
    strcpy(options.sockets[KVR_ROLE_SOURCE].items[1], "=/two");
    refused("must be PATH or NAME=PATH");
    strcpy(options.sockets[KVR_ROLE_SOURCE].items[1], "b=");
    refused("must be PATH or NAME=PATH");
    strcpy(options.sockets[KVR_ROLE_SOURCE].items[1], "/two");
    give(&options.addresses, "10.0.0.3:1");
    refused("--source-agent is given 3 times and --source-socket 2");
    options.addresses.count = 2;
    give(&options.pids, "12x");
    for (size_t i = 0; i < sizeof(no_pids) / sizeof(no_pids[0]); i++) {
        strcpy(options.pids.items[0], no_pids[i]);
        refused("no process id of an agent: give numbers from 2 to 2147483647");
    }
    strcpy(options.pids.items[0], "12");
    for (int i = 0; i < 3; i++)
        give(&options.pids, "13");
    refused("has 4 processes, but there are 3 agents");
    options.pids.count = 3;
    strcpy(options.pids.items[2], "2147483647");
    assert_int_equal(replay_agents_read(&options, &agents, &error), KVR_OK);
    assert_int_equal(agents.items[0].pid, 12);
    assert_int_equal(agents.items[2].pid, INT_MAX);
}

static void every_pair_has_its_turn(void **state)
{
    (void)state;
    for (uint32_t sources = 1; sources <= 5; sources++) {
        for (uint32_t targets = 1; targets <= 5; targets++) {
            uint32_t seen[5][5] = {{0}}, of_source[5] = {0};

            agents.counts[KVR_ROLE_SOURCE] = sources;
            agents.counts[KVR_ROLE_TARGET] = targets;
            for (uint32_t turn = 0; turn < sources * targets; turn++) {
                uint32_t numbers[REPLAY_ROLES];

                replay_agents_in_turn(&agents, turn, numbers);
                seen[numbers[KVR_ROLE_SOURCE]][numbers[KVR_ROLE_TARGET]]++;
                of_source[numbers[KVR_ROLE_SOURCE]]++;
            }
            for (uint32_t i = 0; i < sources; i++) {
                assert_int_equal(of_source[i], targets);
                for (uint32_t k = 0; k < targets; k++)
                    assert_int_equal(seen[i][k], 1);
            }
        }
    }
}

static void mapped(const char *const *names, uint32_t count, const uint32_t *expected,
                   uint32_t expected_shared)
{
    uint32_t numbers[8], shared;

    assert_int_equal(
        replay_agents_map(&agents, KVR_ROLE_SOURCE, names, count, numbers, &shared, &error),
        KVR_OK);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(numbers[i], expected[i]);
    assert_int_equal(shared, expected_shared);
}

static void recorded_agents_are_mapped(void **state)
{
    static const char *const names[] = {"a", "b", "c", "b", "d"};
    uint32_t numbers[8], shared;

    (void)state;
    agents.counts[KVR_ROLE_SOURCE] = 2;
    mapped(names, 2, (const uint32_t[]){0, 1}, 0);
    mapped(names, 5, (const uint32_t[]){0, 1, 0, 1, 0}, 3);
    /* One has a name: it stands for every recorded one of that name, and for no other. */
    strcpy(agents.items[0].name, "b");
    mapped(names, 5, (const uint32_t[]){1, 0, 1, 0, 1}, 3);
    /* Each has a name: those of other names go to all. */
    strcpy(agents.items[1].name, "a");
    mapped(names, 5, (const uint32_t[]){1, 0, 0, 0, 1}, 3);
    strcpy(agents.items[1].name, "z");
    assert_int_equal(
        replay_agents_map(&agents, KVR_ROLE_SOURCE, names, 5, numbers, &shared, &error),
        KVR_NOT_FOUND);
    assert_non_null(strstr(error.detail, "'z'"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(sockets_have_names_where_they_are_given, setup),
        cmocka_unit_test_setup(mistakes_are_named, setup),
        cmocka_unit_test_setup(every_pair_has_its_turn, setup),
        cmocka_unit_test_setup(recorded_agents_are_mapped, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
