/* A prefill engine: gives its agent memory, publishes one request and tells when each layer is
 * final.
 *
 *   prefill <agent's socket> <request id> */
#include <poll.h>
#include <stdio.h>
#include <string.h>
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

/* Waits for the event that hands the pages back. */
static int wait_for_end(struct kvrail *agent, kvrail_handle source)
{
    struct pollfd readable = {.fd = kvrail_event_fd(agent), .events = POLLIN};
    struct kvrail_event event;
    int got;

    while ((got = kvrail_poll(agent, &event, 1)) >= 0) {
        if (got == 1 && event.terminal && event.handle == source) {
            printf("%s: %s, %llu bytes\n", kvrail_event_name(event.kind), event.status_name,
                   (unsigned long long)event.bytes);
            return event.status == KVRAIL_OK ? 0 : 1;
        }
        if (got == 0)
            poll(&readable, 1, -1);
    }
    return 1;
}

int main(int argc, char **argv)
{
    struct kvrail_identity me = {.name = "example-prefill",
                                 .engine = {1},
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
    struct kvrail_source_options request = {.request = argc > 2 ? argv[2] : "", .tokens = TOKENS};
    static const uint32_t pages[TOKENS / 16] = {7, 8, 3, 100};
    struct kvrail_error error;
    struct kvrail_memory memory;
    struct kvrail *agent;
    kvrail_handle source;
    uint32_t region_id;
    int status;

    if (argc != 3) {
        fprintf(stderr, "usage: prefill SOCKET REQUEST\n");
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
    printf("generation %llu\n", (unsigned long long)me.generation);
    (void)fflush(stdout); /* the target is told it */

    if (kvrail_source_open(agent, &request, &source) != KVRAIL_OK ||
        kvrail_source_pages(agent, source, 0, pages, TOKENS / 16) != KVRAIL_OK ||
        kvrail_source_watch(agent, source, 0, 0, 0, TOKENS) != KVRAIL_OK)
        return failed("publish", kvrail_last_error(agent));
    for (uint64_t layer = 0; layer < LAYERS; layer++) {
        memset((char *)memory.address + layer * region.layer_stride, (int)layer + 1,
               region.layer_stride); /* the model's work */
        kvrail_ready(agent, 0, layer + 1);
    }
    if (kvrail_source_tail(agent, source, "first token", 11) != KVRAIL_OK ||
        kvrail_source_end(agent, source, KVRAIL_OK) != KVRAIL_OK)
        return failed("end", kvrail_last_error(agent));
    status = wait_for_end(agent, source);
    kvrail_close(agent);
    return status;
}
