/* Looks up the region of each (layer, part) of a KV group, for matching and planning. Private to
 * common/kv. Pure. */
#ifndef KVR_KV_LAYOUT_PLANES_H
#define KVR_KV_LAYOUT_PLANES_H

#include "base/status.h"
#include "base/types.h"

struct kvr_layout_planes {
    uint32_t region_count;                           /* regions of the group */
    uint32_t layer_end;                              /* behind the last layer */
    uint32_t page_tokens;                            /* kvr_page_tokens of all; 0: there are none */
    uint16_t regions[KVR_LAYERS_MAX][KVR_PARTS_MAX]; /* [layer][kvr_part]: index + 1, 0 for none */
    uint8_t part_indexes[KVR_LAYERS_MAX][KVR_PARTS_MAX]; /* place of the part in its region */
};

const char *kvr_part_name(uint32_t part); /* "K", "V", "KV", "MLA", "STATE"; "?" */

/* The region of a (layer, part), or NULL. */
const struct kvr_region_layout *kvr_layout_plane(const struct kvr_region_layout *layouts,
                                                 const struct kvr_layout_planes *planes,
                                                 uint32_t layer, uint32_t part);

/* Checks every region of the KV group and indexes it. side ("source" or "target") is for errors.
 * KVR_INVALID: a region that kvr_layout_check refuses, a (layer, part) in two regions, or regions
 * of different page_tokens, which cannot share one page table. */
KVR_MUST_CHECK kvr_status kvr_layout_planes_make(const struct kvr_region_layout *layouts,
                                                 uint32_t layout_count, uint32_t group,
                                                 const char *side, struct kvr_layout_planes *planes,
                                                 struct kvr_error *error);

/* The second half of kvr_layout_match, for two indexed sides. */
KVR_MUST_CHECK kvr_status kvr_layout_planes_match(const struct kvr_region_layout *sources,
                                                  const struct kvr_layout_planes *source_planes,
                                                  const struct kvr_region_layout *targets,
                                                  const struct kvr_layout_planes *target_planes,
                                                  uint32_t group, struct kvr_error *error);

#endif
