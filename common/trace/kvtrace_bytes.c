#include "trace/kvtrace_bytes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#define BUFFER_BYTES    (256u << 10)
#define PATH_BYTES      4096
#define WINDOW_LOG_MAX  27 /* 128 MiB: what an attacker's file may make us allocate */
#define LEVEL           3
#define ZSTD_FIRST_BYTE 0x28 /* no trace begins with '(' */

struct kvtrace_source {
    int descriptor;     /* -1: memory, or none */
    const char *memory; /* what is not read yet of it */
    size_t memory_count;
    char name[PATH_BYTES];
    ZSTD_DStream *zstd; /* NULL: plain */
    bool begun, in_frame, ended;
    size_t first, count; /* in bytes[]: what is not given out yet */
    char bytes[BUFFER_BYTES];
};

struct kvtrace_sink {
    int descriptor;
    char name[PATH_BYTES];
    char part[PATH_BYTES +
              8];       /* that is written, and gets the name at the end; "": the name itself */
    ZSTD_CStream *zstd; /* NULL: plain */
    size_t count;       /* in bytes[]: what is not written yet */
    char bytes[BUFFER_BYTES];
};

static kvr_status no_memory(struct kvr_error *error)
{
    return kvr_error_set(error, KVR_NO_MEMORY, "trace", "no memory for a trace file");
}

/* ---- source ---------------------------------------------------------------------------------- */

kvr_status kvtrace_source_open(const char *path, struct kvtrace_source **ret_source,
                               struct kvr_error *error)
{
    struct kvtrace_source *source = calloc(1, sizeof(*source));
    bool standard = strcmp(path, "-") == 0;

    if (source == NULL)
        return no_memory(error);
    snprintf(source->name, sizeof(source->name), "%s", standard ? "standard input" : path);
    source->descriptor = standard ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
    if (source->descriptor < 0) {
        kvr_status status =
            kvr_error_system(error, "trace", errno, "%s cannot be opened", source->name);

        kvtrace_source_close(source);
        return status;
    }
    *ret_source = source;
    return KVR_OK;
}

kvr_status kvtrace_source_memory(const void *bytes, size_t count,
                                 struct kvtrace_source **ret_source, struct kvr_error *error)
{
    struct kvtrace_source *source = calloc(1, sizeof(*source));

    if (source == NULL)
        return no_memory(error);
    snprintf(source->name, sizeof(source->name), "memory");
    source->descriptor = -1;
    source->memory = bytes;
    source->memory_count = count;
    *ret_source = source;
    return KVR_OK;
}

static ssize_t read_some(struct kvtrace_source *source)
{
    size_t part = source->memory_count;
    ssize_t got;

    if (source->descriptor < 0) {
        if (part > sizeof(source->bytes))
            part = sizeof(source->bytes);
        if (part > 0)
            memcpy(source->bytes, source->memory, part);
        source->memory += part;
        source->memory_count -= part;
        return (ssize_t)part;
    }
    do
        got = read(source->descriptor, source->bytes, sizeof(source->bytes));
    while (got < 0 && errno == EINTR);
    return got;
}

static kvr_status fill(struct kvtrace_source *source, struct kvr_error *error)
{
    ssize_t got = read_some(source);

    if (got < 0)
        return kvr_error_system(error, "trace", errno, "%s cannot be read", source->name);
    source->first = 0;
    source->count = (size_t)got;
    source->ended = got == 0;
    if (!source->begun && got > 0 && source->bytes[0] == ZSTD_FIRST_BYTE) {
        source->zstd = ZSTD_createDStream();
        if (source->zstd == NULL)
            return no_memory(error);
        (void)ZSTD_DCtx_setParameter(source->zstd, ZSTD_d_windowLogMax, WINDOW_LOG_MAX);
    }
    source->begun = true;
    return KVR_OK;
}

static kvr_status inflate_some(struct kvtrace_source *source, char *bytes, size_t room,
                               size_t *ret_count, struct kvr_error *error)
{
    ZSTD_inBuffer in = {source->bytes + source->first, source->count, 0};
    ZSTD_outBuffer out = {bytes, room, 0};
    size_t left = ZSTD_decompressStream(source->zstd, &out, &in);

    if (ZSTD_isError(left))
        return kvr_error_set(error, KVR_MALFORMED, "trace",
                             "%s is damaged: its compression cannot be read (%s)", source->name,
                             ZSTD_getErrorName(left));
    source->in_frame = left != 0;
    source->first += in.pos;
    source->count -= in.pos;
    *ret_count = out.pos;
    return KVR_OK;
}

kvr_status kvtrace_source_read(struct kvtrace_source *source, char *bytes, size_t room,
                               size_t *ret_count, struct kvr_error *error)
{
    *ret_count = 0;
    while (*ret_count == 0) {
        if (source->count == 0 && !source->ended)
            KVR_TRY(fill(source, error));
        if (source->zstd == NULL) {
            *ret_count = source->count < room ? source->count : room;
            memcpy(bytes, source->bytes + source->first, *ret_count);
            source->first += *ret_count;
            source->count -= *ret_count;
            return KVR_OK;
        }
        if (source->ended && !source->in_frame)
            return KVR_OK;
        KVR_TRY(inflate_some(source, bytes, room, ret_count, error));
        if (source->ended && *ret_count == 0 && source->in_frame)
            return kvr_error_set(error, KVR_MALFORMED, "trace",
                                 "%s ends within its compression: it was cut", source->name);
    }
    return KVR_OK;
}

