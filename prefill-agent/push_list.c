/* Which chunks went over a pair last: RAIL_LOST names them to the target. */
#include "prefill-agent/push_state.h"

/* Adds a chunk to the list. Beyond the capacity the last run grows over chunks that did not go over
 * the pair. The target then checks more chunks, which is slower but as correct. */
static void list_add(struct push_list *list, uint32_t chunk)
{
    struct kvr_chunk_run *last = list->run_count > 0 ? &list->runs[list->run_count - 1] : NULL;

    if (last != NULL &&
        (chunk == last->chunk_first + last->chunk_count || list->run_count == list->run_capacity)) {
        last->chunk_count = chunk - last->chunk_first + 1;
        return;
    }
    list->runs[list->run_count++] = (struct kvr_chunk_run){.chunk_first = chunk, .chunk_count = 1};
}

static void runs_fill(const struct push_job *job, struct push_list *list, uint32_t where)
{
    list->run_count = 0;
    for (const struct push_segment *segment = job->first; segment != NULL; segment = segment->next)
        for (uint32_t chunk = 0; chunk < segment->chunk_next; chunk++)
            if (segment->where[chunk] == where)
                list_add(list, segment->chunk_first + chunk);
}

static bool list_asks(const struct push_list *list, const struct push_pair *pair)
{
    if (list->rail != PUSH_ANY && list->rail != pair->pair.rail)
        return false;
    /* Only our rail is named: it was recycled. What its fresh endpoint has posted is not lost. */
    if (list->target_rail == PUSH_ANY && !pair->retired)
        return false;
    return list->target_rail == PUSH_ANY ||
           (list->target_rail == pair->pair.target_rail && list->epoch == pair->pair.epoch);
}

void push_list_fill(struct push_job *job, struct push_list *list)
{
    list->found = false;
    if (job->state == PUSH_JOB_STOPPED || job->state == PUSH_JOB_CLOSING)
        return;
    for (uint32_t i = list->next; i < job->posts.pair_count && !list->found; i++) {
        struct push_pair *pair = &job->posts.pairs[i];

        list->next = i + 1;
        if (pair->listed || !list_asks(list, pair))
            continue;
        /* Later posts over the same pair get another entry, so that no post is named twice. */
        pair->listed = pair->retired = true;
        list->found = true;
        list->pair = pair->pair;
        runs_fill(job, list, i);
    }
}
