/* Ranks, compats and layouts in protobuf, the same on the engine's socket and on the control
 * channel. A put_ fills a protobuf struct, which borrows the value's text and bytes; its get_ twin
 * checks one and turns it back: it returns NULL, or what is wrong with it. */
#ifndef KVR_WIRE_GEOMETRY_H
#define KVR_WIRE_GEOMETRY_H

#include "base/types.h"
#include "wire/geometry.pb-c.h"

typedef Kvrail__Geometry__Rank kvr_pb_rank;
typedef Kvrail__Geometry__Compat kvr_pb_compat;
typedef Kvrail__Geometry__RegionLayout kvr_pb_layout;

void kvr_geometry_put_rank(const struct kvr_rank *in, kvr_pb_rank *out);
const char *kvr_geometry_get_rank(const kvr_pb_rank *in, struct kvr_rank *out);

void kvr_geometry_put_compat(const struct kvr_compat *in, kvr_pb_compat *out);
const char *kvr_geometry_get_compat(const kvr_pb_compat *in, struct kvr_compat *out);

/* Only what must hold to take it in: whether such a layout can be is kvr_layout_check's to say. */
void kvr_geometry_put_layout(const struct kvr_region_layout *in, kvr_pb_layout *out);
const char *kvr_geometry_get_layout(const kvr_pb_layout *in, struct kvr_region_layout *out);

#endif
