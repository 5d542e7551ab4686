/* A prefill engine: publishes one request and announces each layer when it is final.
 *
 *   [REQUEST_SECRET=<64 hexadecimal digits>] prefill <agent's socket> <request id>
 *
 * Without REQUEST_SECRET the library draws a secret, and the example shows it. */
#include "engine.h"

/* Waits for the event that hands the pages back. */
static int wait_for_end(const struct engine *engine, kvrail_handle source)
{
    struct kvrail_event event;

    while (engine_wait(engine, &event)) {
        if (!event.terminal || event.handle != source)
            continue;
        printf("%s: %s, %llu bytes\n", kvrail_event_name(event.kind), event.status_name,
               (unsigned long long)event.bytes);
        return event.status == KVRAIL_OK ? 0 : 1;
    }
    return 1;
}

int main(int argc, char **argv)
{
    static const uint32_t pages[PAGES] = {7, 8, 3, 100};
    struct kvrail_source_options request = {.size = sizeof(struct kvrail_source_options),
                                            .tokens = TOKENS};
    struct engine engine;
    kvrail_handle source;
    int status;

    if (argc != 3) {
        fprintf(stderr, "usage: prefill SOCKET REQUEST\n");
        return 2;
    }
    if (engine_start(argv[1], "example-prefill", 1, &engine) != 0)
        return 1;
    printf("generation %llu\n", (unsigned long long)engine.generation);
    (void)fflush(stdout); /* for the target's command line */

    request.request = argv[2];
    request.secret = engine_secret();
    request.tenant = engine_tenant();
    if (kvrail_source_open(engine.agent, &request, &source) != KVRAIL_OK ||
        kvrail_source_pages(engine.agent, source, 0, pages, PAGES) != KVRAIL_OK ||
        kvrail_source_watch(engine.agent, source, 0, 0, 0, TOKENS) != KVRAIL_OK)
        return engine_failed("publish", kvrail_last_error(engine.agent));
    if (engine_show_secret(&engine, source) != 0)
        return 1;
    for (uint64_t layer = 0; layer < LAYERS; layer++) {
        memset((char *)engine.memory.address + layer * engine.region.layer_stride, (int)layer + 1,
               engine.region.layer_stride); /* the model's work */
        kvrail_ready(engine.agent, 0, layer + 1);
    }
    if (kvrail_source_tail(engine.agent, source, "first token", 11) != KVRAIL_OK ||
        kvrail_source_end(engine.agent, source, KVRAIL_OK) != KVRAIL_OK)
        return engine_failed("end", kvrail_last_error(engine.agent));
    status = wait_for_end(&engine, source);
    kvrail_close(engine.agent);
    return status;
}
