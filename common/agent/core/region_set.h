/* An immutable list of regions, shared by everything that was planned with it.
 *
 * A transfer takes a reference when it begins, so that both sides plan every segment with the same
 * layouts even when the engine adds or drops regions meanwhile: that makes a new set. */
#ifndef KVR_AGENT_REGION_SET_H
#define KVR_AGENT_REGION_SET_H

#include "base/buddy.h"
#include "fabric/region.h"
#include "kv/plan.h"
#include "trace/geometry.h"

struct kvr_region_set {
    uint32_t references;
    uint32_t count;
    uint64_t version; /* larger for every later set of the same engine */
    struct kvr_region_layout *layouts;
    struct kvr_region **locals;        /* our engine's: one for each layout; else NULL */
    struct kvr_remote_region *remotes; /* a peer's engine's: one for each layout; else NULL */
};

/* A set of `count` entries with one reference, contents yours to fill; NULL when memory is full. */
struct kvr_region_set *kvr_region_set_new(struct kvr_buddy *memory, uint32_t count, bool local);
static inline struct kvr_region_set *kvr_region_set_acquire(struct kvr_region_set *set)
{
    set->references++;
    return set;
}
/* True when this was the last reference and the set is gone. */
bool kvr_region_set_release(struct kvr_region_set *set, struct kvr_buddy *memory);

/* Tokens of one page of a group (kvr_page_tokens), and how many pages every region of the group has
 * at least. False when no region belongs to the group. */
bool kvr_region_set_group(const struct kvr_region_set *set, uint32_t group,
                          uint32_t *ret_page_tokens, uint32_t *ret_page_limit);
/* Every region is registered on one of these rails (bits). Our own engine's set. */
bool kvr_region_set_lies_on(const struct kvr_region_set *set, uint64_t rails);
/* The layers of all regions: the number of the first, and up to the last. */
void kvr_region_set_layers(const struct kvr_region_set *set, uint32_t *ret_first,
                           uint32_t *ret_count);
/* The one stage that can copy all of its pages; NULL: there is none so far. Our own engine's set,
 * as in the functions below. */
struct kvr_stage *kvr_region_set_stage(const struct kvr_region_set *set);
/* All of it is host memory, so that there can be one. */
bool kvr_region_set_can_stage(const struct kvr_region_set *set);
/* Cards cannot reach some of its pages. */
bool kvr_region_set_is_staged(const struct kvr_region_set *set);
/* The GPU of its pages, where that sees what cards write after a flush alone; NULL where none is
 * needed. All regions of a rank are on one GPU. On the loop: a region that gets a stage changes. */
struct kvr_device *kvr_region_set_flushed(const struct kvr_region_set *set);
/* All of its pages can be moved over one of these rails (bits) by a target itself. */
bool kvr_region_set_direct_copy_on(const struct kvr_region_set *set, uint64_t rails);
/* The least direct path of the regions of these groups (bits). */
kvr_path kvr_region_set_path(const struct kvr_region_set *set, uint32_t groups);
/* Whether the agent can hash their bytes. KVR_UNSUPPORTED, with the remedy, for pages on a GPU that
 * only cards reach. Our own engine's set. */
KVR_MUST_CHECK kvr_status kvr_region_set_hashed(const struct kvr_region_set *set,
                                                kvr_digest_mode digest, struct kvr_error *error);

/* In the words of trace/geometry.h. set NULL: the engine has no region. */
void kvr_region_set_geometry(const struct kvr_region_set *set, const struct kvr_compat *compat,
                             char text[KVR_GEOMETRY_BYTES]);

/* The regions of both ranks, to plan a KV group; the other members are 0. source NULL: its regions
 * are not known. */
static inline struct kvr_plan_input kvr_region_sets_input(const struct kvr_region_set *source,
                                                          const struct kvr_region_set *target,
                                                          uint32_t group)
{
    return (struct kvr_plan_input){
        .source_layouts = source != NULL ? source->layouts : NULL,
        .source_layout_count = source != NULL ? source->count : 0,
        .target_layouts = target->layouts,
        .target_layout_count = target->count,
        .group = group,
    };
}

#endif
