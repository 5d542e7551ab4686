/* One engine, on the public library, that gives its memory back at the worst moments; the test
 * knows from /proc what the agent has mapped.
 *
 *   regions SOCKET PID [spread | beside]    of a prefill-agent and its process
 *
 * spread: each region lies over two allocations of an emulated device. beside: other engines of the
 * same agent run, and this one leaves them their part of its tables.
 *
 * Exit 0: REGION_GONE came once for each region, when nothing of the agent could touch it. */
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/support/test_secret.h"
#include <kvrail.h>

#define WAIT_MS     10000
#define PAGE_TOKENS 16
#define PAGES       (1u << 20)
#define FILLERS     400
#define AT_ONCE     40

static struct kvrail *agent;
static const char *agent_pid;
static bool spread;
static bool beside;

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("line %d: not so: %s (%s)\n", __LINE__, #condition,                             \
                   agent != NULL ? kvrail_last_error(agent)->detail : "");                         \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* The same memfd twice, side by side: until the next region is made. */
static void lay_over_two(const struct kvrail_memory *memory, struct kvrail_region *region)
{
    static struct kvrail_allocation allocations[2];

    allocations[0] = allocations[1] = (struct kvrail_allocation){
        .size = sizeof(struct kvrail_allocation), .fd = memory->fd, .bytes = memory->bytes};
    region->memory = KVRAIL_MEMORY_CUDA_VMM;
    region->device = 0;
    region->fd = -1;
    region->fd_offset = memory->bytes / 2;
    region->allocation_count = 2;
    region->allocations = allocations;
}

/* Of this process alone: others may run beside it. Until the next call. */
static const char *own(const char *name)
{
    static char text[24];

    snprintf(text, sizeof(text), "%.10s-%d", name, (int)getpid());
    return text;
}

static struct kvrail_region region_of(const char *name, struct kvrail_memory *memory)
{
    struct kvrail_region region = {.size = sizeof(struct kvrail_region),
                                   .name = name,
                                   .device = -1,
                                   .layer_count = 1,
                                   .part_count = 1,
                                   .parts = {KVRAIL_PART_KV},
                                   .head_count = 1,
                                   .page_tokens = PAGE_TOKENS,
                                   .page_count = PAGES,
                                   .head_bytes = 4};

    kvrail_region_dense(&region);
    REQUIRE(kvrail_memory_create(own(name), region.bytes, memory, NULL) == KVRAIL_OK);
    region.fd = memory->fd;
    if (spread)
        lay_over_two(memory, &region);
    return region;
}

static uint32_t added(const char *name)
{
    struct kvrail_memory memory;
    struct kvrail_region region = region_of(name, &memory);
    uint32_t id;

    REQUIRE(kvrail_region_add(agent, &region, WAIT_MS, &id) == KVRAIL_OK);
    kvrail_memory_destroy(&memory);
    return id;
}

/* How often the agent has mapped the memfd. */
static unsigned mappings(const char *name)
{
    char path[64], wanted[64], line[512];
    unsigned count = 0;
    FILE *maps;

    snprintf(path, sizeof(path), "/proc/%s/maps", agent_pid);
    snprintf(wanted, sizeof(wanted), "memfd:%s ", own(name));
    maps = fopen(path, "r");
    REQUIRE(maps != NULL);
    while (fgets(line, sizeof(line), maps) != NULL)
        count += strstr(line, wanted) != NULL;
    fclose(maps);
    return count;
}

static bool mapped(const char *name)
{
    return mappings(name) > 0;
}

/* The next event within ms; false: none came. */
static bool next_event(struct kvrail_event *event, int ms)
{
    struct pollfd readable = {.fd = kvrail_event_fd(agent), .events = POLLIN};
    int got;

    while ((got = kvrail_poll(agent, event, 1)) == 0)
        if (poll(&readable, 1, ms) == 0)
            return false;
    REQUIRE(got == 1);
    return true;
}

/* What the agent said before it answered a question that was asked now; false: nothing. */
static bool said_by_now(struct kvrail_event *event)
{
    struct kvrail_event answer;

    REQUIRE(kvrail_why(agent, 0) == KVRAIL_OK);
    REQUIRE(next_event(event, WAIT_MS));
    if (event->kind == KVRAIL_EVENT_WHY)
        return false;
    REQUIRE(next_event(&answer, WAIT_MS) && answer.kind == KVRAIL_EVENT_WHY);
    return true;
}

