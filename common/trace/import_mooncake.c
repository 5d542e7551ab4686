#include "trace/import_mooncake.h"

#include <jansson.h>
#include <stdlib.h>

static const char where[] = "trace";

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

static kvr_status read_time(const json_t *object, struct kvr_error *error, kvr_ns *ret_at)
{
    const json_t *value = json_object_get(object, "timestamp");
    double at_ms = json_number_value(value); /* 0 when it is no number */

    if (!json_is_number(value))
        return kvr_error_set(error, KVR_MALFORMED, where, "timestamp is missing or no number");
    if (!(at_ms >= 0 && at_ms < 1e13))
        return kvr_error_set(error, KVR_MALFORMED, where,
                             "timestamp %g is outside 0 to 10^13 milliseconds", at_ms);
    *ret_at = json_is_integer(value) ? (kvr_ns)json_integer_value(value) * KVR_MS
                                     : (kvr_ns)(at_ms * (double)KVR_MS);
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

static kvr_status add_object(const json_t *object, struct kvr_trace *trace, struct kvr_error *error)
{
    uint64_t input_tokens = 0, output_tokens = 0, *blocks = NULL;
    size_t block_count = 0;
    kvr_ns at = 0;
    kvr_status status;

    if (!json_is_object(object))
        return kvr_error_set(error, KVR_MALFORMED, where, "the line is not a JSON object");
    status = read_time(object, error, &at);
    if (status == KVR_OK)
        status = whole_number(object, "input_length", true, error, &input_tokens);
    if (status == KVR_OK)
        status = whole_number(object, "output_length", false, error, &output_tokens);
    if (status == KVR_OK)
        status = read_blocks(object, error, &blocks, &block_count);
    if (status == KVR_OK)
        status = kvr_trace_add(trace, at, input_tokens, output_tokens, blocks, block_count, error);
    free(blocks);
    return status;
}

kvr_status kvr_import_mooncake_line(const char *line, size_t bytes, struct kvr_trace *trace,
                                    struct kvr_error *error)
{
    json_error_t json_error;
    json_t *object = json_loadb(line, bytes, JSON_REJECT_DUPLICATES, &json_error);
    kvr_status status;

    if (object == NULL)
        return kvr_error_set(error, KVR_MALFORMED, where, "no JSON at column %d: %s",
                             json_error.column, json_error.text);
    status = add_object(object, trace, error);
    json_decref(object);
    return status;
}
