/* An engine of a benchmark: memory of its own, lent to an agent as one region. */
#ifndef KVR_TOOLS_BENCH_ATTACH_H
#define KVR_TOOLS_BENCH_ATTACH_H

#include <stdbool.h>

#include "client/kvrail.h"

#define BENCH_PAGE_TOKENS 16u

struct bench_attach {
    const char *socket, *name;
    uint8_t engine[16]; /* its identity */
    uint64_t generation;
    uint32_t layers, pages; /* pages: of each layer */
    uint64_t page_bytes;
};

/* A connection without memory. */
kvrail_status bench_connect(const struct bench_attach *what, struct kvrail **ret_connection,
                            struct kvrail_error *error);
/* Host memory with all of its pages; fd is the caller's to set. */
struct kvrail_region bench_region(const struct bench_attach *what);
/* Both, with memory of its own; fills that with the identity's first byte, so that no page is new.
 * False: said on stderr; what was opened stays in *connection and *memory. */
bool bench_attach(const struct bench_attach *what, struct kvrail **connection,
                  struct kvrail_memory *memory);

#endif
