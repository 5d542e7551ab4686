/* What engines ask, in which order and when. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "tools/sim/sim_page.h"
#include "tools/sim/sim_world.h"

#define PAGE_TRIES 40

void sim_ask(struct sim_engine *engine, const struct kvr_request *request)
{
    struct sim_world *world = engine->world;
    const struct kvr_machine *machine = &engine->agent->machine;

    sim_time_asked(world);
    sim_engine_note(engine, "asks", -1, request->handle, 0, kvr_request_name(request->kind));
    machine->request(machine->self, world->now, engine->index, request);
}

static bool gone(const struct sim_user *user)
{
    return user->ended || !user->engine->alive || !user->engine->attached;
}

/* ---- computing ----------------------------------------------------------------------------- */

static void task_run(struct sim_world *world, const struct sim_event *event)
{
    struct sim_engine *engine = event->object;
    struct sim_task *task = engine->tasks_first;
    const struct sim_segment *segment = &task->publish->segments[task->segment];
    const struct sim_user *user = &task->publish->user;

    if (sim_engine_deferred(engine, event))
        return;
    sim_time_asked(world);
    if (engine->alive) {
        if (user->open && !user->ended)
            sim_content_fill(task->publish, task->layer, segment->token_first, segment->token_end);
        atomic_store(&engine->page->words[task->word], task->value);
        if (engine->attached)
            sim_agent_wake(engine->agent);
    }
    engine->tasks_first = task->next;
    free(task);
    if (engine->tasks_first != NULL) {
        sim_at(world, world->now + 1 + sim_some(world, world->compute_ns), task_run, engine, 0, 0);
        return;
    }
    world->busy--;
}

/* Queues the segment's layers behind everything that the engine computes already. */
static void segment_queue(struct sim_publish *publish, uint32_t number)
{
    struct sim_engine *engine = publish->user.engine;
    struct sim_world *world = engine->world;
    struct sim_segment *segment = &publish->segments[number];

    segment->queued = true;
    segment->base = engine->promised[segment->word];
    engine->promised[segment->word] += engine->share.layer_count;
    for (uint32_t i = 0; i < engine->share.layer_count; i++) {
        struct sim_task *task = malloc(sizeof(*task));
        bool first = engine->tasks_first == NULL;

        if (task == NULL)
            abort();
        *task = (struct sim_task){.publish = publish,
                                  .segment = number,
                                  .layer = engine->share.layer_first + i,
                                  .word = segment->word,
                                  .value = segment->base + i + 1};
        KVR_LIST_APPEND(engine->tasks_first, engine->tasks_last, task, next);
        if (!first)
            continue;
        world->busy++;
        sim_at(world, world->now + 1 + sim_some(world, world->compute_ns), task_run, engine, 0, 0);
    }
}

/* ---- a publish ----------------------------------------------------------------------------- */

/* Whatever the engine asks renews the lease. */
static void publish_ask(struct sim_publish *publish, const struct kvr_request *request)
{
    publish->lease_end = publish->request->world->now + publish->lease_ns;
    sim_ask(publish->user.engine, request);
}

static void publish_open_ask(struct sim_publish *publish)
{
    struct sim_world *world = publish->request->world;
    struct kvr_request request = {.kind = KVR_REQ_SOURCE_OPEN, .handle = publish->user.handle};

    memcpy(request.source_open.request, publish->request->name,
           sizeof(request.source_open.request));
    request.source_open.attempt = 1;
    sim_secret(publish->request, &request.source_open.secret);
    snprintf(request.source_open.tenant, KVR_NAME_BYTES, "%s", sim_tenant(publish->request, false));
    request.source_open.tokens = publish->tokens;
    request.source_open.consumers = publish->consumers;
    if (kvr_rng_percent(&world->rng, 30))
        request.source_open.lease_ms = (uint32_t)kvr_rng_between(&world->rng, 8000, 12000);
    publish->lease_ns =
        request.source_open.lease_ms > 0 ? request.source_open.lease_ms * KVR_MS : SIM_LEASE_NS;
    publish->user.open = true;
    sim_silence_watch(publish->user.engine);
    publish_ask(publish, &request);
}

