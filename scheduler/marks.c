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
    case MARK_OPTIONS:
        snprintf(text, MARK_TEXT_BYTES, "%s", facts->options);
        return;
    case MARK_KIND_END:
        return;
    }
}

/* ---- options: "name=value name=value", or "name=value ..." where not all of them fitted ---- */

#define CUT "..."

/* Whether a word of the text begins with these bytes, and, `whole`, ends with them. */
static bool has_word(const char *text, const char *word, size_t bytes, bool whole)
{
    while (*text != '\0') {
        size_t length = strcspn(text, " ");

        if (length >= bytes && (length == bytes || !whole) && memcmp(text, word, bytes) == 0)
            return true;
        text += length + strspn(text + length, " ");
    }
    return false;
}

/* The words of the text that the other one lacks. What the other one may have lost with its end
 * does not count. */
static void keep_differing(const char *text, const char *other, char kept[MARK_TEXT_BYTES])
{
    bool cut = has_word(other, CUT, strlen(CUT), true);
    size_t used = 0;

    kept[0] = '\0';
    while (*text != '\0') {
        size_t length = strcspn(text, " "), name = strcspn(text, "= ");
        bool lost = name == length || (cut && !has_word(other, text, name + 1, false));

        if (!lost && !has_word(other, text, length, true))
            used += (size_t)snprintf(kept + used, MARK_TEXT_BYTES - used, "%s%.*s",
                                     used > 0 ? " " : "", (int)length, text);
        text += length + strspn(text + length, " ");
    }
}

/* An agent has at least one option, its name: without any they are not known. */
static void keep_options(struct mark *mark)
{
    char before[MARK_TEXT_BYTES] = "", after[MARK_TEXT_BYTES] = "";

    if (mark->before[0] != '\0' && mark->after[0] != '\0') {
        keep_differing(mark->before, mark->after, before);
        keep_differing(mark->after, mark->before, after);
    }
    memcpy(mark->before, before, sizeof(before));
    memcpy(mark->after, after, sizeof(after));
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
        if (kind == MARK_OPTIONS)
            keep_options(mark);
        if (kind == MARK_STARTED)
            count += restarted;
        else if (kind == MARK_STOPPED)
            count += report->leaving;
        else
            count += restarted && before != NULL && strcmp(mark->before, mark->after) != 0;
    }
    return count;
}