struct kvtrace_source *kvtrace_source_close(struct kvtrace_source *source)
{
    if (source == NULL)
        return NULL;
    if (source->descriptor >= 0)
        (void)close(source->descriptor);
    ZSTD_freeDStream(source->zstd);
    free(source);
    return NULL;
}

/* ---- sink ------------------------------------------------------------------------------------ */

static bool is_compressed(const char *path)
{
    size_t bytes = strlen(path);

    return bytes > 4 && strcmp(path + bytes - 4, ".zst") == 0;
}

/* A new file takes its name when it is whole, so that one of that name stays until then. A pipe or
 * a device is written as it is. */
static int open_output(struct kvtrace_sink *sink, const char *path)
{
    struct stat known;

    if (stat(path, &known) != 0 || S_ISREG(known.st_mode))
        snprintf(sink->part, sizeof(sink->part), "%s.part", sink->name);
    return open(sink->part[0] != '\0' ? sink->part : path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
                0666);
}

kvr_status kvtrace_sink_open(const char *path, struct kvtrace_sink **ret_sink,
                             struct kvr_error *error)
{
    struct kvtrace_sink *sink = calloc(1, sizeof(*sink));
    bool standard = strcmp(path, "-") == 0;
    kvr_status status = KVR_OK;

    if (sink == NULL)
        return no_memory(error);
    snprintf(sink->name, sizeof(sink->name), "%s", standard ? "standard output" : path);
    sink->descriptor = standard ? dup(STDOUT_FILENO) : open_output(sink, path);
    if (sink->descriptor < 0)
        status = kvr_error_system(error, "trace", errno, "%s cannot be written", sink->name);
    if (status == KVR_OK && is_compressed(path)) {
        sink->zstd = ZSTD_createCStream();
        if (sink->zstd == NULL)
            status = no_memory(error);
        else
            (void)ZSTD_CCtx_setParameter(sink->zstd, ZSTD_c_compressionLevel, LEVEL);
    }
    if (status != KVR_OK) {
        if (sink->descriptor >= 0)
            (void)close(sink->descriptor);
        free(sink);
        return status;
    }
    *ret_sink = sink;
    return KVR_OK;
}

static kvr_status write_out(struct kvtrace_sink *sink, struct kvr_error *error)
{
    size_t done = 0;

    while (done < sink->count) {
        ssize_t put = write(sink->descriptor, sink->bytes + done, sink->count - done);

        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return kvr_error_system(error, "trace", errno, "%s cannot be written", sink->name);
        done += (size_t)put;
    }
    sink->count = 0;
    return KVR_OK;
}

static kvr_status deflate(struct kvtrace_sink *sink, const char *bytes, size_t count,
                          ZSTD_EndDirective how, struct kvr_error *error)
{
    ZSTD_inBuffer in = {bytes, count, 0};
    size_t left = 1;

    while (in.pos < in.size || (how != ZSTD_e_continue && left != 0)) {
        ZSTD_outBuffer out = {sink->bytes, sizeof(sink->bytes), sink->count};

        left = ZSTD_compressStream2(sink->zstd, &out, &in, how);
        if (ZSTD_isError(left))
            return kvr_error_set(error, KVR_NO_MEMORY, "trace", "%s cannot be compressed: %s",
                                 sink->name, ZSTD_getErrorName(left));
        sink->count = out.pos;
        if (sink->count == sizeof(sink->bytes))
            KVR_TRY(write_out(sink, error));
    }
    return KVR_OK;
}

kvr_status kvtrace_sink_write(struct kvtrace_sink *sink, const char *bytes, size_t count,
                              struct kvr_error *error)
{
    if (sink->zstd != NULL)
        return deflate(sink, bytes, count, ZSTD_e_continue, error);
    while (count > 0) {
        size_t room = sizeof(sink->bytes) - sink->count, part = count < room ? count : room;

        memcpy(sink->bytes + sink->count, bytes, part);
        sink->count += part;
        bytes += part;
        count -= part;
        if (sink->count == sizeof(sink->bytes))
            KVR_TRY(write_out(sink, error));
    }
    return KVR_OK;
}

kvr_status kvtrace_sink_flush(struct kvtrace_sink *sink, struct kvr_error *error)
{
    if (sink->zstd != NULL)
        KVR_TRY(deflate(sink, "", 0, ZSTD_e_flush, error));
    return write_out(sink, error);
}

kvr_status kvtrace_sink_close(struct kvtrace_sink *sink, bool whole, struct kvr_error *error)
{
    kvr_status status = KVR_OK;

    if (whole && sink->zstd != NULL)
        status = deflate(sink, "", 0, ZSTD_e_end, error);
    if (status == KVR_OK)
        status = write_out(sink, error);
    if (close(sink->descriptor) != 0 && status == KVR_OK)
        status = kvr_error_system(error, "trace", errno, "%s cannot be written", sink->name);
    if (whole && status == KVR_OK && sink->part[0] != '\0' && rename(sink->part, sink->name) != 0)
        status = kvr_error_system(error, "trace", errno, "%s cannot take the name %s", sink->part,
                                  sink->name);
    ZSTD_freeCStream(sink->zstd);
    free(sink);
    return status;
}
