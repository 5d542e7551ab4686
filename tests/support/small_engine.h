/* One rank of an engine on the public library, with K and V of a few layers in one region, for
 * programs that go through a single request. What fails is printed. */
#ifndef KVR_TESTS_SMALL_ENGINE_H
#define KVR_TESTS_SMALL_ENGINE_H

#include <stdbool.h>

#include <kvrail.h>

struct engine;

struct engine_shape {
    const char *model;
    uint64_t generation;
    uint32_t layers, page_tokens, pages;
    /* Where the pages lie instead of in `memory`: changes the region. 0, or 1 when it failed. NULL:
     * nowhere else. */
    int (*place)(struct engine *engine);
};

struct engine {
    struct kvrail *agent;
    struct kvrail_memory memory;
    struct kvrail_region region;
    kvrail_handle handle;
    unsigned layers_in;
    uint64_t base;      /* of word 0 at the next publish */
    bool ended, done;   /* done: it ended in DONE */
    uint64_t waited_ms; /* for an event, since the last one */
};

/* A generation: larger than that of an engine that started before. */
uint64_t engine_start_time(void);
/* Engine number `number` with its region. These return 0, or 1 when it failed. */
int engine_attach(struct engine *engine, const char *socket, uint8_t number,
                  const struct engine_shape *shape);
/* Publishes the tokens of those pages, layer by layer as word 0 rises. */
int engine_publish(struct engine *engine, const char *request, const uint32_t *pages,
                   uint32_t page_count);
int engine_fetch(struct engine *engine, const struct kvrail_target_options *options,
                 const uint32_t *pages, uint32_t page_count);
/* Takes one event, or waits for one to come and takes none (kind 0); a terminal one is printed.
 * False: the agent is gone, or it took too long: then what it waits for is printed. */
bool engine_take(struct engine *engine, const char *who, struct kvrail_event *event);
/* The agent's answer about the transfer; events before the answer are taken and counted. False:
 * there is none. */
bool engine_why(struct engine *engine, char *ret_text, size_t bytes);
char *engine_page(const struct engine *engine, unsigned layer, uint32_t page);

#endif
