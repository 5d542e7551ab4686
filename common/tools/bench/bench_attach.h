/* An engine of a benchmark: memory of its own, lent to an agent as one region. */
#ifndef KVR_TOOLS_BENCH_ATTACH_H
#define KVR_TOOLS_BENCH_ATTACH_H

#include <stdbool.h>

#include "client/kvrail.h"

#define BENCH_ATTACH_TOKENS 16u /* of a page */

struct bench_attach {
    const char *socket, *name;
    uint8_t id; /* first byte of its identity */
    uint64_t generation;
    uint32_t layers, pages; /* pages: of each layer */
    uint64_t page_bytes;
};

/* Fills its memory with `id`, so that no page is new. False: said on stderr; what was opened stays
 * in *connection and *memory. */
bool bench_attach(const struct bench_attach *what, struct kvrail **connection,
                  struct kvrail_memory *memory);

#endif
