/* Fuzz bytes as numbers and as region layouts. Some layouts are any numbers at all; most
 * are nearly right, because a fuzzer does not guess that a stride is a product. */
#ifndef KVR_TESTS_LAYOUT_INPUT_H
#define KVR_TESTS_LAYOUT_INPUT_H

#include <stddef.h>

#include "base/types.h"

struct layout_input {
    const uint8_t *data;
    size_t size, used;
};

/* Little-endian; zeros once the input has ended. */
uint64_t layout_input_number(struct layout_input *input, uint32_t byte_count);
void layout_input_layout(struct layout_input *input, struct kvr_region_layout *ret_layout);

#endif
