#include "tools/sim/sim_reporter.h"

#include <stdlib.h>

#include "tools/sim/sim_scheduler.h"
#include "tools/sim/sim_world.h"

#define INTERVAL_NS (250 * KVR_MS) /* mean time between reports */

static void report_run(struct sim_world *world, const struct sim_event *event);

static void arm(struct sim_reporter *reporter)
{
    struct sim_world *world = reporter->agent->world;

    if (reporter->armed || reporter->acknowledged >= reporter->count)
        return;
    reporter->armed = true;
    sim_at(world, world->now + 1 + sim_some(world, INTERVAL_NS), report_run, reporter, 0, 0);
}

struct sim_reporter *sim_reporter_open(struct sim_agent *agent)
{
    struct sim_world *world = agent->world;
    struct sim_reporter *reporter = calloc(1, sizeof(*reporter));

    if (reporter == NULL)
        abort();
    reporter->agent = agent;
    reporter->boot = agent->boot;
    for (struct sim_reporter *at = world->reporters; at != NULL; at = at->next)
        if (at->agent == agent)
            arm(at); /* the spool of an earlier boot */
    reporter->next = world->reporters;
    world->reporters = reporter;
    return reporter;
}

void sim_reporter_event(struct sim_reporter *reporter, const struct kvr_event *event)
{
    if (reporter->count == reporter->capacity) {
        reporter->capacity = reporter->capacity > 0 ? 2 * reporter->capacity : 32;
        reporter->events =
            realloc(reporter->events, reporter->capacity * sizeof(*reporter->events));
        if (reporter->events == NULL)
            abort();
    }
    reporter->events[reporter->count++] = *event;
    arm(reporter);
}

static void report(struct sim_world *world, struct sim_reporter *reporter)
{
    uint64_t held;

    if (reporter->acknowledged >= reporter->count)
        return;
    held =
        sim_scheduler_report(world->memory->scheduler, reporter->agent->address, reporter->boot,
                             reporter->acknowledged + 1, reporter->events + reporter->acknowledged,
                             reporter->count - (uint32_t)reporter->acknowledged);
    if (!kvr_rng_percent(&world->rng, 10)) /* else the answer is lost, and all is sent again */
        reporter->acknowledged = held;
}

static void report_run(struct sim_world *world, const struct sim_event *event)
{
    struct sim_reporter *reporter = event->object;

    reporter->armed = false;
    if (!reporter->agent->alive)
        return; /* its next boot begins where this one was */
    if (world->now >= world->scheduler_back_at && world->now >= reporter->agent->stopped_until)
        report(world, reporter);
    arm(reporter);
}

void sim_reporter_die(struct sim_reporter *reporter)
{
    struct sim_world *world = reporter->agent->world;

    reporter->dead = true;
    if (kvr_rng_percent(&world->rng, 40)) /* not written to the spool */
        reporter->count =
            (uint32_t)kvr_rng_between(&world->rng, reporter->acknowledged, reporter->count);
}

void sim_reporters_settle(struct sim_world *world)
{
    for (struct sim_reporter *at = world->reporters; at != NULL; at = at->next) {
        while (at->agent->alive && at->acknowledged < at->count)
            report(world, at);
        if (at->dead)
            sim_scheduler_lose(world->memory->scheduler, at->boot);
    }
}

void sim_reporters_free(struct sim_world *world)
{
    while (world->reporters != NULL) {
        struct sim_reporter *reporter = world->reporters;

        world->reporters = reporter->next;
        free(reporter->events);
        free(reporter);
    }
}
