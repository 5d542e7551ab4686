/* Limits and sizes that suit writes with an immediate. They are lower than a provider advertises,
 * and differ from machine to machine. `kvrail bench calibrate` measures them and keeps them in a
 * state folder, a JSON file for each provider; agents use the file that they find there. */
#ifndef KVR_FABRIC_CALIBRATION_H
#define KVR_FABRIC_CALIBRATION_H

#include "base/status.h"
#include "base/types.h"

#define KVR_CALIBRATION_SIZES_MAX 16

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
};

/* KVR_NOT_FOUND: there is no file, and *error says nothing. KVR_MALFORMED: the sentence
 * names the fault. KVR_INVALID: the folder has a file of a provider that was removed. */
KVR_MUST_CHECK kvr_status kvr_calibration_load(const char *state_dir, const char *provider,
                                               struct kvr_calibration *ret_calibration,
                                               struct kvr_error *error);
KVR_MUST_CHECK kvr_status kvr_calibration_save(const char *state_dir,
                                               const struct kvr_calibration *calibration,
                                               struct kvr_error *error);

#endif
