/* Limits and sizes that suit writes with an immediate. They are lower than a provider advertises,
 * and differ from machine to machine. `kvrail bench calibrate` measures them and keeps them in a
 * state folder, a JSON file for each provider; agents use the file that they find there, and
 * `kvrail replay --virtual` its costs. */
#ifndef KVR_FABRIC_CALIBRATION_H
#define KVR_FABRIC_CALIBRATION_H

#include "base/clock.h"
#include "base/status.h"
#include "base/types.h"

#define KVR_CALIBRATION_SIZES_MAX 16

/* What a rail carries and what writes cost beside their bytes. rail_bps 0: none of them is known.
 */
struct kvr_calibration_costs {
    uint64_t rail_bps; /* bits/s of large writes, steadily */
    kvr_ns write_ns;   /* of the posting thread, for one small write in a batch */
    kvr_ns latency_ns; /* of one small write, until the target sees it */
};

struct kvr_calibration {
    char provider[16];
    char libfabric[32];            /* the code's name and version */
    uint32_t imm_iov, imm_rma_iov; /* pieces that one write with an immediate carries */
    uint32_t pieces;               /* how many of them to use */
    uint64_t chunk_bytes_max;      /* the message beyond which nothing is gained */
    uint32_t size_count;
    struct kvr_calibration_size {
        uint64_t bytes;
        double gb_s;
    } sizes[KVR_CALIBRATION_SIZES_MAX]; /* one piece of so many bytes */
    struct kvr_calibration_costs costs;
};

/* KVR_NOT_FOUND: there is no file, and *error says nothing. KVR_MALFORMED: the sentence
 * names the fault. KVR_INVALID: the folder has a file of a provider that was removed. */
KVR_MUST_CHECK kvr_status kvr_calibration_load(const char *state_dir, const char *provider,
                                               struct kvr_calibration *ret_calibration,
                                               struct kvr_error *error);
/* The file at that path, of whichever provider; there must be one. */
KVR_MUST_CHECK kvr_status kvr_calibration_read(const char *path,
                                               struct kvr_calibration *ret_calibration,
                                               struct kvr_error *error);
KVR_MUST_CHECK kvr_status kvr_calibration_save(const char *state_dir,
                                               const struct kvr_calibration *calibration,
                                               struct kvr_error *error);
/* The costs as JSON; NULL where they are not known. */
struct json_t *kvr_calibration_costs_json(const struct kvr_calibration_costs *costs);

#endif
