#include <stdbool.h>
#include <string.h>

#include "tools/json_fields.h"
#include "tools/why_print.h"

static bool has(const json_t *object, const char *name)
{
    return json_is_string(json_object_get(object, name));
}

static const char *agent_of(const json_t *transfer, const char *role)
{
    return json_text_or(json_object_get(transfer, role), "agent", "-");
}

/* "12.3 ms", "4.21 s". */
static const char *time_text(double seconds, char text[32])
{
    if (seconds < 1)
        snprintf(text, 32, "%.1f ms", 1000 * seconds);
    else
        snprintf(text, 32, "%.2f s", seconds);
    return text;
}

static void print_way(const json_t *expected, const char *name, FILE *stream)
{
    const json_t *way = json_object_get(expected, name);
    char time[32];

    if (json_is_object(way))
        fprintf(stream, "  %s: %.0f writes in %s were expected\n", name,
                json_number_of(way, "writes"), time_text(json_number_of(way, "seconds"), time));
}

static void print_ranks(const json_t *transfer, FILE *stream)
{
    const json_t *source = json_object_get(transfer, "source");
    const json_t *target = json_object_get(transfer, "target");
    const json_t *fragments = json_object_get(transfer, "fragments");

    fprintf(stream, "  from tensor rank %.0f of stage %.0f to tensor rank %.0f of stage %.0f\n",
            json_number_of(source, "tp"), json_number_of(source, "pp"),
            json_number_of(target, "tp"), json_number_of(target, "pp"));
    if (json_is_object(fragments))
        fprintf(stream,
                "  the two layouts have as little as %.0f bytes in a row at both ends: %.0f pieces "
                "in %.0f writes (fragments %s)\n",
                json_number_of(fragments, "bytes"), json_number_of(fragments, "pieces"),
                json_number_of(fragments, "writes"), json_text_or(fragments, "choice", "-"));
    print_way(json_object_get(fragments, "expected"), "direct", stream);
    print_way(json_object_get(fragments, "expected"), "staged", stream);
}

/* "4", or "any number of" where a piece of staging memory follows the other. */
static const char *pieces_text(const json_t *limits, const char *name, char text[16])
{
    const json_t *pieces = json_object_get(limits, name);

    if (!json_is_integer(pieces))
        return "any number of";
    snprintf(text, 16, "%" JSON_INTEGER_FORMAT, json_integer_value(pieces));
    return text;
}

static void print_limits(const json_t *transfer, FILE *stream)
{
    const json_t *limits = json_object_get(transfer, "limits");
    char local[16], remote[16];

    if (!json_is_object(limits))
        return;
    fprintf(stream,
            "  a write has at most %s pieces at the source, %s at the target, %.0f bytes%s\n",
            pieces_text(limits, "pieces_local", local),
            pieces_text(limits, "pieces_remote", remote), json_number_of(limits, "bytes"),
            json_is_true(json_object_get(limits, "calibrated"))
                ? ": calibrated, the cards take more and it gains nothing"
                : "");
}

static void print_path(const json_t *transfer, FILE *stream)
{
    if (has(transfer, "path"))
        fprintf(stream, "  path %s: source %s, target %s\n", json_text_or(transfer, "path", "-"),
                json_text_or(json_object_get(transfer, "source"), "path", "-"),
                json_text_or(json_object_get(transfer, "target"), "path", "-"));
}

static void print_head(const json_t *transfer, FILE *stream)
{
    fprintf(stream, "request %s, attempt %.0f, transfer %s\n",
            json_text_or(transfer, "request", "-"), json_number_of(transfer, "attempt"),
            json_text_or(transfer, "id", "-"));
    if (has(transfer, "tenant"))
        fprintf(stream, "  of the tenant %s\n", json_text_or(transfer, "tenant", "-"));
    fprintf(stream,
            "  from %s to %s: %.0f tokens (%.0f skipped), %.0f bytes in %.0f writes of %.0f "
            "layers, %.0f written again\n",
            agent_of(transfer, "source"), agent_of(transfer, "target"),
            json_number_of(transfer, "tokens"), json_number_of(transfer, "skip_tokens"),
            json_number_of(transfer, "bytes"), json_number_of(transfer, "chunks"),
            json_number_of(transfer, "layers"), json_number_of(transfer, "retries"));
    print_ranks(transfer, stream);
    print_limits(transfer, stream);
    print_path(transfer, stream);
}

