/* Any trace of transfers is refused, or each of its requests has agents that are there and times
 * that rise. Its page tables have each page of a pool at most once. Its requests alone have times
 * within bounds. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tools/replay/replay_recording.h"
#include "tools/replay/replay_runs.h"
#include "trace/kvtrace.h"

#define POOL         64u
#define REQUESTS_MAX 64u
#define HEADER       "{\"kvtrace\":{\"version\":1}}\n"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "%s\n", what);
        abort();
    }
}

static void check_table(const struct replay_recording *recording, const struct replay_numbers *runs,
                        struct pages *pages)
{
    uint32_t ids[POOL], end = 1 + runs->count % POOL, first = end / 3;
    const int64_t *numbers = NULL;
    bool used[POOL] = {false};

    check(runs->first + runs->count <= recording->number_count, "runs beyond the numbers");
    if (runs->count > 0)
        numbers = recording->numbers + runs->first;
    if (runs_take(numbers, runs->count, first, end, pages, ids) != RUNS_PLACED) {
        check(pages->free_count == POOL, "pages were taken, and not given");
        return;
    }
    for (uint32_t i = first; i < end; i++) {
        check(ids[i] < POOL && !used[ids[i]], "no page, or one page twice");
        used[ids[i]] = true;
    }
    pages_release(pages, ids + first, end - first);
    check(pages->free_count == POOL, "pages were lost");
}

static void check_item(const struct replay_recording *recording, const struct replay_agents *agents,
                       const struct replay_recorded *item, struct pages *pages)
{
    check(item->ready.first + item->ready.count <= recording->number_count, "times beyond numbers");
    for (uint32_t i = 1; i < item->ready.count; i++)
        check(recording->numbers[item->ready.first + i - 1] <=
                  recording->numbers[item->ready.first + i],
              "a layer is ready before the one before it");
    for (uint32_t role = 0; role < REPLAY_ROLES; role++) {
        check(item->numbers[role] < agents->counts[role], "an agent that is not there");
        for (uint32_t group = 0; group < REPLAY_RECORDED_GROUPS; group++)
            check_table(recording, &item->runs[role][group], pages);
    }
}

static void check_recording(struct replay_recording *recording, const struct kvr_trace *trace)
{
    struct replay_agents agents = {.counts = {2, 3}};
    uint32_t shared[REPLAY_ROLES];
    struct kvr_error error;
    struct pages pages;

    check(trace->request_count <= REQUESTS_MAX, "more requests than were asked for");
    check(pages_init(&pages, POOL, PAGES_AGED, 1), "no memory");
    if (replay_recording_place(recording, trace, &agents, shared, &error) == KVR_OK) {
        for (uint32_t i = 0; i < trace->request_count; i++) {
            check(trace->requests[i].number < recording->item_count, "a request without an item");
            check(i == 0 || trace->requests[i - 1].at <= trace->requests[i].at, "out of order");
            check_item(recording, &agents, &recording->items[trace->requests[i].number], &pages);
        }
    }
    for (uint32_t i = 1; i < recording->fault_count; i++)
        check(recording->faults[i - 1].at_us <= recording->faults[i].at_us, "faults out of order");
    pages_done(&pages);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct replay_recording recording = {0};
    struct kvr_trace trace;
    struct kvr_error error;
    char path[64];
    int file = memfd_create("recording", MFD_CLOEXEC);

    check(file >= 0, "no memory for a file");
    check(write(file, HEADER, sizeof(HEADER) - 1) == (ssize_t)sizeof(HEADER) - 1, "no header");
    check(write(file, data, size) == (ssize_t)size, "the file cannot be written");
    snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
    kvr_trace_init(&trace);
    if (replay_recording_read(path, REQUESTS_MAX, &trace, &recording, &error) == KVR_OK)
        check_recording(&recording, &trace);
    kvr_trace_done(&trace);
    replay_recording_done(&recording);
    if (kvtrace_requests_quietly(path, REQUESTS_MAX, &trace, &error) == KVR_OK) {
        check(trace.request_count <= REQUESTS_MAX, "more requests than were asked for");
        check(trace.requests[trace.request_count - 1].at <= (kvr_ns)KVTRACE_TIME_MAX * KVR_US,
              "a request beyond all bounds");
    }
    kvr_trace_done(&trace);
    close(file);
    return 0;
}
