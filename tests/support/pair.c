/* A source engine and a target engine in one process, on the public library: one request goes layer
 * by layer, and the test knows at every moment what has landed.
 *
 *   pair SOURCE-SOCKET TARGET-SOCKET HOST:PORT none|target|wait|hold|keep [digest]
 *
 * target: the target engine alters a byte of the first layer after its LAYER_IN.
 * wait: after the first layer nothing more is ready until standard input ends. Fails if the target
 * has heard more than that layer by then.
 * hold: the same, and whatever the target has heard. keep: as wait, until a line comes. After its
 * end the request waits until standard input ends. Fails if a byte of the target's region has
 * changed by then. digest: the fetch asks for the digest of every write. Prints the two terminal
 * events. Exit 0: they came. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/small_engine.h"
#include "tests/support/test_secret.h"

#define LAYERS 3
#define PAGES  4
#define WORD   5 /* counts the fetch's layers, from BASE on */
#define BASE   10

static const uint32_t source_pages[PAGES] = {7, 8, 3, 10}, target_pages[PAGES] = {0, 5, 6, 15};

static int open_both(struct engine *source, struct engine *target, char **argv, bool digest)
{
    struct engine_shape shape = {.model = "pair",
                                 .generation = engine_start_time(),
                                 .layers = LAYERS,
                                 .page_tokens = 16,
                                 .pages = 16};
    struct kvrail_source_address from = {.size = sizeof(struct kvrail_source_address),
                                         .agent = argv[3],
                                         .engine = {1},
                                         .generation = shape.generation};
    struct kvrail_target_options fetch = {.size = sizeof(struct kvrail_target_options),
                                          .request = "pair",
                                          .tokens = PAGES * shape.page_tokens,
                                          .sources = &from,
                                          .source_count = 1,
                                          .digest =
                                              digest ? KVRAIL_DIGEST_FULL : KVRAIL_DIGEST_DEFAULT,
                                          .secret = TEST_SECRET};

    return engine_attach(source, argv[1], 1, &shape) != 0 ||
           engine_attach(target, argv[2], 2, &shape) != 0 ||
           engine_publish(source, "pair", source_pages, PAGES) != 0 ||
           kvrail_source_end(source->agent, source->handle, KVRAIL_OK) != KVRAIL_OK ||
           engine_fetch(target, &fetch, target_pages, PAGES) != 0 ||
           kvrail_target_watch(target->agent, target->handle, WORD, BASE) != KVRAIL_OK;
}

/* What its word says of the fetch is what the events said, at least. */
static bool word_fits(const struct engine *target)
{
    uint64_t landed = kvrail_landed(target->agent, WORD);

    if (target->done)
        return landed == BASE + LAYERS;
    if (target->ended)
        return landed >= BASE + KVRAIL_LANDED_FAILED;
    return landed >= BASE + target->layers_in;
}

/* The source has computed one layer: what the target hears of another one is not true. */
static bool heard_more(struct engine *target)
{
    struct kvrail_event event;

    while (kvrail_poll(target->agent, &event, 1) > 0) {
        if (event.kind != KVRAIL_EVENT_LAYER_IN && !event.terminal)
            continue;
        printf("target %s came although layer 1 is not computed yet\n",
               kvrail_event_name(event.kind));
        return true;
    }
    return !word_fits(target) || kvrail_landed(target->agent, WORD) > BASE + 1;
}

/* Every page of the target is the source's. */
static bool bytes_fit(const struct engine *source, const struct engine *target)
{
    for (unsigned layer = 0; layer < LAYERS; layer++)
        for (unsigned page = 0; page < PAGES; page++)
            if (memcmp(engine_page(source, layer, source_pages[page]),
                       engine_page(target, layer, target_pages[page]),
                       source->region.page_stride) != 0)
                return false;
    return true;
}

/* Until standard input ends, or a line has come. */
static void await_input(bool line)
{
    int c;

    do
        c = getchar();
    while (c != EOF && (!line || c != '\n'));
}

/* No byte of the region changes while the request is over. */
static bool stays(const struct engine *target)
{
    uint64_t bytes = target->region.bytes;
    const char *now = engine_page(target, 0, 0);
    char *before = malloc(bytes);
    bool same;

    if (before == NULL)
        return false;
    memcpy(before, now, bytes);
    printf("ended\n");
    fflush(stdout);
    await_input(false);
    same = memcmp(before, now, bytes) == 0;
    printf(same ? "its bytes stayed\n" : "bytes of the region have changed after the end\n");
    free(before);
    return same;
}

int main(int argc, char **argv)
{
    bool keeps = (argc == 5 || argc == 6) && strcmp(argv[4], "keep") == 0;
    bool holds = (argc == 5 || argc == 6) && strcmp(argv[4], "hold") == 0;
    bool waits = (argc == 5 || argc == 6) && (keeps || holds || strcmp(argv[4], "wait") == 0);
    struct engine source = {0}, target = {0};
    struct kvrail_event event;

    if (argc != 5 && argc != 6) {
        printf("usage: pair SOURCE-SOCKET TARGET-SOCKET HOST:PORT none|target|wait|hold|keep "
               "[digest]\n");
        return 2;
    }
    if (open_both(&source, &target, argv, argc == 6) != 0)
        return 1;
    for (unsigned layer = 0; layer < LAYERS && !target.ended; layer++) {
        memset(engine_page(&source, layer, 0), (int)layer + 1, source.region.layer_stride);
        kvrail_ready(source.agent, 0, layer + 1);
        while (target.layers_in == layer && !target.ended)
            if (!engine_take(&target, "target", &event) ||
                (target.layers_in > layer && !word_fits(&target)))
                return 1;
        if (layer == 0 && strcmp(argv[4], "target") == 0)
            engine_page(&target, 0, target_pages[1])[100] ^= 1;
        if (layer == 0 && waits) {
            printf("held\n");
            fflush(stdout);
            await_input(keeps);
        }
        if (layer == 0 && waits && !holds && heard_more(&target))
            return 1;
    }
    while (!target.ended)
        if (!engine_take(&target, "target", &event))
            return 1;
    if (waits && target.done && !bytes_fit(&source, &target)) {
        printf("done, but its bytes are not the source's\n");
        return 1;
    }
    while (!source.ended)
        if (!engine_take(&source, "source", &event))
            return 1;
    if (keeps && !stays(&target))
        return 1;
    if (!word_fits(&target)) {
        printf("the landed word is %llu\n", (unsigned long long)kvrail_landed(target.agent, WORD));
        return 1;
    }
    kvrail_close(source.agent);
    kvrail_close(target.agent);
    return 0;
}
