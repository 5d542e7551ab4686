#include "fabric/calibration.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/removed.h"

#define PATH_BYTES 640

static void path_of(const char *state_dir, const char *provider, char path[PATH_BYTES])
{
    snprintf(path, PATH_BYTES, "%s/calibration-%s.json", state_dir, provider);
}

static bool in_range(const struct kvr_calibration *calibration, json_int_t chunk_bytes_max)
{
    return calibration->imm_iov >= 1 && calibration->imm_rma_iov >= 1 && calibration->pieces >= 1 &&
           calibration->imm_iov <= KVR_IOV_MAX && calibration->imm_rma_iov <= KVR_IOV_MAX &&
           calibration->pieces <= KVR_IOV_MAX && chunk_bytes_max >= KVR_CHUNK_BYTES_MIN;
}

static void read_sizes(const json_t *file, struct kvr_calibration *calibration)
{
    size_t index;
    json_t *entry;

    json_array_foreach(json_object_get(file, "sizes"), index, entry)
    {
        json_int_t bytes = 0;
        double gb_s = 0;

        if (calibration->size_count == KVR_CALIBRATION_SIZES_MAX ||
            json_unpack(entry, "{s:I, s:F}", "bytes", &bytes, "gb_s", &gb_s) != 0 || bytes <= 0)
            return;
        calibration->sizes[calibration->size_count++] =
            (struct kvr_calibration_size){.bytes = (uint64_t)bytes, .gb_s = gb_s};
    }
}

static kvr_status removed_refuse(const char *path, const char *provider, struct kvr_error *error)
{
    return kvr_error_set(error, KVR_INVALID, "calibration",
                         "%s was measured with provider %s, but %s, and delete that file", path,
                         provider, kvr_removed_provider(provider));
}

kvr_status kvr_calibration_load(const char *state_dir, const char *provider,
                                struct kvr_calibration *ret_calibration, struct kvr_error *error)
{
    struct kvr_calibration calibration = {0};
    char path[PATH_BYTES];
    const char *named = "", *libfabric = "";
    int imm_iov = 0, imm_rma_iov = 0, pieces = 0;
    json_int_t chunk_bytes_max = 0;
    json_error_t wrong = {0};
    json_t *file;

    for (size_t i = 0; kvr_removed_providers[i] != NULL; i++) {
        path_of(state_dir, kvr_removed_providers[i], path);
        if (access(path, F_OK) == 0)
            return removed_refuse(path, kvr_removed_providers[i], error);
    }
    path_of(state_dir, provider, path);
    if (access(path, F_OK) != 0)
        return KVR_NOT_FOUND;
    file = json_load_file(path, 0, &wrong);
    if (file == NULL ||
        json_unpack_ex(file, &wrong, 0, "{s:s, s:s, s:i, s:i, s:i, s:I}", "provider", &named,
                       "libfabric", &libfabric, "imm_iov", &imm_iov, "imm_rma_iov", &imm_rma_iov,
                       "pieces", &pieces, "chunk_bytes_max", &chunk_bytes_max) != 0) {
        json_decref(file);
        return kvr_error_set(error, KVR_MALFORMED, "calibration",
                             "%s, line %d: %s; measure again with kvrail bench calibrate", path,
                             wrong.line, wrong.text);
    }
    if (kvr_removed_provider(named) != NULL) {
        (void)removed_refuse(path, named, error);
        json_decref(file);
        return KVR_INVALID;
    }
    snprintf(calibration.provider, sizeof(calibration.provider), "%s", named);
    snprintf(calibration.libfabric, sizeof(calibration.libfabric), "%s", libfabric);
    calibration.imm_iov = (uint32_t)imm_iov;
    calibration.imm_rma_iov = (uint32_t)imm_rma_iov;
    calibration.pieces = (uint32_t)pieces;
    calibration.chunk_bytes_max = (uint64_t)chunk_bytes_max;
    read_sizes(file, &calibration);
    json_decref(file);
    if (!in_range(&calibration, chunk_bytes_max) || strcmp(calibration.provider, provider) != 0)
        return kvr_error_set(error, KVR_MALFORMED, "calibration",
                             "%s holds values that no provider has; measure again with kvrail "
                             "bench calibrate",
                             path);
    *ret_calibration = calibration;
    return KVR_OK;
}

kvr_status kvr_calibration_save(const char *state_dir, const struct kvr_calibration *calibration,
                                struct kvr_error *error)
{
    json_t *sizes = json_array(), *file;
    char path[PATH_BYTES], fresh[PATH_BYTES + 8];
    bool written;

    for (uint32_t i = 0; i < calibration->size_count; i++)
        json_array_append_new(sizes, json_pack("{s:I, s:f}", "bytes",
                                               (json_int_t)calibration->sizes[i].bytes, "gb_s",
                                               calibration->sizes[i].gb_s));
    file =
        json_pack("{s:s, s:s, s:i, s:i, s:i, s:I, s:o}", "provider", calibration->provider,
                  "libfabric", calibration->libfabric, "imm_iov", (int)calibration->imm_iov,
                  "imm_rma_iov", (int)calibration->imm_rma_iov, "pieces", (int)calibration->pieces,
                  "chunk_bytes_max", (json_int_t)calibration->chunk_bytes_max, "sizes", sizes);
    path_of(state_dir, calibration->provider, path);
    snprintf(fresh, sizeof(fresh), "%s.new", path);
    written = json_dump_file(file, fresh, JSON_INDENT(2) | JSON_REAL_PRECISION(4)) == 0 &&
              rename(fresh, path) == 0;
    json_decref(file);
    return written ? KVR_OK
                   : kvr_error_system(error, "calibration", errno, "%s cannot be written", path);
}
