/* Whether the network between its agents holds a transfer up, or has done so. Then more time, or
 * another engine, would not have helped. */
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "base/pair_states.h"
#include "tools/json_fields.h"
#include "tools/why_print.h"

/* Seconds from its end until `now`; 0: it has not ended, or this is not known. */
static double ended_ago(const json_t *transfer, double now)
{
    struct tm end = {0};
    const char *text = json_text_or(transfer, "ended", ""); /* 2026-08-01T12:00:00.123456Z */

    if (sscanf(text, "%d-%d-%dT%d:%d:%d", &end.tm_year, &end.tm_mon, &end.tm_mday, &end.tm_hour,
               &end.tm_min, &end.tm_sec) != 6)
        return 0;
    end.tm_year -= 1900;
    end.tm_mon -= 1;
    return now > (double)timegm(&end) ? now - (double)timegm(&end) : 0;
}

static bool has_stage(const json_t *transfer, const char *name)
{
    json_t *stage;
    size_t index;

    json_array_foreach(json_object_get(transfer, "stages"), index, stage)
    {
        if (strcmp(json_text_or(stage, "stage", ""), name) == 0)
            return true;
    }
    return false;
}

/* Whether a pair that has been in trouble for this time may have hurt it: since before its end.
 * Where all has landed only a rail that was good at its beginning can hold it: what may still land
 * over that. */
static bool matters(const json_t *transfer, double now, double seconds)
{
    double ago = ended_ago(transfer, now);
    bool live = json_is_true(json_object_get(transfer, "live"));
    double opened_ago = live ? json_number_of(transfer, "age_seconds")
                             : ago + json_number_of(transfer, "duration_seconds");

    return seconds >= ago && (!has_stage(transfer, "last_land") || seconds <= opened_ago);
}

/* Pairs between its agents. */
struct evidence {
    unsigned pairs, in_trouble;
};

static struct evidence evidence_of(const json_t *transfer, const json_t *pairs, double now)
{
    struct evidence evidence = {0};
    size_t index;
    json_t *pair;

    json_array_foreach(pairs, index, pair)
    {
        const json_t *seconds = json_object_get(pair, "state_seconds");
        kvr_pair_state state = kvr_pair_state_from_name(json_text_or(pair, "state", ""));

        evidence.pairs += state != KVR_PAIR_SPARE;
        evidence.in_trouble +=
            kvr_pair_in_trouble(state) &&
            (!json_is_number(seconds) || matters(transfer, now, json_number_value(seconds)));
    }
    return evidence;
}

/* Its pages waited for rails, and not for an engine. */
static bool waited_for_rails(const json_t *transfer)
{
    return has_stage(transfer, "last_ready") ||
           (has_stage(transfer, "first_ready") && !has_stage(transfer, "first_land"));
}

/* Reasons that are the network's own, or that a slow network leads to. */
static bool is_network(const char *reason)
{
    return strcmp(reason, "no_rail") == 0 || strcmp(reason, "rail_failed") == 0;
}
static bool is_of_time(const char *reason)
{
    return strcmp(reason, "expired") == 0 || strcmp(reason, "cancelled") == 0 ||
           strcmp(reason, "epoch_ended") == 0;
}

bool why_network(const json_t *transfer, const json_t *pairs, double now, FILE *stream)
{
    struct evidence evidence = evidence_of(transfer, pairs, now);
    double repeated = json_number_of(transfer, "retries");
    const char *reason = json_text_or(transfer, "reason", "");
    bool live = json_is_true(json_object_get(transfer, "live"));
    bool done = strcmp(json_text_or(transfer, "state", ""), "done") == 0;
    bool hurt = evidence.in_trouble > 0 || repeated > 0;

    if (!live && !done && !is_network(reason) && !is_of_time(reason))
        return false;
    if (is_network(reason) ? !hurt && evidence.pairs == 0 : !hurt || !waited_for_rails(transfer))
        return false;
    if (stream == NULL)
        return true;
    fprintf(stream, "the network between %s and %s",
            json_text_or(json_object_get(transfer, "source"), "agent", ""),
            json_text_or(json_object_get(transfer, "target"), "agent", ""));
    fprintf(stream, live ? " holds it up" : done ? " has held it up" : " is the cause");
    if (evidence.in_trouble > 0)
        fprintf(stream, ": %u of %u pairs of rails %s in trouble", evidence.in_trouble,
                evidence.pairs, evidence.in_trouble > 1 ? "are" : "is");
    if (repeated > 0)
        fprintf(stream, "%s %.0f write%s posted again", evidence.in_trouble > 0 ? ", and" : ":",
                repeated, repeated > 1 ? "s were" : " was");
    return true;
}

void why_network_act(const json_t *transfer, FILE *stream)
{
    const char *target = json_text_or(json_object_get(transfer, "target"), "agent", "");

    fprintf(stream,
            "check all that lies between those cards: cables, switch ports, the speed that was "
            "negotiated, MTU; `kvrail topo --peer %s` shows which rails reach which, and `kvrail "
            "doctor --peer %s` on the source's host whether both hosts fit%s",
            target, target,
            strcmp(json_text_or(transfer, "reason", ""), "expired") == 0
                ? "; a longer deadline does not help"
                : "");
}
