#include "tools/virtual/rail_costs.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "fabric/calibration.h"
#include "tools/host_costs.h"

#define WATCH_NS        (7 * KVR_US)   /* fabric-lib's watcher: p50 6.2 µs; then the first write */
#define LATENCY_NS      (10 * KVR_US)  /* of tools/host_costs.c; little depends on it */
#define CONTROL_NS      (100 * KVR_US) /* an assumption: of TCP between hosts and two loops */
#define EFA_WRITE_NS    (476 + 19)     /* host_costs_p5: batched_ns + own_ns */
#define CHUNK_BYTES_MAX (1u << 20)     /* --chunk-bytes-max of an agent */
#define EFA_PERMILLE    910            /* 364 of 400 Gb/s, in pages of 64 KiB */

/* Two numbers of "fabric-lib" are fitted to the six layer transfers of its table 3: 256, 512 and
 * 1,024 pages take 0.661, 0.952 and 1.61 ms, so a page takes 1.236 µs and a layer 0.345 ms more.
 * In those 0.345 ms the model has the latency and the last page too. */
static const struct rail_costs presets[] = {
    {"efa",
     "a thread's 2.1 M writes/s on EFA and what cards carry: fabric-lib's table 2, the libfabric "
     "tutorial for 100 Gb/s, kvrail bench post",
     EFA_WRITE_NS, WATCH_NS, LATENCY_NS, CONTROL_NS, EFA_PERMILLE, 0, 1, 1, CHUNK_BYTES_MAX, false},
    {"connectx",
     "a thread's 11.1 M writes/s and 370 of 400 Gb/s on ConnectX-7: fabric-lib's table 2", 90 + 19,
     WATCH_NS, LATENCY_NS, CONTROL_NS, 925, 0, 1, 1, CHUNK_BYTES_MAX, false},
    {"fabric-lib", "fitted to the layer transfers of fabric-lib's table 3, a write a page", 1236,
     334 * KVR_US, LATENCY_NS, CONTROL_NS, EFA_PERMILLE, 0, 1, 1, CHUNK_BYTES_MAX, true},
};

const struct rail_costs *rail_costs_find(const char *name)
{
    for (size_t i = 0; i < sizeof(presets) / sizeof(presets[0]); i++)
        if (strcmp(presets[i].name, name) == 0)
            return &presets[i];
    return NULL;
}

/* What a calibration does not measure stays as for EFA: neither depends on cards. */
kvr_status rail_costs_read(const char *path, struct rail_costs *ret_costs, struct kvr_error *error)
{
    struct kvr_calibration calibration;

    KVR_TRY(kvr_calibration_read(path, &calibration, error));
    if (calibration.costs.rail_bps == 0)
        return kvr_error_set(error, KVR_INVALID, "costs",
                             "%s has no costs: measure again with kvrail bench calibrate", path);
    *ret_costs = (struct rail_costs){
        .name = "measured",
        .write_ns = calibration.costs.write_ns,
        .layer_ns = WATCH_NS,
        .latency_ns = calibration.costs.latency_ns,
        .control_ns = CONTROL_NS,
        .line_permille = 1000,
        .line_bps = calibration.costs.rail_bps,
        .pieces_local = kvr_min_u32(calibration.imm_iov, calibration.pieces),
        .pieces_remote = kvr_min_u32(calibration.imm_rma_iov, calibration.pieces),
        .chunk_bytes_max = kvr_min_u64(CHUNK_BYTES_MAX, calibration.chunk_bytes_max)};
    snprintf(ret_costs->source, sizeof(ret_costs->source),
             "kvrail bench calibrate, over %s of %s: %.3f Gb/s", calibration.provider,
             calibration.libfabric, (double)calibration.costs.rail_bps / 1e9);
    return KVR_OK;
}

/* EFA's cards of 100 Gb/s carry more of their speed than those of 200. */
uint64_t rail_costs_line_bps(const struct rail_costs *costs, uint64_t card_bps)
{
    if (costs->line_bps > 0)
        return costs->line_bps < card_bps ? costs->line_bps : card_bps;
    if (costs->line_permille == EFA_PERMILLE && card_bps == host_costs_p5.card_bps)
        return host_costs_line_bps(&host_costs_p5);
    return card_bps / 1000 * costs->line_permille;
}
