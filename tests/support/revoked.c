/* A source engine that gets its pages back while the target's agent still has writes of them before
 * it, and writes on them at once. Both engines are this process, on the public library.
 *
 *   revoked SOURCE-SOCKET TARGET-SOCKET HOST:PORT cancel TARGET-AGENT-PID
 *   revoked SOURCE-SOCKET TARGET-SOCKET HOST:PORT kill SOURCE-AGENT-PID
 *
 * cancel: the target's agent is stopped while the source posts, cancels, and is given its pages.
 * kill: the source's agent is killed as soon as it may post.
 * Exit 0: each layer held the source's bytes at its LAYER_IN, and DONE never came; 75: one agent
 * lost the other before anything was in, or a write, as where others have the machine. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/small_engine.h"
#include "tests/support/test_secret.h"

#define LAYERS   8
#define PAGES    16
#define SCRIBBLE 0xdd
#define ASK_MS   1000 /* so often the agent is asked about the first layer */

/* All pages of a layer are one request's. */
static bool holds(const struct engine *engine, unsigned layer)
{
    const unsigned char *bytes = (const unsigned char *)engine_page(engine, layer, 0);

    for (uint64_t i = 0; i < engine->region.layer_stride; i++)
        if (bytes[i] != layer + 1)
            return false;
    return true;
}

/* After a lost write no layer is announced before the source has posted all, and here
 * it waits for the first. */
static bool held_by_repeats(struct engine *target)
{
    char text[4096];

    return target->layers_in == 0 && engine_why(target, text, sizeof(text)) &&
           strstr(text, "\"held_by\":\"repeats\"") != NULL;
}

/* Looks at the layers that the event calls in: they must be there. */
static bool layers_are_wrong(const struct engine *target, const struct kvrail_event *event)
{
    bool wrong = false;

    if (event->kind != KVRAIL_EVENT_LAYER_IN)
        return false;
    for (unsigned i = 0; i < event->layer_count; i++) {
        if (holds(target, event->layer_first + i))
            continue;
        printf("layer %u is announced, but it is not there\n", event->layer_first + i);
        wrong = true;
    }
    return wrong;
}

/* Until the first layer is in, or the end. Ends the round where a write of that layer was lost, or
 * where the answer about that took an event along with bytes that nothing looked at. */
static bool await_first_layer(struct engine *target)
{
    struct kvrail_event event;
    uint64_t asked_ms = 0;
    bool wrong = false;

    while (target->layers_in == 0 && !target->ended) {
        if (!engine_take(target, "target", &event))
            exit(1);
        wrong |= layers_are_wrong(target, &event);
        if (event.kind != 0)
            asked_ms = 0;
        if (target->waited_ms < asked_ms + ASK_MS)
            continue;
        asked_ms = target->waited_ms;
        if (held_by_repeats(target) || target->layers_in > 0)
            exit(75);
    }
    return wrong;
}

/* One event of the target. Ends the round when none comes. */
static bool wrong_layers(struct engine *target)
{
    struct kvrail_event event;

    if (!engine_take(target, "target", &event))
        exit(held_by_repeats(target) ? 75 : 1);
    return layers_are_wrong(target, &event);
}

static int open_both(struct engine *source, struct engine *target, char **argv)
{
    struct engine_shape shape = {.model = "revoked",
                                 .generation = engine_start_time(),
                                 .layers = LAYERS,
                                 .page_tokens = 64,
                                 .pages = PAGES};
    struct kvrail_source_address from = {.size = sizeof(struct kvrail_source_address),
                                         .agent = argv[3],
                                         .engine = {1},
                                         .generation = shape.generation};
    struct kvrail_target_options fetch = {.size = sizeof(struct kvrail_target_options),
                                          .request = "revoked",
                                          .tokens = PAGES * shape.page_tokens,
                                          .sources = &from,
                                          .source_count = 1,
                                          .secret = TEST_SECRET};
    uint32_t pages[PAGES];

    for (uint32_t i = 0; i < PAGES; i++)
        pages[i] = i;
    return engine_attach(source, argv[1], 1, &shape) != 0 ||
           engine_attach(target, argv[2], 2, &shape) != 0 ||
           engine_publish(source, "revoked", pages, PAGES) != 0 ||
           engine_fetch(target, &fetch, pages, PAGES) != 0;
}

/* What makes the source's agent, or its end, give the pages back. */
static bool take_back(struct engine *source, bool kills, pid_t pid)
{
    if (kills) {
        kvrail_ready(source->agent, 0, LAYERS);
        return kill(pid, SIGKILL) == 0;
    }
    kill(pid, SIGSTOP);
    usleep(20000); /* until all its threads have stopped */
    kvrail_ready(source->agent, 0, LAYERS);
    usleep(100000); /* it posts, and the stopped target takes nothing */
    return kvrail_cancel(source->agent, source->handle, KVRAIL_CANCELLED) == KVRAIL_OK;
}

int main(int argc, char **argv)
{
    struct engine source = {0}, target = {0};
    struct kvrail_event event;
    bool kills = argc == 6 && strcmp(argv[4], "kill") == 0, wrong = false;
    pid_t pid = argc == 6 ? (pid_t)atoi(argv[5]) : 0;

    if (pid <= 0) {
        printf("usage: revoked SOURCE-SOCKET TARGET-SOCKET HOST:PORT cancel|kill AGENT-PID\n");
        return 2;
    }
    if (open_both(&source, &target, argv) != 0)
        return 1;
    for (unsigned layer = 0; layer < LAYERS; layer++)
        memset(engine_page(&source, layer, 0), (int)layer + 1, source.region.layer_stride);
    kvrail_ready(source.agent, 0, 1);
    wrong = await_first_layer(&target);
    if (target.layers_in == 0)
        return 75;
    if (!take_back(&source, kills, pid))
        return 1;
    while (!source.ended)
        if (!engine_take(&source, "source", &event))
            return 1;
    memset(source.memory.address, SCRIBBLE, source.region.bytes);
    if (!kills)
        kill(pid, SIGCONT);
    while (!target.ended)
        wrong |= wrong_layers(&target);
    printf("%u of %u layers were in\n", target.layers_in, LAYERS);
    kvrail_close(source.agent);
    kvrail_close(target.agent);
    return target.done || wrong;
}
