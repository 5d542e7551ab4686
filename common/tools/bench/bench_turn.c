#include "tools/bench/bench_turn.h"

#include "base/clock.h"

#define WINDOW      8u
#define COMPLETIONS 16u

/* A failure without a context is not matched: it may be any write of the endpoint. */
static bool is_ours(const struct bench_turns *turns, const struct kvr_completion *completion)
{
    if (completion->kind == KVR_COMPLETION_FAILED && !completion->has_context)
        return true;
    if (completion->kind == KVR_COMPLETION_ARRIVED)
        return completion->immediate == turns->number;
    return completion->context >> 32 == turns->number;
}

static void look(struct bench_turns *turns)
{
    struct kvr_completion completions[COMPLETIONS];

    for (int side = 0; side < 2; side++) {
        unsigned count =
            turns->ops->poll(side == 0 ? turns->source : turns->target, completions, COMPLETIONS);

        for (unsigned i = 0; i < count; i++) {
            if (!is_ours(turns, &completions[i]))
                continue;
            turns->failed = turns->failed || completions[i].kind == KVR_COMPLETION_FAILED;
            turns->finished += side == 0;
            turns->arrived += completions[i].kind == KVR_COMPLETION_ARRIVED;
        }
    }
}

/* False: it is refused. */
static bool fill(struct bench_turns *turns, uint64_t writes, bench_turn_post post, void *self)
{
    while (turns->posted < writes && turns->posted - turns->finished < WINDOW) {
        kvr_status status =
            post(self, turns->number, (uint64_t)turns->number << 32 | turns->posted);

        if (status == KVR_AGAIN)
            return true;
        if (status != KVR_OK)
            return false;
        turns->posted++;
    }
    return true;
}

static bool under_way(const struct bench_turns *turns)
{
    return turns->finished < turns->posted || turns->arrived < turns->posted;
}

static void drain(struct bench_turns *turns)
{
    kvr_ns until = kvr_clock_now() + turns->late_ns;

    while (under_way(turns) && !turns->failed && kvr_clock_now() < until)
        look(turns);
}

kvr_ns bench_turn(struct bench_turns *turns, uint64_t writes, bench_turn_post post, void *self)
{
    kvr_ns began = kvr_clock_now(), now = began;
    bool accepted = true;

    turns->number++;
    turns->posted = turns->finished = turns->arrived = 0;
    turns->failed = false;
    while (accepted && !turns->failed && (turns->posted < writes || under_way(turns)) &&
           now - began < turns->late_ns) {
        accepted = fill(turns, writes, post, self);
        look(turns);
        now = kvr_clock_now();
    }
    if (accepted && !turns->failed && turns->posted == writes && !under_way(turns))
        return now > began ? now - began : 1;
    drain(turns);
    return 0;
}
