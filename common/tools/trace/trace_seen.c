#include "tools/trace/trace_seen.h"

#include <stdlib.h>
#include <uthash.h>
#include <xxhash.h>

struct trace_seen_id {
    UT_hash_handle hh;
    uint64_t hash;    /* of the id */
    uint32_t input;   /* that had it last */
    uint32_t had;     /* so many times in that input */
    uint32_t written; /* so many times */
};

void trace_seen_done(struct trace_seen *seen)
{
    struct trace_seen_id *one, *next;

    HASH_ITER(hh, seen->ids, one, next)
    {
        HASH_DEL(seen->ids, one);
        free(one);
    }
}

static struct trace_seen_id *find(struct trace_seen *seen, const char *id)
{
    uint64_t hash = XXH3_64bits(id, strlen(id));
    struct trace_seen_id *one;

    HASH_FIND(hh, seen->ids, &hash, sizeof(hash), one);
    if (one != NULL)
        return one;
    one = calloc(1, sizeof(*one));
    if (one == NULL)
        return NULL;
    one->hash = hash;
    HASH_ADD(hh, seen->ids, hash, sizeof(one->hash), one);
    return one;
}

kvr_status trace_seen_take(struct trace_seen *seen, const struct kvtrace_request *request,
                           uint32_t input, bool *ret_seen, struct kvr_error *error)
{
    struct trace_seen_id *one;

    if (request->at_us != seen->at_us)
        trace_seen_done(seen);
    seen->at_us = request->at_us;
    *ret_seen = false;
    if (request->id[0] == '\0')
        return KVR_OK;
    one = find(seen, request->id);
    if (one == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "trace", "no memory to merge traces");
    one->had = one->input == input ? one->had + 1 : 1;
    one->input = input;
    *ret_seen = one->had <= one->written;
    one->written += !*ret_seen;
    return KVR_OK;
}
