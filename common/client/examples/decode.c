/* A decode engine: fetches one request, shows each event and checks every byte.
 *
 *   REQUEST_SECRET=<the source's> decode <agent's socket> <request id>
 *       <host:port of the prefill-agent> <source's generation> */
#include "engine.h"

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

/* Shows events until the one that hands the pages back; 0 when they hold the request. */
static int wait_for_end(const struct engine *engine, kvrail_handle target)
{
    struct kvrail_event event;

    while (engine_wait(engine, &event)) {
        show(&event);
        if (event.terminal && event.handle == target)
            return event.kind == KVRAIL_EVENT_DONE ? 0 : 1;
    }
    return 1;
}

int main(int argc, char **argv)
{
    static const uint32_t pages[PAGES] = {0, 50, 51, 52};
    struct kvrail_source_address from = {.size = sizeof(struct kvrail_source_address),
                                         .engine = {1}};
    struct kvrail_target_options request = {.size = sizeof(struct kvrail_target_options),
                                            .tokens = TOKENS,
                                            .sources = &from,
                                            .source_count = 1};
    struct engine engine;
    kvrail_handle target;
    int status;

    if (argc != 5) {
        fprintf(stderr, "usage: decode SOCKET REQUEST HOST:PORT GENERATION\n");
        return 2;
    }
    if (engine_start(argv[1], "example-decode", 2, &engine) != 0)
        return 1;
    request.request = argv[2];
    request.secret = engine_secret();
    request.tenant = engine_tenant();
    from.agent = argv[3];
    from.generation = strtoull(argv[4], NULL, 10);
    if (kvrail_target_open(engine.agent, &request, &target) != KVRAIL_OK ||
        kvrail_target_pages(engine.agent, target, 0, pages, PAGES) != KVRAIL_OK)
        return engine_failed("fetch", kvrail_last_error(engine.agent));
    status = wait_for_end(&engine, target);
    if (status == 0) {
        size_t wrong = engine_wrong_bytes(&engine, pages, PAGES);

        printf("%zu bytes wrong\n", wrong);
        status = wrong != 0;
    }
    kvrail_close(engine.agent);
    return status;
}
