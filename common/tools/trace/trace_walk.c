#include <inttypes.h>
#include <stdio.h>

#include "tools/trace/trace_tool.h"

#define SAY 20

int trace_fail(const char *command, const char *sentence)
{
    fprintf(stderr, "%s: %s\n", command, sentence);
    return 1;
}

bool trace_walk_open(struct trace_walk *walk, const char *command, const char *path)
{
    struct kvr_error error = {0};

    *walk = (struct trace_walk){.command = command, .say = SAY};
    if (kvtrace_open(path, &walk->reader, &error) == KVR_OK)
        return true;
    trace_fail(command, error.detail);
    return false;
}

static void say_wrong(struct trace_walk *walk, const char *sentence)
{
    walk->wrong++;
    if (walk->said == walk->say)
        return;
    walk->said++;
    trace_fail(walk->command, sentence);
}

static void say_misfit(struct trace_walk *walk, const char *sentence)
{
    char text[KVR_DETAIL_BYTES + 40];

    snprintf(text, sizeof(text), "line %" PRIu64 ": %s", kvtrace_line(walk->reader), sentence);
    say_wrong(walk, text);
}

const struct kvtrace_record *trace_walk_next(struct trace_walk *walk, bool *ret_good)
{
    const struct kvtrace_record *record;

    *ret_good = true;
    for (;;) {
        struct kvr_error error = {0};
        kvr_status status = kvtrace_next(walk->reader, &record, &error);

        if (status == KVR_OK)
            status = kvtrace_book_take(&walk->book, record, &error);
        else if (status == KVR_MALFORMED)
            say_wrong(walk, error.detail);
        if (status == KVR_INVALID)
            say_misfit(walk, error.detail);
        if (status == KVR_OK)
            return record;
        if (status == KVR_NOT_FOUND)
            return NULL;
        if (status != KVR_MALFORMED && status != KVR_INVALID) {
            trace_fail(walk->command, error.detail);
            *ret_good = false;
            return NULL;
        }
    }
}

bool trace_walk_close(struct trace_walk *walk, struct kvtrace_ending *ret_ending)
{
    char text[80];

    kvtrace_ending(walk->reader, ret_ending);
    if (walk->wrong > walk->said) {
        snprintf(text, sizeof(text), "%" PRIu64 " more lines are wrong", walk->wrong - walk->said);
        trace_fail(walk->command, text);
    }
    walk->reader = kvtrace_close(walk->reader);
    kvtrace_book_close(&walk->book);
    return walk->wrong == 0 && ret_ending->complete;
}

static kvr_status copy_records(const struct trace_copy *copy, struct trace_walk *walk,
                               struct kvtrace_writer *writer, bool *ret_good, bool *ret_stop,
                               struct kvr_error *error)
{
    const struct kvtrace_record *record;

    while (!*ret_stop && (record = trace_walk_next(walk, ret_good)) != NULL) {
        record = copy->choose(copy->self, &walk->book, record, ret_stop);
        if (record != NULL)
            KVR_TRY(kvtrace_write(writer, record, error));
    }
    return KVR_OK;
}

static kvr_status copy_trace(const struct trace_copy *copy, struct trace_walk *walk, bool *ret_good,
                             bool *ret_stop, struct kvr_error *error)
{
    struct kvtrace_header header = *kvtrace_header(walk->reader);
    struct kvtrace_writer *writer;
    kvr_status status;

    if (copy->change != NULL)
        copy->change(copy->self, &header);
    KVR_TRY(kvtrace_create(copy->output, &header, &writer, error));
    status = copy_records(copy, walk, writer, ret_good, ret_stop, error);
    if (status == KVR_OK && *ret_good)
        return kvtrace_finish(writer, error);
    kvtrace_abandon(writer);
    return status;
}

int trace_copy(const struct trace_copy *copy)
{
    struct trace_walk walk;
    struct kvtrace_ending ending;
    struct kvr_error error = {0};
    bool good = true, stop = false;
    kvr_status status;

    if (!trace_walk_open(&walk, copy->command, copy->path))
        return 1;
    status = copy_trace(copy, &walk, &good, &stop, &error);
    (void)trace_walk_close(&walk, &ending);
    if (status != KVR_OK)
        return trace_fail(copy->command, error.detail);
    if (!stop && ending.problem[0] != '\0') {
        fprintf(stderr, "%s: %s: %s\n", copy->command, copy->path, ending.problem);
        good = false;
    }
    return good && walk.wrong == 0 ? 0 : 1;
}
