#include "trace/trace_lines.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES (256u << 10)

struct kvr_trace_lines {
    struct kvtrace_source *source;
    size_t bytes_max;
    char *bytes;               /* behind the last one that came is room for a NUL */
    size_t room, first, count; /* bytes[first, first + count) are not given out yet */
    bool over;                 /* no more bytes come */
    char damage[KVR_DETAIL_BYTES];
};

static kvr_status no_memory(struct kvr_error *error)
{
    return kvr_error_set(error, KVR_NO_MEMORY, "trace", "no memory for a line of a trace");
}

static kvr_status too_long(const struct kvr_trace_lines *lines, struct kvr_error *error)
{
    return kvr_error_set(error, KVR_TOO_LARGE, "trace", "longer than %zu bytes", lines->bytes_max);
}

/* Room for one more chunk, and a NUL. */
static kvr_status make_room(struct kvr_trace_lines *lines, struct kvr_error *error)
{
    size_t room = 2 * lines->room + CHUNK_BYTES + 1;
    char *larger;

    if (lines->first > 0) {
        memmove(lines->bytes, lines->bytes + lines->first, lines->count);
        lines->first = 0;
    }
    if (lines->room - lines->count > CHUNK_BYTES)
        return KVR_OK;
    if (lines->count > lines->bytes_max)
        return too_long(lines, error);
    larger = realloc(lines->bytes, room);
    if (larger == NULL)
        return no_memory(error);
    lines->bytes = larger;
    lines->room = room;
    return KVR_OK;
}

/* Damage within the compression ends the lines there. */
static kvr_status read_chunk(struct kvr_trace_lines *lines, struct kvr_error *error)
{
    struct kvr_error damage = {0};
    size_t got;
    kvr_status status;

    KVR_TRY(make_room(lines, error));
    status =
        kvtrace_source_read(lines->source, lines->bytes + lines->count, CHUNK_BYTES, &got, &damage);
    if (status == KVR_MALFORMED) {
        memcpy(lines->damage, damage.detail, sizeof(lines->damage));
        got = 0;
    } else if (status != KVR_OK) {
        if (error != NULL)
            *error = damage;
        return status;
    }
    lines->count += got;
    lines->over = got == 0;
    return KVR_OK;
}

kvr_status kvr_trace_lines_open(struct kvtrace_source *source, size_t bytes_max,
                                struct kvr_trace_lines **ret_lines, struct kvr_error *error)
{
    struct kvr_trace_lines *lines = calloc(1, sizeof(*lines));

    if (lines == NULL) {
        kvtrace_source_close(source);
        return no_memory(error);
    }
    lines->source = source;
    lines->bytes_max = bytes_max;
    *ret_lines = lines;
    return KVR_OK;
}

struct kvr_trace_lines *kvr_trace_lines_close(struct kvr_trace_lines *lines)
{
    if (lines == NULL)
        return NULL;
    kvtrace_source_close(lines->source);
    free(lines->bytes);
    free(lines);
    return NULL;
}

kvr_status kvr_trace_lines_next(struct kvr_trace_lines *lines, char **ret_line, size_t *ret_bytes,
                                struct kvr_error *error)
{
    size_t looked_at = 0;
    char *newline = NULL;

    while (newline == NULL) {
        if (lines->count > looked_at)
            newline =
                memchr(lines->bytes + lines->first + looked_at, '\n', lines->count - looked_at);
        looked_at = lines->count;
        if (newline == NULL && lines->over) {
            *ret_line = NULL;
            return lines->count > lines->bytes_max ? too_long(lines, error) : KVR_OK;
        }
        if (newline == NULL)
            KVR_TRY(read_chunk(lines, error));
    }
    *ret_line = lines->bytes + lines->first;
    *ret_bytes = (size_t)(newline - *ret_line);
    if (*ret_bytes > lines->bytes_max)
        return too_long(lines, error);
    *newline = '\0';
    lines->first += *ret_bytes + 1;
    lines->count -= *ret_bytes + 1;
    return KVR_OK;
}

size_t kvr_trace_lines_rest(struct kvr_trace_lines *lines, char **ret_rest)
{
    if (lines->count == 0)
        return 0;
    *ret_rest = lines->bytes + lines->first;
    (*ret_rest)[lines->count] = '\0';
    return lines->count;
}

const char *kvr_trace_lines_damage(const struct kvr_trace_lines *lines)
{
    return lines->damage[0] != '\0' ? lines->damage : NULL;
}