static void watch_ask(struct sim_publish *publish, uint32_t number)
{
    const struct sim_segment *segment = &publish->segments[number];
    struct kvr_request request = {.kind = KVR_REQ_WATCH, .handle = publish->user.handle};

    request.watch = (struct kvr_req_watch){.word = segment->word,
                                           .base = segment->base,
                                           .token_first = segment->token_first,
                                           .token_end = segment->token_end};
    publish_ask(publish, &request);
}

/* Pages of the group that the segment needs. An engine that names a state's page late does so with
 * the last one. */
static uint32_t segment_pages(const struct sim_publish *publish, uint32_t number, uint32_t group)
{
    uint32_t page_tokens = publish->user.engine->page_tokens;

    if (group == 1 && publish->request->world->geometry.states)
        return number + 1 == publish->segment_count || publish->user.handle % 2 == 0;
    return (uint32_t)((publish->segments[number].token_end + page_tokens - 1) / page_tokens);
}

/* Three steps a segment: pages, then computing begins before or after it is announced. */
static void segment_step(struct sim_publish *publish, uint32_t number, uint32_t step)
{
    if (step == 1)
        segment_queue(publish, number);
    else if (step == 2)
        watch_ask(publish, number);
    for (uint32_t group = 0; step == 0 && group < SIM_KV_GROUPS; group++)
        if (!gone(&publish->user) && sim_engine_has_group(publish->user.engine, group, 0) &&
            sim_pages_tell(&publish->user, KVR_REQ_SOURCE_PAGES, group,
                           segment_pages(publish, number, group)))
            publish->lease_end = publish->request->world->now + publish->lease_ns;
}

static void end_ask(struct sim_publish *publish)
{
    struct sim_world *world = publish->request->world;
    struct kvr_request request = {.kind = KVR_REQ_SOURCE_END, .handle = publish->user.handle};

    if (sim_has(world, SIM_ABORT) && kvr_rng_percent(&world->rng, 15)) {
        sim_injected(world, SIM_ABORT);
        publish->disturbed = true;
        request.end.status = KVR_ABORTED;
    }
    publish_ask(publish, &request);
}

static void tail_ask(struct sim_publish *publish)
{
    struct kvr_request request = {.kind = KVR_REQ_SOURCE_TAIL, .handle = publish->user.handle};

    request.tail.bytes = publish->tail;
    request.tail.byte_count = publish->tail_bytes;
    publish_ask(publish, &request);
}

static void script_over(struct sim_world *world)
{
    world->busy--;
}

/* A handle, and pages of its engine. False: there are none just now, and the script's event comes
 * again, or has for too often. */
static bool user_begin(struct sim_world *world, const struct sim_event *event,
                       struct sim_user *user, uint32_t owner, uint64_t tokens)
{
    uint32_t page_tokens = user->engine->page_tokens;

    user->handle = ++world->next_handle;
    if (sim_engine_pages(user->engine, user, owner,
                         (uint32_t)((tokens + page_tokens - 1) / page_tokens)))
        return true;
    if (++user->tries < PAGE_TRIES) {
        user->step = 0;
        sim_at(world, world->now + 20 * KVR_MS, event->run, event->object, 0, 0);
    } else {
        script_over(world);
    }
    return false;
}

static void publish_run(struct sim_world *world, const struct sim_event *event)
{
    struct sim_publish *publish = event->object;
    struct sim_user *user = &publish->user;
    uint32_t step = user->step, segments = 3 * publish->segment_count;

    if (sim_engine_deferred(user->engine, event) ||
        sim_agent_deferred(user->engine->agent, event, world->now))
        return;
    user->step++;
    if (gone(user)) {
        script_over(world);
        return;
    }
    if (step == 0 && user->engine->region_changes) {
        /* Words count from the first layer that the engine has: it publishes with all of them. */
        user->step = 0;
        sim_at(world, world->now + KVR_MS, publish_run, publish, 0, 0);
        return;
    }
    if (step == 0) {
        if (!user_begin(world, event, user, sim_publish_owner(publish), publish->tokens))
            return;
        publish_open_ask(publish);
    } else if (step <= segments) {
        segment_step(publish, (step - 1) / 3, (step - 1) % 3);
    } else if (step == segments + 1 && publish->has_tail) {
        tail_ask(publish);
    } else if (step >= segments + 1) {
        end_ask(publish);
        script_over(world);
        return;
    }
    sim_at(world, world->now + 1 + sim_some(world, world->compute_ns), publish_run, publish, 0, 0);
}