static void require_gone(uint32_t id, const char *name)
{
    struct kvrail_event event;

    REQUIRE(next_event(&event, WAIT_MS));
    REQUIRE(event.kind == KVRAIL_EVENT_REGION_GONE && event.handle == id);
    REQUIRE(event.status == KVRAIL_OK);
    REQUIRE(!mapped(name));
}

/* Given back before the agent has so much as seen it. */
static void drop_while_it_is_registered(void)
{
    struct kvrail_memory memory;
    struct kvrail_region region = region_of("early", &memory);
    struct kvrail_event event;
    uint32_t id;

    REQUIRE(kill(atoi(agent_pid), SIGSTOP) == 0);
    REQUIRE(kvrail_region_add(agent, &region, 0, &id) == KVRAIL_TIMED_OUT);
    REQUIRE(kvrail_region_drop(agent, id) == KVRAIL_OK);
    REQUIRE(kill(atoi(agent_pid), SIGCONT) == 0);
    require_gone(id, "early");
    REQUIRE(!next_event(&event, 200));
    REQUIRE(!mapped("early"));
    kvrail_memory_destroy(&memory);
}

/* A region of other layers in the memory of `of`. */
static kvrail_status add_into(uint32_t of, uint64_t bytes, uint32_t layer, uint32_t *ret_id)
{
    struct kvrail_region region = {.size = sizeof(struct kvrail_region),
                                   .name = "lodger",
                                   .fd = -1,
                                   .group = 1,
                                   .layer_first = layer,
                                   .layer_count = 1,
                                   .part_count = 1,
                                   .parts = {KVRAIL_PART_STATE},
                                   .head_count = 1,
                                   .page_count = 4,
                                   .head_bytes = 1000,
                                   .memory_of = of};

    kvrail_region_dense(&region);
    region.bytes = bytes;
    return kvrail_region_add(agent, &region, WAIT_MS, ret_id);
}

/* Regions in the memory of another: it is mapped once, and stays until the last of them is gone. */
static void memory_stays_for_the_last_region(void)
{
    struct kvrail_memory memory;
    struct kvrail_region region = region_of("shared", &memory);
    unsigned once = spread ? 2 : 1; /* its two allocations are one memfd */
    uint32_t owner, first, second, none;
    struct kvrail_event event;

    REQUIRE(kvrail_region_add(agent, &region, WAIT_MS, &owner) == KVRAIL_OK);
    REQUIRE(mappings("shared") == once);
    REQUIRE(add_into(owner, region.bytes, 1, &first) == KVRAIL_OK);
    REQUIRE(add_into(first, 4096, 2, &second) == KVRAIL_OK); /* is in the owner's */
    REQUIRE(mappings("shared") == once);
    REQUIRE(add_into(owner, region.bytes + 1, 3, &none) == KVRAIL_INVALID);
    REQUIRE(add_into(1000000, 4096, 3, &none) == KVRAIL_NOT_FOUND);
    REQUIRE(kvrail_region_drop(agent, owner) == KVRAIL_OK);
    REQUIRE(add_into(owner, 4096, 3, &none) == KVRAIL_NOT_FOUND);
    REQUIRE(!said_by_now(&event));
    REQUIRE(kvrail_region_drop(agent, first) == KVRAIL_OK);
    REQUIRE(next_event(&event, WAIT_MS) && event.kind == KVRAIL_EVENT_REGION_GONE);
    REQUIRE(event.handle == first && event.status == KVRAIL_OK);
    REQUIRE(!said_by_now(&event));
    REQUIRE(mappings("shared") == once);
    REQUIRE(kvrail_region_drop(agent, second) == KVRAIL_OK);
    REQUIRE(next_event(&event, WAIT_MS) && event.handle == second);
    require_gone(owner, "shared");
    kvrail_memory_destroy(&memory);
}

static kvrail_handle publish(uint64_t pages)
{
    struct kvrail_source_options options = {.size = sizeof(struct kvrail_source_options),
                                            .tokens = pages * PAGE_TOKENS,
                                            .secret = TEST_SECRET};
    static unsigned count;
    char request[40];
    kvrail_handle handle;

    snprintf(request, sizeof(request), "%s-%u", own("filler"), count++);
    options.request = request;
    REQUIRE(kvrail_source_open(agent, &options, &handle) == KVRAIL_OK);
    return handle;
}

