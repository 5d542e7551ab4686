#include "scheduler/marks.h"

#include <stdio.h>
#include <string.h>

static const char *const names[] = {MARK_KIND_LIST(KVR_NAME)};

const char *mark_name(mark_kind kind)
{
    return names[kind];
}

/* What the facts say of that kind. */
static void text_of(const struct kvr_agent_facts *facts, mark_kind kind, char text[MARK_TEXT_BYTES])
{
    text[0] = '\0';
    if (facts == NULL)
        return;
    switch (kind) {
    case MARK_STARTED:
    case MARK_STOPPED:
    case MARK_VERSION:
        snprintf(text, MARK_TEXT_BYTES, "%s", facts->version);
        return;
    case MARK_HOST:
        snprintf(text, MARK_TEXT_BYTES, "%s", facts->host);
        return;
    case MARK_LISTEN:
        snprintf(text, MARK_TEXT_BYTES, "%s", facts->listen);
        return;
    case MARK_PROVIDER:
        snprintf(text, MARK_TEXT_BYTES, "%s", facts->provider);
        return;
    case MARK_INSECURE:
        snprintf(text, MARK_TEXT_BYTES, "%s", facts->secure ? "no" : "yes");
        return;
    case MARK_RAILS:
        snprintf(text, MARK_TEXT_BYTES, "%u", facts->rail_count);
        return;
    case MARK_KIND_END:
        return;
    }
}

uint32_t marks_of(const struct kvr_agent_facts *before, bool restarted,
                  const struct kvr_report *report, struct mark ret_marks[MARK_KIND_END])
{
    uint32_t count = 0;

    for (int kind = 0; kind < MARK_KIND_END; kind++) {
        struct mark *mark = &ret_marks[count];

        mark->kind = (mark_kind)kind;
        text_of(before, mark->kind, mark->before);
        text_of(report->facts, mark->kind, mark->after);
        if (kind == MARK_STARTED)
            count += restarted;
        else if (kind == MARK_STOPPED)
            count += report->leaving;
        else
            count += restarted && before != NULL && strcmp(mark->before, mark->after) != 0;
    }
    return count;
}
