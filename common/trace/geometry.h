/* How the pages of an engine's cache are made, in one line of text, as agents report it and traces
 * keep it:
 *
 *     bfloat16 32 0:32:16:65536 1:4:0:2048
 *
 * First the type of its numbers and the layers of the model. Then each KV group: its number, its
 * layers at this rank, and the tokens of a page (0: a state of one page a request). Last come the
 * bytes of one layer of a page. Groups that have no room are left out, and "..." says so.
 *
 * Any thread. */
#ifndef KVR_TRACE_GEOMETRY_H
#define KVR_TRACE_GEOMETRY_H

#include <stddef.h>

#include "base/limits.h"
#include "base/types.h"

#define KVR_GEOMETRY_BYTES 256

struct kvr_geometry_group {
    uint32_t group, layers, page_tokens;
    uint64_t page_bytes;
};

struct kvr_geometry {
    char dtype[16];
    uint32_t layers;
    uint32_t group_count;
    struct kvr_geometry_group groups[KVR_GROUPS_MAX];
};

void kvr_geometry_write(const struct kvr_geometry *geometry, char text[KVR_GEOMETRY_BYTES]);
/* False: it is no such text. */
bool kvr_geometry_read(const char *text, struct kvr_geometry *ret_geometry);

#endif