uint64_t sim_publish_end(const struct sim_publish *publish)
{
    return publish->segments[publish->segment_count - 1].token_end;
}

/* Tokens [0, token_end) of at most `tokens`; every rank in segments of its own. */
static void publish_make(struct sim_request *request, struct sim_engine *engine, uint64_t tokens,
                         uint64_t token_end, uint32_t consumers, bool has_tail)
{
    struct sim_world *world = request->world;
    struct kvr_rng *rng = &world->rng;
    struct sim_publish *publish = &request->publishes[request->publish_count++];
    uint32_t word = (uint32_t)kvr_rng_below(rng, SIM_STREAMS);

    *publish = (struct sim_publish){.request = request, .tokens = tokens, .consumers = consumers};
    publish->user.engine = engine;
    publish->user.key = sim_key(request, engine->rank.generation);
    for (uint64_t first = 0; first < token_end;) {
        struct sim_segment *segment = &publish->segments[publish->segment_count++];
        bool last = publish->segment_count == SIM_SEGMENTS || kvr_rng_percent(rng, 50);

        if (kvr_rng_percent(rng, 20))
            word = (uint32_t)kvr_rng_below(rng, SIM_STREAMS);
        segment->word = word;
        segment->token_first = first;
        segment->token_end = last ? token_end : kvr_rng_between(rng, first + 1, token_end);
        first = segment->token_end;
    }
    publish->has_tail = has_tail;
    publish->tail_bytes = publish->has_tail ? (uint32_t)kvr_rng_below(rng, SIM_TAIL_BYTES) : 0;
    for (uint32_t i = 0; i < publish->tail_bytes; i++)
        publish->tail[i] = (uint8_t)kvr_rng_next(rng);
    world->busy++;
}

void sim_publish_again(struct sim_request *request, struct sim_engine *engine)
{
    struct sim_world *world = request->world;
    const struct sim_publish *first = &request->publishes[0];

    if (request->publish_count >= 2 * request->source_count)
        return;
    publish_make(request, engine, first->tokens, sim_publish_end(first), 1, first->has_tail);
    request->publishes[request->publish_count - 1].disturbed = true;
    sim_at(world, world->now + 1 + sim_soon(world), publish_run,
           &request->publishes[request->publish_count - 1], 0, 0);
}

/* ---- a fetch ------------------------------------------------------------------------------- */

static void fetch_watch_ask(struct sim_fetch *fetch)
{
    struct kvr_request request = {.kind = KVR_REQ_WATCH, .handle = fetch->user.handle};

    fetch->word = (uint32_t)(fetch->user.handle % KVR_WORDS_MAX);
    fetch->landed_base = atomic_load(&fetch->user.engine->page->landed[fetch->word]);
    fetch->watched = true;
    request.watch = (struct kvr_req_watch){.word = fetch->word, .base = fetch->landed_base};
    sim_ask(fetch->user.engine, &request);
}

