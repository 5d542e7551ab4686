#include "fabric/calibration.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/removed.h"

#define PATH_BYTES 640
#define AGAIN      "measure again with kvrail bench calibrate"

static const struct cost {
    const char *key;
    size_t offset;
    json_int_t min, max;
} costs[] = {
    {"rail_bps", offsetof(struct kvr_calibration_costs, rail_bps), 1000000, 100000000000000},
    {"write_ns", offsetof(struct kvr_calibration_costs, write_ns), 1, 10 * (json_int_t)KVR_MS},
    {"latency_ns", offsetof(struct kvr_calibration_costs, latency_ns), 1, (json_int_t)KVR_S},
};
#define COSTS (sizeof(costs) / sizeof(costs[0]))

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

static bool cost_is_known(const char *key)
{
    for (size_t i = 0; i < COSTS; i++)
        if (strcmp(costs[i].key, key) == 0)
            return true;
    return false;
}

/* The file may lack the whole object, and no part of it. */
static kvr_status read_costs(const json_t *file, const char *path,
                             struct kvr_calibration_costs *ret_costs, struct kvr_error *error)
{
    json_t *object = json_object_get(file, "costs"), *value;
    const char *key;

    if (object == NULL)
        return KVR_OK;
    if (!json_is_object(object))
        return kvr_error_set(error, KVR_MALFORMED, "calibration", "%s: costs is no object; " AGAIN,
                             path);
    json_object_foreach(object, key, value)
    {
        if (!cost_is_known(key))
            return kvr_error_set(error, KVR_MALFORMED, "calibration",
                                 "%s: costs.%.32s is not known; " AGAIN, path, key);
    }
    for (size_t i = 0; i < COSTS; i++) {
        const struct cost *cost = &costs[i];
        json_int_t number;

        value = json_object_get(object, cost->key);
        number = json_integer_value(value);
        if (!json_is_integer(value) || number < cost->min || number > cost->max)
            return kvr_error_set(error, KVR_MALFORMED, "calibration",
                                 "%s: costs.%s must be a whole number from %lld to %lld; " AGAIN,
                                 path, cost->key, (long long)cost->min, (long long)cost->max);
        *(uint64_t *)((char *)ret_costs + cost->offset) = (uint64_t)number;
    }
    return KVR_OK;
}

static kvr_status removed_refuse(const char *path, const char *provider, struct kvr_error *error)
{
    return kvr_error_set(error, KVR_INVALID, "calibration",
                         "%s was measured with provider %s, but %s, and delete that file", path,
                         provider, kvr_removed_provider(provider));
}

static kvr_status read_file(const json_t *file, const char *path,
                            struct kvr_calibration *ret_calibration, struct kvr_error *error)
{
    struct kvr_calibration calibration = {0};
    const char *named = "", *libfabric = "";
    int imm_iov = 0, imm_rma_iov = 0, pieces = 0;
    json_int_t chunk_bytes_max = 0;
    json_error_t wrong = {0};

    if (json_unpack_ex((json_t *)file, &wrong, 0, "{s:s, s:s, s:i, s:i, s:i, s:I}", "provider",
                       &named, "libfabric", &libfabric, "imm_iov", &imm_iov, "imm_rma_iov",
                       &imm_rma_iov, "pieces", &pieces, "chunk_bytes_max", &chunk_bytes_max) != 0)
        return kvr_error_set(error, KVR_MALFORMED, "calibration", "%s: %s; " AGAIN, path,
                             wrong.text);
    if (kvr_removed_provider(named) != NULL)
        return removed_refuse(path, named, error);
    snprintf(calibration.provider, sizeof(calibration.provider), "%s", named);
    snprintf(calibration.libfabric, sizeof(calibration.libfabric), "%s", libfabric);
    calibration.imm_iov = (uint32_t)imm_iov;
    calibration.imm_rma_iov = (uint32_t)imm_rma_iov;
    calibration.pieces = (uint32_t)pieces;
    calibration.chunk_bytes_max = (uint64_t)chunk_bytes_max;
    read_sizes(file, &calibration);
    if (!in_range(&calibration, chunk_bytes_max))
        return kvr_error_set(error, KVR_MALFORMED, "calibration",
                             "%s holds values that no provider has; " AGAIN, path);
    KVR_TRY(read_costs(file, path, &calibration.costs, error));
    *ret_calibration = calibration;
    return KVR_OK;
}

kvr_status kvr_calibration_read(const char *path, struct kvr_calibration *ret_calibration,
                                struct kvr_error *error)
{
    json_error_t wrong = {0};
    json_t *file = json_load_file(path, 0, &wrong);
    kvr_status status;

    if (file == NULL)
        return kvr_error_set(error, KVR_MALFORMED, "calibration", "%s, line %d: %s; " AGAIN, path,
                             wrong.line, wrong.text);
    status = read_file(file, path, ret_calibration, error);
    json_decref(file);
    return status;
}

kvr_status kvr_calibration_load(const char *state_dir, const char *provider,
                                struct kvr_calibration *ret_calibration, struct kvr_error *error)
{
    struct kvr_calibration calibration;
    char path[PATH_BYTES];

    for (size_t i = 0; kvr_removed_providers[i] != NULL; i++) {
        path_of(state_dir, kvr_removed_providers[i], path);
        if (access(path, F_OK) == 0)
            return removed_refuse(path, kvr_removed_providers[i], error);
    }
    path_of(state_dir, provider, path);
    if (access(path, F_OK) != 0)
        return KVR_NOT_FOUND;
    KVR_TRY(kvr_calibration_read(path, &calibration, error));
    if (strcmp(calibration.provider, provider) != 0)
        return kvr_error_set(error, KVR_MALFORMED, "calibration",
                             "%s was measured with provider %s; " AGAIN, path,
                             calibration.provider);
    *ret_calibration = calibration;
    return KVR_OK;
}

json_t *kvr_calibration_costs_json(const struct kvr_calibration_costs *measured)
{
    json_t *object;

    if (measured->rail_bps == 0)
        return NULL;
    object = json_object();
    for (size_t i = 0; i < COSTS; i++)
        json_object_set_new(object, costs[i].key,
                            json_integer((json_int_t) * (const uint64_t *)((const char *)measured +
                                                                           costs[i].offset)));
    return object;
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
        json_pack("{s:s, s:s, s:i, s:i, s:i, s:I, s:o, s:o*}", "provider", calibration->provider,
                  "libfabric", calibration->libfabric, "imm_iov", (int)calibration->imm_iov,
                  "imm_rma_iov", (int)calibration->imm_rma_iov, "pieces", (int)calibration->pieces,
                  "chunk_bytes_max", (json_int_t)calibration->chunk_bytes_max, "sizes", sizes,
                  "costs", kvr_calibration_costs_json(&calibration->costs));
    path_of(state_dir, calibration->provider, path);
    snprintf(fresh, sizeof(fresh), "%s.new", path);
    written = json_dump_file(file, fresh, JSON_INDENT(2) | JSON_REAL_PRECISION(4)) == 0 &&
              rename(fresh, path) == 0;
    json_decref(file);
    return written ? KVR_OK
                   : kvr_error_system(error, "calibration", errno, "%s cannot be written", path);
}