/* Asked for twice while a request holds it: the second asking is no answer to the first. */
static void drop_twice_while_it_is_used(void)
{
    uint32_t id = added("used");
    kvrail_handle handle = publish(1);
    struct kvrail_event event;

    REQUIRE(kvrail_region_drop(agent, id) == KVRAIL_OK);
    REQUIRE(kvrail_region_drop(agent, id) == KVRAIL_OK);
    REQUIRE(!said_by_now(&event));
    REQUIRE(mapped("used"));
    REQUIRE(kvrail_cancel(agent, handle, KVRAIL_CANCELLED) == KVRAIL_OK);
    REQUIRE(next_event(&event, WAIT_MS) && event.handle == handle && event.terminal);
    require_gone(id, "used");
}

/* Publishes until the agent's tables hold not even the smallest. Returns how many there are. */
static unsigned fill_tables(kvrail_handle *ret_handles)
{
    struct kvrail_event event;
    unsigned count = 0;

    for (uint64_t pages = PAGES; pages >= 1; pages /= 2)
        do {
            REQUIRE(count < FILLERS);
            ret_handles[count++] = publish(pages);
        } while (!said_by_now(&event)); /* the last one was refused */
    return count;
}

/* The agent keeps a descriptor of each: a few at once, and the others have to wait. */
static void too_many_are_refused(void)
{
    struct kvrail_memory memory;
    struct kvrail_region region = region_of("many", &memory);
    unsigned ready = 0, refused = 0;
    struct kvrail_event event;
    uint32_t id;

    REQUIRE(kill(atoi(agent_pid), SIGSTOP) == 0);
    for (unsigned i = 0; i < AT_ONCE; i++)
        REQUIRE(kvrail_region_add(agent, &region, 0, &id) == KVRAIL_TIMED_OUT);
    REQUIRE(kill(atoi(agent_pid), SIGCONT) == 0);
    while (ready + refused < AT_ONCE) {
        REQUIRE(next_event(&event, WAIT_MS));
        if (event.kind == KVRAIL_EVENT_REGION_READY) {
            ready++;
            REQUIRE(kvrail_region_drop(agent, (uint32_t)event.handle) == KVRAIL_OK);
        } else if (event.status == KVRAIL_FULL) {
            refused++;
        }
    }
    REQUIRE(ready > 0 && refused >= AT_ONCE / 2); /* it reads them in a turn or two */
    kvrail_memory_destroy(&memory);
    for (unsigned i = 0; i < 100 && mapped("many"); i++)
        (void)next_event(&event, 100);
    REQUIRE(!mapped("many"));
}

static void drop_without_memory(void)
{
    static kvrail_handle handles[FILLERS];
    uint32_t first = added("first"), second = added("second");
    struct kvrail_event event;
    unsigned count = fill_tables(handles), ended = 0;

    REQUIRE(kvrail_region_drop(agent, first) == KVRAIL_OK);
    REQUIRE(!said_by_now(&event));
    REQUIRE(mapped("first"));
    for (unsigned i = 0; i < count; i++)
        REQUIRE(kvrail_cancel(agent, handles[i], KVRAIL_CANCELLED) == KVRAIL_OK);
    do {
        REQUIRE(next_event(&event, WAIT_MS));
        ended += event.terminal != 0;
    } while (event.kind != KVRAIL_EVENT_REGION_GONE);
    REQUIRE(event.handle == first && event.status == KVRAIL_OK && !mapped("first"));
    REQUIRE(ended > 0);
    REQUIRE(kvrail_region_drop(agent, second) == KVRAIL_OK);
    require_gone(second, "second");
}

int main(int argc, char **argv)
{
    struct kvrail_identity me = {.size = sizeof(struct kvrail_identity),
                                 .name = "regions",
                                 .tp_size = 1,
                                 .pp_size = 1,
                                 .model = "regions",
                                 .dtype = "none",
                                 .layers_total = 1,
                                 .kv_heads_total = 1,
                                 .head_dim = 4};
    struct timespec now;
    pid_t pid = getpid();

    memcpy(me.engine, &pid, sizeof(pid));
    REQUIRE(clock_gettime(CLOCK_REALTIME, &now) == 0);
    me.generation = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    if (argc != 3 && argc != 4) {
        printf("usage: regions SOCKET PID [spread | beside]\n");
        return 2;
    }
    agent_pid = argv[2];
    spread = argc == 4 && strcmp(argv[3], "spread") == 0;
    beside = argc == 4 && strcmp(argv[3], "beside") == 0;
    REQUIRE(kvrail_open(argv[1], &me, WAIT_MS, &agent, NULL) == KVRAIL_OK);
    drop_while_it_is_registered();
    memory_stays_for_the_last_region();
    drop_twice_while_it_is_used();
    if (!beside)
        drop_without_memory();
    too_many_are_refused();
    kvrail_close(agent);
    return 0;
}