static void fetch_open_ask(struct sim_fetch *fetch)
{
    struct sim_world *world = fetch->request->world;
    struct kvr_request request = {.kind = KVR_REQ_TARGET_OPEN, .handle = fetch->user.handle};
    struct kvr_source_address sources[SIM_RANKS];

    for (uint32_t i = 0; i < fetch->source_count; i++) {
        const struct sim_engine *engine = fetch->publishes[i]->user.engine;

        sources[i] = (struct kvr_source_address){.engine = engine->rank.engine,
                                                 .generation = engine->rank.generation,
                                                 .tp = engine->rank.tp,
                                                 .pp = engine->rank.pp};
        memcpy(sources[i].agent, engine->agent->address, sizeof(engine->agent->address));
    }
    memcpy(request.target_open.request, fetch->request->name, sizeof(request.target_open.request));
    request.target_open.attempt = 1;
    sim_secret(fetch->request, &request.target_open.secret);
    fetch->foreign = sim_has(world, SIM_TENANT) && world->unproven_count < SIM_UNPROVEN / 2 &&
                     kvr_rng_percent(&world->rng, 20);
    snprintf(request.target_open.tenant, KVR_NAME_BYTES, "%s",
             sim_tenant(fetch->request, fetch->foreign));
    request.target_open.tokens = fetch->tokens;
    request.target_open.skip_tokens = fetch->skip;
    request.target_open.sources = sources;
    request.target_open.source_count = fetch->source_count;
    if (kvr_rng_percent(&world->rng, 30))
        request.target_open.deadline_ms =
            (uint32_t)kvr_rng_between(&world->rng, SIM_HURRY_NS / KVR_MS, 18000);
    request.target_open.deadline_ms =
        sim_deadline_ms(request.target_open.deadline_ms, fetch->hold_ns);
    fetch->deadline =
        world->now + (request.target_open.deadline_ms > 0 ? request.target_open.deadline_ms * KVR_MS
                                                          : SIM_DEADLINE_NS);
    fetch->user.open = true;
    sim_silence_watch(fetch->user.engine);
    fetch->layers_missing = fetch->user.engine->layers_missing;
    sim_ask(fetch->user.engine, &request);
    if (!gone(&fetch->user))
        fetch_watch_ask(fetch);
    if (fetch->held && !gone(&fetch->user))
        sim_ask(fetch->user.engine,
                &(struct kvr_request){.kind = KVR_REQ_TARGET_HOLD, .handle = fetch->user.handle});
}

/* KV groups that the engine has after this one. */
static uint32_t fetch_groups_behind(const struct sim_fetch *fetch, uint32_t group)
{
    uint32_t count = 0;

    while (++group < SIM_KV_GROUPS)
        count += sim_engine_has_group(fetch->user.engine, group, fetch->layers_missing);
    return count;
}

/* It turns out that the engine has more than it said. */
static void fetch_skip_ask(struct sim_fetch *fetch)
{
    struct sim_user *user = &fetch->user;
    struct kvr_request request = {.kind = KVR_REQ_TARGET_SKIP, .handle = user->handle};

    for (uint32_t group = 0; group < SIM_KV_GROUPS; group++) {
        bool state = group == 1 && fetch->request->world->geometry.states;

        request.skip.group = group;
        request.skip.skip_tokens = state && fetch->skip_late < fetch->tokens ? 0 : fetch->skip_late;
        if (gone(user) || fetch->failing_seen || fetch->failing_held ||
            !sim_engine_has_group(user->engine, group, fetch->layers_missing))
            continue;
        if (fetch_groups_behind(fetch, group) == 0)
            fetch->skip = fetch->skip_late;
        sim_ask(user->engine, &request);
    }
}

/* Names some more pages of every KV group, or the rest. True: all are named. */
static bool fetch_pages_ask(struct sim_fetch *fetch, bool rest)
{
    struct sim_user *user = &fetch->user;
    struct kvr_rng *rng = &fetch->request->world->rng;
    bool all = true;

    for (uint32_t group = 0; group < SIM_KV_GROUPS && !gone(user); group++) {
        bool state = group == 1 && fetch->request->world->geometry.states;
        uint32_t left = (state ? 1 : user->page_count) - user->pages_told[group], more = left;

        if (!sim_engine_has_group(user->engine, group, fetch->layers_missing) || left == 0)
            continue;
        if (!rest && kvr_rng_percent(rng, 40))
            more = (uint32_t)kvr_rng_between(rng, 1, left);
        (void)sim_pages_tell(user, KVR_REQ_TARGET_PAGES, group, user->pages_told[group] + more);
        all = all && more == left;
    }
    return all;
}

