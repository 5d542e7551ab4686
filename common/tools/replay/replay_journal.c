#include "tools/replay/replay_journal.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#define LINE_BYTES 256

int replay_journal_open(const char *path)
{
    return open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
}

/* What follows the time and the engine; one write, because the other engine writes too. */
static void write_line(const struct replay_engine *engine, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void write_line(const struct replay_engine *engine, const char *format, ...)
{
    char line[LINE_BYTES];
    va_list arguments;
    int used;

    if (engine->setup->journal < 0)
        return;
    used = snprintf(line, sizeof(line), "{\"at_s\": %.6f, \"engine\": \"%s\", ",
                    (double)kvr_clock_now() / (double)KVR_S, engine->label);
    va_start(arguments, format);
    used += vsnprintf(line + used, sizeof(line) - (size_t)used, format, arguments);
    va_end(arguments);
    if (used + 2 > LINE_BYTES)
        return; /* longer than any that is written here */
    line[used++] = '}';
    line[used++] = '\n';
    if (write(engine->setup->journal, line, (size_t)used) < 0)
        return; /* its reader misses the event */
}

void replay_journal_note(const struct replay_engine *engine, const char *what)
{
    write_line(engine, "\"what\": \"%s\"", what);
}

void replay_journal_opened(const struct replay_engine *engine,
                           const struct replay_engine_request *request,
                           const struct replay_table *tables)
{
    uint32_t pages = 0;

    for (uint32_t i = 0; i < engine->setup->group_count; i++)
        pages += tables[i].count - tables[i].first;
    write_line(engine, "\"what\": \"opened\", \"request\": %u, \"pages\": %u, \"priority\": %d",
               request->index, pages, replay_recorded(engine->setup, request->index)->priority);
}

void replay_journal_event(const struct replay_engine *engine,
                          const struct replay_engine_request *request,
                          const struct kvrail_event *event)
{
    const char *name = kvrail_event_name(event->kind);
    const char *status = kvrail_status_name(event->status);

    if (event->kind == KVRAIL_EVENT_LAYER_IN || event->kind == KVRAIL_EVENT_TAIL_IN)
        return;
    if (request == NULL)
        write_line(engine, "\"what\": \"%s\", \"status\": \"%s\"", name, status);
    else
        write_line(engine,
                   "\"what\": \"%s\", \"request\": %u, \"status\": \"%s\", \"terminal\": %s", name,
                   request->index, status, event->terminal ? "true" : "false");
}

void replay_journal_missing(const struct replay_engine *engine,
                            const struct replay_engine_request *request)
{
    write_line(engine, "\"what\": \"missing\", \"request\": %u", request->index);
}

void replay_journal_finished(const struct replay_engine *engine)
{
    uint32_t pages = 0;

    for (uint32_t i = 0; i < engine->setup->group_count; i++)
        pages += engine->pages[i].page_count - engine->pages[i].free_count;
    write_line(engine, "\"what\": \"finished\", \"pages\": %u", pages);
}
