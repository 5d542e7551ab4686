/* Known layouts of engines, by name. Pure. */
#ifndef KVR_KV_LAYOUT_NAMED_H
#define KVR_KV_LAYOUT_NAMED_H

#include "base/status.h"
#include "base/types.h"

/* A layout of one region: the dimensions of its tensor from the outermost to the innermost. */
typedef enum kvr_layout_name {
    KVR_LAYOUT_VLLM_NHD,       /* layer, K V, page, token, head: a tensor a layer */
    KVR_LAYOUT_VLLM_HND,       /* layer, K V, page, head, token */
    KVR_LAYOUT_VLLM_PAGES_NHD, /* layer, page, K V, token, head (FlashInfer) */
    KVR_LAYOUT_VLLM_PAGES_HND, /* layer, page, K V, head, token */
    KVR_LAYOUT_VLLM_CROSS_NHD, /* page, layer, K V, token, head: blocks across layers */
    KVR_LAYOUT_VLLM_CROSS_HND, /* page, head, layer, K V, token: heads can be sliced too */
    KVR_LAYOUT_SGLANG_K,       /* layer, page, token, head; V is another region */
    KVR_LAYOUT_SGLANG_V,
    KVR_LAYOUT_MLA,       /* layer, page, token: one latent of head_dim */
    KVR_LAYOUT_FUSED_NHD, /* layer, page, token, head: K and V side by side, 2 × head_dim */
    KVR_LAYOUT_FUSED_HND, /* layer, page, head, token */
    KVR_LAYOUT_STATE,     /* layer, page: head_dim opaque elements a page */
    KVR_LAYOUT_NAMES,
} kvr_layout_name;

/* The values that the names leave open. A hybrid model has at least one region for each KV group.
 */
struct kvr_layout_shape {
    uint32_t region, group;
    uint32_t layer_first, layer_count;
    uint32_t head_first, head_count; /* 0 and 1 for MLA and STATE */
    uint32_t page_tokens,
        page_count; /* page_tokens 0: a state that has one page for each request */
    uint32_t head_dim, element_bytes;
    uint64_t base;  /* offset of the tensor in the region */
    uint64_t bytes; /* of the region; 0: the region ends with the tensor */
};

const char *kvr_layout_name_text(kvr_layout_name name); /* "vllm-nhd" */
/* False: no layout has this name. */
bool kvr_layout_name_find(const char *text, kvr_layout_name *ret_name);

/* KVR_INVALID, with a sentence that names the field and its value: any error of kvr_layout_check,
 * sizes that overflow, or a base that is no multiple of the element. */
KVR_MUST_CHECK kvr_status kvr_layout_make(kvr_layout_name name,
                                          const struct kvr_layout_shape *shape,
                                          struct kvr_region_layout *ret_layout,
                                          struct kvr_error *error);

#endif
