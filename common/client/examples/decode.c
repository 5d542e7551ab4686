/* A decode engine: gives its agent memory, fetches one request and uses each layer as it comes.
 *
 *   decode <agent's socket> <request id> <host:port of the prefill-agent> <generation of the
 * source> */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <kvrail.h>

#define LAYERS 4
#define TOKENS 64

/* Larger after every restart. */
static uint64_t generation(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static int failed(const char *what, const struct kvrail_error *error)
{
    fprintf(stderr, "%s: %s\n", what, error->detail);
    return 1;
}

static void show(const struct kvrail_event *event)
{
    printf("%s: %s", kvrail_event_name(event->kind), event->status_name);
    if (event->kind == KVRAIL_EVENT_LAYER_IN)
        printf(", layers %u to %u", event->layer_first,
               event->layer_first + event->layer_count - 1);
    if (event->kind == KVRAIL_EVENT_TAIL_IN)
        printf(", '%.*s'", (int)event->payload_bytes, (const char *)event->payload);
    printf("%s%s\n", event->detail[0] != '\0' ? ", " : "", event->detail);
}

/* Shows events until the one that hands the pages back. */
static int wait_for_end(struct kvrail *agent, kvrail_handle target)
{
    struct pollfd readable = {.fd = kvrail_event_fd(agent), .events = POLLIN};
    struct kvrail_event event;
    int got;

    while ((got = kvrail_poll(agent, &event, 1)) >= 0) {
        if (got == 0) {
            poll(&readable, 1, -1);
            continue;
        }
        show(&event);
        if (event.terminal && event.handle == target)
            return event.kind == KVRAIL_EVENT_DONE ? 0 : 1;
    }
    return 1;
}

int main(int argc, char **argv)
{
    struct kvrail_identity me = {.name = "example-decode",
                                 .engine = {2},
                                 .tp_size = 1,
                                 .pp_size = 1,
                                 .generation = generation(),
                                 .model = "example",
                                 .dtype = "bfloat16",
                                 .layers_total = LAYERS,
                                 .kv_heads_total = 2,
                                 .head_dim = 64};
    struct kvrail_region region = {.name = "kv",
                                   .device = -1,
                                   .layer_count = LAYERS,
                                   .part_count = 2,
                                   .parts = {KVRAIL_PART_K, KVRAIL_PART_V},
                                   .head_count = 2,
                                   .page_tokens = 16,
                                   .page_count = 128,
                                   .head_bytes = 128};
    struct kvrail_source_address from = {.agent = argc > 3 ? argv[3] : "",
                                         .engine = {1},
                                         .generation = argc > 4 ? strtoull(argv[4], NULL, 10) : 0};
    struct kvrail_target_options request = {
        .request = argc > 2 ? argv[2] : "", .tokens = TOKENS, .sources = &from, .source_count = 1};
    static const uint32_t pages[TOKENS / 16] = {0, 50, 51, 52};
    struct kvrail_error error;
    struct kvrail_memory memory;
    struct kvrail *agent;
    kvrail_handle target;
    uint32_t region_id;
    int status;

    if (argc != 5) {
        fprintf(stderr, "usage: decode SOCKET REQUEST HOST:PORT GENERATION\n");
        return 2;
    }
    kvrail_region_dense(&region);
    if (kvrail_memory_create("kv", region.bytes, &memory, &error) != KVRAIL_OK)
        return failed("memory", &error);
    region.fd = memory.fd;
    if (kvrail_open(argv[1], &me, 2000, &agent, &error) != KVRAIL_OK)
        return failed("open", &error);
    if (kvrail_region_add(agent, &region, 10000, &region_id) != KVRAIL_OK)
        return failed("region", kvrail_last_error(agent));

    if (kvrail_target_open(agent, &request, &target) != KVRAIL_OK ||
        kvrail_target_pages(agent, target, 0, pages, TOKENS / 16) != KVRAIL_OK)
        return failed("fetch", kvrail_last_error(agent));
    status = wait_for_end(agent, target);
    kvrail_close(agent);
    return status;
}
