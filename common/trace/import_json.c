#include "trace/import_json.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <xxhash.h>

#define TIME_MAX_S 10000000000.0 /* beyond it a file has another unit */

static const char where[] = "trace";

const struct kvr_import_members kvr_import_mooncake = {KVR_MS, KVR_TRACE_BLOCK_TOKENS};
const struct kvr_import_members kvr_import_bailian = {KVR_S, 16};

/* *ret_value is left alone when the member is missing and may be. */
static kvr_status whole_number(const json_t *object, const char *member, bool required,
                               struct kvr_error *error, uint64_t *ret_value)
{
    const json_t *value = json_object_get(object, member);

    if (value == NULL && !required)
        return KVR_OK;
    if (value == NULL)
        return kvr_error_set(error, KVR_MALFORMED, where, "%s is missing", member);
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return kvr_error_set(error, KVR_MALFORMED, where, "%s is not a whole number of 0 or more",
                             member);
    *ret_value = (uint64_t)json_integer_value(value);
    return KVR_OK;
}

static kvr_status read_time(const json_t *object, kvr_ns unit, struct kvr_error *error,
                            kvr_ns *ret_at)
{
    const json_t *value = json_object_get(object, "timestamp");
    double at = json_number_value(value); /* 0 when it is no number */

    if (!json_is_number(value))
        return kvr_error_set(error, KVR_MALFORMED, where, "timestamp is missing or no number");
    if (!(at >= 0 && at * (double)unit < TIME_MAX_S * (double)KVR_S))
        return kvr_error_set(error, KVR_MALFORMED, where, "timestamp %g is outside 0 to 10^%d %s",
                             at, unit == KVR_S ? 10 : 13,
                             unit == KVR_S ? "seconds" : "milliseconds");
    *ret_at = json_is_integer(value) ? (kvr_ns)json_integer_value(value) * unit
                                     : (kvr_ns)(at * (double)unit);
    return KVR_OK;
}

/* A malloc'ed array in *ret_blocks, NULL when hash_ids is missing. */
static kvr_status read_blocks(const json_t *object, struct kvr_error *error, uint64_t **ret_blocks,
                              size_t *ret_count)
{
    const json_t *array = json_object_get(object, "hash_ids");
    size_t count = json_array_size(array);
    uint64_t *blocks;

    if (array == NULL)
        return KVR_OK;
    if (!json_is_array(array))
        return kvr_error_set(error, KVR_MALFORMED, where, "hash_ids is not an array");
    blocks = malloc((count > 0 ? count : 1) * sizeof(blocks[0]));
    if (blocks == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, where, "no memory for %zu hash_ids", count);
    for (size_t i = 0; i < count; i++) {
        const json_t *id = json_array_get(array, i);

        if (!json_is_integer(id) || json_integer_value(id) < 0) {
            free(blocks);
            return kvr_error_set(error, KVR_MALFORMED, where,
                                 "hash_ids[%zu] is not a whole number of 0 or more", i);
        }
        blocks[i] = (uint64_t)json_integer_value(id);
    }
    *ret_blocks = blocks;
    *ret_count = count;
    return KVR_OK;
}

/* Ids of larger blocks, in place of the smaller ones. A partial last block stays one. */
static kvr_status join_blocks(const struct kvr_import_members *members, uint64_t input_tokens,
                              uint64_t *blocks, size_t *count, struct kvr_error *error)
{
    size_t joined = KVR_TRACE_BLOCK_TOKENS / members->block_tokens;
    size_t wanted = (input_tokens + members->block_tokens - 1) / members->block_tokens, larger = 0;
    uint64_t before = 0;

    if (joined == 1 || blocks == NULL)
        return KVR_OK;
    if (*count != wanted)
        return kvr_error_set(error, KVR_MALFORMED, where,
                             "%zu hash_ids for %" PRIu64 " tokens, which are %zu blocks of %u",
                             *count, input_tokens, wanted, members->block_tokens);
    for (size_t first = 0; first < *count; first += joined) {
        size_t part = *count - first < joined ? *count - first : joined;

        before = XXH3_64bits_withSeed(blocks + first, part * sizeof(blocks[0]), before) &
                 ~KVR_TRACE_BLOCK_OWN;
        blocks[larger++] = before;
    }
    *count = larger;
    return KVR_OK;
}

static kvr_status add_object(const struct kvr_import_members *members, const json_t *object,
                             struct kvr_trace *trace, struct kvr_error *error)
{
    uint64_t input_tokens = 0, output_tokens = 0, *blocks = NULL;
    size_t block_count = 0;
    kvr_ns at = 0;
    kvr_status status;

    if (!json_is_object(object))
        return kvr_error_set(error, KVR_MALFORMED, where, "the line is not a JSON object");
    status = read_time(object, members->time_unit, error, &at);
    if (status == KVR_OK)
        status = whole_number(object, "input_length", true, error, &input_tokens);
    if (status == KVR_OK)
        status = whole_number(object, "output_length", false, error, &output_tokens);
    if (status == KVR_OK)
        status = read_blocks(object, error, &blocks, &block_count);
    if (status == KVR_OK)
        status = join_blocks(members, input_tokens, blocks, &block_count, error);
    if (status == KVR_OK)
        status = kvr_trace_add(trace, at, input_tokens, output_tokens, blocks, block_count, error);
    free(blocks);
    return status;
}

kvr_status kvr_import_json_line(const struct kvr_import_members *members, const char *line,
                                size_t bytes, struct kvr_trace *trace, struct kvr_error *error)
{
    json_error_t json_error;
    json_t *object = json_loadb(line, bytes, JSON_REJECT_DUPLICATES, &json_error);
    kvr_status status;

    if (object == NULL)
        return kvr_error_set(error, KVR_MALFORMED, where, "no JSON at column %d: %s",
                             json_error.column, json_error.text);
    status = add_object(members, object, trace, error);
    json_decref(object);
    return status;
}