static void print_stages(const json_t *transfer, FILE *stream)
{
    const json_t *stages = json_object_get(transfer, "stages");
    char after[32];
    json_t *stage;
    size_t index;

    fprintf(stream, "\n  %-26s %12s  %-7s %-20s %s\n", "TIME", "AFTER", "SIDE", "AGENT", "STAGE");
    json_array_foreach(stages, index, stage)
    {
        const char *role = json_text_or(stage, "role", "-");

        fprintf(stream, "  %-26s %12s  %-7s %-20s %s\n", json_text_or(stage, "at", "-"),
                time_text(json_number_of(stage, "seconds"), after), role, agent_of(transfer, role),
                json_text_or(stage, "stage", "-"));
    }
    if (json_array_size(stages) == 0)
        fprintf(stream, "  no stage has been reported\n");
}

/* ---- waits ---------------------------------------------------------------------------------- */

/* Seconds after the opening; negative: not seen. role NULL: whichever side said it first; "both":
 * whichever said it last. */
static double moment(const json_t *transfer, const char *name, const char *role)
{
    json_t *stage;
    size_t index;

    if (role != NULL && strcmp(role, "both") == 0) {
        double source = moment(transfer, name, "source"), target = moment(transfer, name, "target");

        return source > target ? source : target;
    }

    json_array_foreach(json_object_get(transfer, "stages"), index, stage)
    {
        if (strcmp(json_text_or(stage, "stage", "-"), name) == 0 &&
            (role == NULL || strcmp(json_text_or(stage, "role", "-"), role) == 0))
            return json_number_of(stage, "seconds");
    }
    return -1;
}

static void print_waits(const json_t *transfer, FILE *stream)
{
    static const struct {
        const char *from, *from_role, *to, *to_role, *sentence;
    } waits[] = {
        {"opened", "target", "opened", "source", "the target waited for the source's publish"},
        {"opened", "source", "opened", "target", "the source held its pages until a target came"},
        {"opened", "both", "matched", "both", "until both sides knew each other's page tables"},
        {"matched", NULL, "granted", NULL, "both waited for the target's slots and rails"},
        {"granted", NULL, "first_ready", NULL,
         "the rails waited for the source engine's first layer"},
        {"first_ready", NULL, "last_ready", NULL, "the source engine computed its other layers"},
        {"last_ready", NULL, "last_post", NULL, "the last layer waited for room on the rails"},
        {"last_post", NULL, "last_land", NULL, "the last write was on its way"},
        {"last_land", NULL, "ended", "target", "the target proved and handed over what had landed"},
        {"last_land", NULL, "ended", "source", "the source waited for the target's word"},
    };
    char took[32];

    fprintf(stream, "\n  Waits (each agent by its own clock):\n");
    for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
        double from = moment(transfer, waits[i].from, waits[i].from_role);
        double to = moment(transfer, waits[i].to, waits[i].to_role);

        if (from >= 0 && to > from)
            fprintf(stream, "  %12s  %s\n", time_text(to - from, took), waits[i].sentence);
    }
}

/* ---- the outcome ---------------------------------------------------------------------------- */

static void print_side(const json_t *transfer, const char *role, FILE *stream)
{
    const json_t *side = json_object_get(transfer, role);

    fprintf(stream, "  %s %s ", role, json_text_or(side, "agent", "-"));
    if (has(side, "outcome"))
        fprintf(stream, "ended with %s", json_text_or(side, "outcome", "-"));
    else if (json_is_true(json_object_get(side, "lost")))
        fprintf(stream, "fell silent and will not say how it ended");
    else if (has(side, "agent"))
        fprintf(stream, "has not ended");
    else
        fprintf(stream, "has not been heard of");
    fprintf(stream, has(side, "detail") ? ": %s\n" : "\n", json_text_or(side, "detail", "-"));
}