static void fetch_run(struct sim_world *world, const struct sim_event *event)
{
    struct sim_fetch *fetch = event->object;
    struct sim_user *user = &fetch->user;
    uint32_t step = user->step;

    if (sim_engine_deferred(user->engine, event) ||
        sim_agent_deferred(user->engine->agent, event, world->now))
        return;
    user->step++;
    if (gone(user)) {
        script_over(world);
        return;
    }
    if (step == 0) {
        if (!user_begin(world, event, user, sim_fetch_owner(fetch), fetch->tokens))
            return;
        fetch_open_ask(fetch);
        if (fetch->held) {
            sim_at(world, world->now + 1 + fetch->hold_ns, fetch_run, fetch, 0, 0);
            return;
        }
    } else if (fetch->held && step == 1) {
        fetch_skip_ask(fetch);
    } else if (fetch_pages_ask(fetch, step >= 3)) {
        script_over(world);
        return;
    }
    sim_at(world, world->now + 1 + sim_some(world, world->compute_ns), fetch_run, fetch, 0, 0);
}

/* Some are opened before their engine knows what it has, and some of these wait for longer than a
 * lease is. */
static void fetch_hold_choose(struct sim_fetch *fetch)
{
    struct sim_world *world = fetch->request->world;
    uint64_t page_tokens = fetch->user.engine->page_tokens;

    fetch->held = kvr_rng_percent(&world->rng, 25);
    if (!fetch->held)
        return;
    fetch->skip_late = fetch->skip;
    fetch->skip = kvr_rng_below(&world->rng, fetch->skip / page_tokens + 1) * page_tokens;
    if (world->geometry.states && sim_engine_has_group(fetch->user.engine, 1, 0) &&
        fetch->skip_late < fetch->tokens)
        fetch->skip_late = fetch->skip; /* a state is skipped as a whole, and so holds it back */
    fetch->hold_ns = kvr_rng_percent(&world->rng, 10) ? SIM_LEASE_NS + KVR_S
                                                      : sim_some(world, world->compute_ns);
}

/* From every source rank that has something of what the target rank holds. */
static void fetch_make(struct sim_request *request, struct sim_engine *engine, uint64_t tokens)
{
    struct kvr_rng *rng = &request->world->rng;
    uint32_t page_tokens = engine->page_tokens;
    struct sim_fetch *fetch = &request->fetches[request->fetch_count++];

    *fetch = (struct sim_fetch){.request = request, .tokens = tokens};
    fetch->user.engine = engine;
    for (uint32_t i = 0; i < request->source_count; i++) {
        struct sim_publish *publish = &request->publishes[i];

        if (!sim_ranks_meet(publish->user.engine, engine))
            continue;
        fetch->publishes[fetch->source_count++] = publish;
        publish->consumers++;
        fetch->user.key = publish->user.key;
    }
    if (kvr_rng_percent(rng, 10)) /* the two sides need not agree on the bound */
        fetch->tokens = kvr_rng_between(rng, tokens, tokens + 2 * page_tokens);
    if (kvr_rng_percent(rng, 35))
        fetch->skip = kvr_rng_below(rng, tokens / page_tokens + 1) * page_tokens;
    if (kvr_rng_percent(rng, 7))
        fetch->skip = fetch->tokens;
    fetch_hold_choose(fetch);
    request->world->busy++;
}

/* ---- all of them --------------------------------------------------------------------------- */

/* The first rank of an engine. */
static struct sim_engine *engine_choose(struct sim_world *world, bool source)
{
    struct sim_engine *engine;

    do
        engine = &world->engines[kvr_rng_below(&world->rng, world->engine_count)];
    while (engine->agent->source != source || !sim_rank_first(engine));
    return engine;
}

