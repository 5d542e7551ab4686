/* Goal: the memory of a rail group's thread lies on the NUMA node where that thread runs, also
 * memory that the loop writes first. Method: on each node of this host one group, opened as an
 * agent does, with its loop on another node. The kernel then reports the nodes of its pages. */
#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rail_group/rail_group_state.h"
#include "tests/support/check.h"
#include "tests/support/fake_group.h"

#define NODES    8
#define COMMANDS 3000

/* A processor of the node; -1: the node has none, or does not exist. */
static int core_of(int node)
{
    char path[64];
    struct dirent *entry;
    DIR *folder;
    int core = -1;

    snprintf(path, sizeof(path), "/sys/devices/system/node/node%d", node);
    folder = opendir(path);
    while (folder != NULL && core < 0 && (entry = readdir(folder)) != NULL)
        if (sscanf(entry->d_name, "cpu%d", &core) != 1)
            core = -1;
    if (folder != NULL)
        closedir(folder);
    return core;
}

static void run_on(int core)
{
    cpu_set_t cores;

    CPU_ZERO(&cores);
    CPU_SET((unsigned)core, &cores);
    assert_int_equal(sched_setaffinity(0, sizeof(cores), &cores), 0);
}

/* Counts the whole pages in the range; each must be on the node. */
static unsigned pages_on(const char *what, const void *memory, size_t bytes, int node)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = ((uintptr_t)memory + page - 1) & -page;
    unsigned there = 0;

    for (; at + page <= (uintptr_t)memory + bytes; at += page) {
        void *address = (void *)at;
        int status = -1;

        assert_int_equal(syscall(SYS_move_pages, 0, 1ul, &address, NULL, &status, 0), 0);
        if (status < 0)
            continue; /* no thread has touched it */
        if (status != node)
            fail_msg("a page of the group's %s is on node %d, not %d", what, status, node);
        there++;
    }
    return there;
}

static void group_lies_on(int node, int core, int other_core)
{
    struct kvr_group_message message = {.head.kind = KVR_GROUP_KIND_USER}, told;
    uint32_t bytes = sizeof(message);
    const struct kvr_ring *commands;
    struct kvr_pair pair;
    struct group_fixture fixture;

    run_on(core);
    fixture_open(&fixture, 2, 64, 4096);
    peer_add(&fixture, 0, 2);
    run_on(other_core); /* its loop */
    for (unsigned i = 0; i < COMMANDS; i++)
        assert_true(kvr_group_command(fixture.group, &message));
    run_on(core); /* its thread */
    fixture_settle(&fixture, 1);
    for (unsigned i = 0; i < COMMANDS; i++)
        kvr_group_tell(fixture.group, &message);
    assert_int_equal(post(&fixture, 0, &pair), KVR_OK);
    run_on(other_core);
    while (kvr_group_event(fixture.group, &told))
        continue;
    commands = &fixture.group->rings.commands.first->ring;
    assert_true(pages_on("commands", commands->slots, (size_t)4096 * bytes, node) > 0);
    assert_true(pages_on("events", fixture.group->rings.events.slots, (size_t)4096 * bytes, node) >
                0);
    (void)pages_on("peers", fixture.group->peers, KVR_PEERS_MAX * sizeof(*fixture.group->peers),
                   node);
    (void)pages_on("links", fixture.group->links_memory,
                   kvr_pool_bytes(fixture.group->links.count, sizeof(struct group_link)), node);
    (void)pages_on("own", fixture.group, sizeof(*fixture.group), node);
    kvr_group_close(fixture.group);
}

/* An agent opens its groups in fresh memory, not in memory of an earlier group. */
static void in_a_process_of_its_own(int node, int core, int other_core)
{
    pid_t child = fork();
    int status = -1;

    assert_true(child >= 0);
    if (child == 0) {
        group_lies_on(node, core, other_core);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void group_is_where_its_thread_is(void **state)
{
    int nodes[NODES], cores[NODES];
    unsigned count = 0;

    (void)state;
    for (int node = 0; node < NODES; node++) {
        cores[count] = core_of(node);
        nodes[count] = node;
        count += cores[count] >= 0;
    }
    if (count < 2)
        skip(); /* tests/verbs has a machine with two */
    for (unsigned i = 0; i < count; i++)
        in_a_process_of_its_own(nodes[i], cores[i], cores[(i + 1) % count]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(group_is_where_its_thread_is)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