/* Why it was where it was after its last good stage. */
static struct why_advice advice_at(const json_t *transfer, const char *state)
{
    return why_live(state, moment(transfer, "opened", "source") >= 0,
                    moment(transfer, "opened", "target") >= 0);
}

static const char *last_good_stage(const json_t *transfer)
{
    const char *last = "opened";
    json_t *stage;
    size_t index;

    json_array_foreach(json_object_get(transfer, "stages"), index, stage)
    {
        const char *name = json_text_or(stage, "stage", "-");

        if (strcmp(name, "failing") != 0 && strcmp(name, "ended") != 0)
            last = name;
    }
    return last;
}

/* The transfer, and what else is known. */
struct why_case {
    const json_t *transfer, *pairs;
    double now;
};

/* False, and nothing: it is not the network. */
static bool print_network(const struct why_case *of, const char *before, FILE *stream)
{
    if (!why_network(of->transfer, of->pairs, of->now, NULL))
        return false;
    fputs(before, stream);
    (void)why_network(of->transfer, of->pairs, of->now, stream);
    fputs(".\nWhat to do: ", stream);
    why_network_act(of->transfer, stream);
    fputs(".\n", stream);
    return true;
}

static void print_live(const struct why_case *of, FILE *stream)
{
    const char *state = json_text_or(of->transfer, "state", "-");
    struct why_advice advice = advice_at(of->transfer, state);
    char age[32];

    fprintf(stream, "\nIt is not done after %s (%s): ",
            time_text(json_number_of(of->transfer, "age_seconds"), age), state);
    if (!print_network(of, "", stream))
        fprintf(stream, "%s.\nWhat to do: %s.\n", advice.why, advice.act);
}

static void print_end(const struct why_case *of, FILE *stream)
{
    const json_t *transfer = of->transfer;
    const char *state = json_text_or(transfer, "state", "-"),
               *reason = json_text_or(transfer, "reason", "-");
    char took[32];

    if (strcmp(state, "done") == 0) {
        fprintf(stream, "\nIt is done, after %s.\n",
                time_text(json_number_of(transfer, "duration_seconds"), took));
        (void)print_network(of, "On its way ", stream);
        return;
    }
    fprintf(stream, "\nIt is %s (%s) because %s", state, reason,
            json_text_or(transfer, "reason_text", "-"));
    fprintf(stream, has(transfer, "detail") ? ": %s.\n" : ".\n",
            json_text_or(transfer, "detail", "-"));
    if (print_network(of, "At its end: ", stream))
        return;
    fprintf(stream, "At its end: %s.\n", advice_at(transfer, last_good_stage(transfer)).why);
    fprintf(stream, "What to do: %s.\n", why_act(reason));
}

void why_print(const json_t *transfer, const json_t *pairs, double now, FILE *stream)
{
    const struct why_case of = {transfer, pairs, now};

    print_head(transfer, stream);
    print_stages(transfer, stream);
    print_waits(transfer, stream);
    fprintf(stream, "\n");
    print_side(transfer, "source", stream);
    print_side(transfer, "target", stream);
    if (json_is_true(json_object_get(transfer, "live")))
        print_live(&of, stream);
    else
        print_end(&of, stream);
}

int why_exit(const json_t *transfer)
{
    const char *state = json_text_or(transfer, "state", "");

    if (json_is_true(json_object_get(transfer, "live")))
        return WHY_EXIT_LIVE;
    if (strcmp(state, "done") == 0)
        return WHY_EXIT_DONE;
    return state[0] != '\0' ? WHY_EXIT_FAILED : WHY_EXIT_UNKNOWN;
}

void why_print_others(const json_t *transfers, const char *explained_id, FILE *stream)
{
    bool first = true;
    json_t *transfer;
    size_t index;

    json_array_foreach(transfers, index, transfer)
    {
        if (strcmp(json_text_or(transfer, "id", "-"), explained_id) == 0)
            continue;
        if (first)
            fprintf(stream, "\nOther transfers of requests with that beginning, newest first:\n");
        first = false;
        fprintf(stream, "  %s  %-12s %-14s %s\n", json_text_or(transfer, "id", "-"),
                json_text_or(transfer, "state", "-"), json_text_or(transfer, "reason", "-"),
                json_text_or(transfer, "request", "-"));
    }
}
