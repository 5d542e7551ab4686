/* The conformance table: which layouts, ranks and KV groups are moved between, and what must be
 * where in them. */
#ifndef KVR_TESTS_MAPPING_H
#define KVR_TESTS_MAPPING_H

#include <stdbool.h>

#include "client/kvrail.h"
#include "kv/layout_named.h"

#define MAPPING_LAYERS       6
#define MAPPING_HEAD_DIM     32
#define MAPPING_TOKENS       203
#define MAPPING_TOKENS_BEGUN 90 /* the first segment ends in the middle of a page */
#define MAPPING_GROUPS       3
#define MAPPING_WINDOW_GROUP 1
#define MAPPING_STATE_GROUP  2
#define MAPPING_WINDOW       60  /* tokens that a windowed layer needs */
#define MAPPING_STATE_TOKENS 256 /* that a state's page stands for: all, where it has tokens */
#define MAPPING_RANKS        8
#define MAPPING_REGIONS      12
#define MAPPING_PAGES        256

#define MAPPING_ONE_PAGE 2u /* hybrid, and a state has one page a request */

/* Heads are divided among tp ranks, layers among pp. Up to two regions, as SGLang has them. */
struct mapping_side {
    kvr_layout_name names[2]; /* KVR_LAYOUT_NAMES: none */
    uint32_t page_tokens, tp, pp;
};

struct mapping_row {
    const char *text;
    uint32_t heads;  /* of the model; fewer than ranks: several have the same one */
    unsigned hybrid; /* not 0: every third layer has a window, every third a state */
    struct mapping_side source, target;
    uint64_t skip;
};
extern const struct mapping_row mapping_rows[];
extern const uint32_t mapping_row_count;

struct mapping_engine {
    struct kvrail *agent;
    kvrail_handle handle;
    bool on_device; /* its pages are registered as an (emulated) device's */
    uint32_t region_count;
    struct kvr_region_layout layouts[MAPPING_REGIONS];
    struct kvrail_memory memories[MAPPING_REGIONS];
    uint32_t pages[MAPPING_GROUPS][MAPPING_PAGES];
    uint32_t page_counts[MAPPING_GROUPS], page_tokens[MAPPING_GROUPS]; /* 0: no such group */
    uint64_t skips[MAPPING_GROUPS];
    uint64_t
        layers_in[MAPPING_LAYERS]; /* tokens that were announced; all, of a layer that it lacks */
};

/* Where a rank's pages lie, and which it takes. */
void mapping_layouts(const struct mapping_row *row, const struct mapping_side *side, uint32_t tp,
                     uint32_t pp, struct mapping_engine *engine);
/* Makes the memory of one region, where nothing is written yet. */
void mapping_region(struct mapping_engine *engine, uint32_t index,
                    struct kvrail_region *ret_region);
void mapping_fill(const struct mapping_engine *source);
/* Every byte that is fetched is the source's, and no other was touched. */
void mapping_check(const struct mapping_engine *target);
/* What must move to this rank, each byte once: up to the end of the page that ends first. */
uint64_t mapping_bytes(const struct mapping_row *row, const struct mapping_engine *target);

_Noreturn void mapping_fail(const char *what, const char *detail);

#endif
