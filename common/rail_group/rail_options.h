/* Options of rails that both agents and the benchmarks that start agents take: declared once here,
 * and put together by each program (struct kvr_option_part). */
#ifndef KVR_RAIL_GROUP_RAIL_OPTIONS_H
#define KVR_RAIL_GROUP_RAIL_OPTIONS_H

#include "base/options.h"
#include "fabric/ofi/fabric_ofi_library.h"

/* How writes are posted. */
struct kvr_posting_config {
    uint64_t chunk_bytes_max, window_bytes, window_writes, connections;
    uint64_t pieces, batch, inline_bytes;
    kvr_ns spin;
    bool warm_up, acknowledge;
    char tcp_congestion[16];
    char libfabric[KVR_LIBFABRIC_FOLDER_BYTES]; /* "" = the usual one */
};
extern const struct kvr_option_table kvr_posting_options;

/* How pages are copied on their way. */
struct kvr_copying_config {
    uint64_t staging_memory, local_copy_threads;
    char device_copies[8];
};
/* Both agents: --staging-memory, --device-copies. */
extern const struct kvr_option_table kvr_staging_options;
extern const struct kvr_option_table kvr_copying_options; /* decode-agent: --local-copy-threads */

#endif