static void publishes_make(struct sim_request *request, uint64_t tokens)
{
    struct kvr_rng *rng = &request->world->rng;
    struct sim_engine *ranks[SIM_RANKS];
    uint64_t token_end = kvr_rng_percent(rng, 85) ? tokens : kvr_rng_between(rng, 1, tokens);
    uint32_t tail;

    request->source_count = sim_ranks_of(engine_choose(request->world, true), ranks);
    tail =
        kvr_rng_percent(rng, 60) ? (uint32_t)kvr_rng_below(rng, request->source_count) : SIM_RANKS;
    for (uint32_t i = 0; i < request->source_count; i++)
        publish_make(request, ranks[i], tokens, token_end, 0, i == tail);
}

static void fetches_make(struct sim_request *request, struct sim_engine *first, uint64_t tokens)
{
    struct sim_engine *ranks[SIM_RANKS];
    uint32_t count = sim_ranks_of(first, ranks);

    for (uint32_t i = 0; i < count; i++)
        fetch_make(request, ranks[i], tokens);
}

/* A rank fetches the same request once more; the count of consumers does not include that. */
static void fetch_twice(struct sim_request *request)
{
    struct kvr_rng *rng = &request->world->rng;
    struct sim_fetch *first = &request->fetches[kvr_rng_below(rng, request->fetch_count)];
    uint32_t consumers[SIM_PUBLISHES] = {0};

    if (request->fetch_count == SIM_CONSUMERS)
        return;
    for (uint32_t i = 0; i < request->source_count; i++)
        consumers[i] = request->publishes[i].consumers;
    fetch_make(request, first->user.engine, first->tokens);
    for (uint32_t i = 0; i < request->source_count; i++)
        request->publishes[i].consumers = consumers[i];
    first->twice = request->fetches[request->fetch_count - 1].twice = true;
    request->fetches[request->fetch_count - 1].after = kvr_rng_percent(rng, 75);
    if (request->fetches[request->fetch_count - 1].after)
        request->world->busy--; /* it may never begin */
}

void sim_fetch_after(struct sim_fetch *fetch)
{
    struct sim_request *request = fetch->request;
    struct sim_fetch *last = &request->fetches[request->fetch_count - 1];
    struct sim_world *world = request->world;

    if (!last->after || last == fetch || last->user.engine != fetch->user.engine)
        return;
    world->busy++;
    sim_at(world, world->now + 1, fetch_run, last, 0, 0);
}

static void request_make(struct sim_world *world)
{
    struct kvr_rng *rng = &world->rng;
    struct sim_request *request = &world->requests[world->request_count];
    struct sim_engine *target = engine_choose(world, false), *other = engine_choose(world, false);
    uint64_t tokens = kvr_rng_between(rng, 1, (uint64_t)10 * world->geometry.page_tokens);
    bool both = other != target && kvr_rng_percent(rng, 40);
    kvr_ns start = kvr_rng_below(rng, 20 * KVR_MS);
    bool late = kvr_rng_percent(rng, 20); /* its targets wait for it */

    start = world->now + (world->narrow ? 0 : start);
    request->world = world;
    request->number = world->request_count++;
    snprintf(request->name, sizeof(request->name), "request-%u", request->number);
    publishes_make(request, tokens);
    fetches_make(request, target, tokens);
    if (both)
        fetches_make(request, other, tokens);
    if (kvr_rng_percent(rng, 8))
        fetch_twice(request);
    for (uint32_t i = 0; i < request->publish_count; i++)
        sim_at(world, start + (late ? kvr_rng_below(rng, 80 * KVR_MS) : sim_soon(world)),
               publish_run, &request->publishes[i], 0, 0);
    for (uint32_t i = 0; i < request->fetch_count; i++)
        if (!request->fetches[i].after)
            sim_at(world, start + sim_soon(world), fetch_run, &request->fetches[i], 0, 0);
}

void sim_script_begin(struct sim_world *world)
{
    uint32_t count = (uint32_t)kvr_rng_between(&world->rng, 3, 9);

    for (uint32_t i = 0; i < count; i++)
        request_make(world);
    sim_fault_schedule(world);
    sim_ways_schedule(world);
}
