#include "tools/topo_peer.h"

#include <stdio.h>
#include <string.h>

#include "tools/agent_ask.h"
#include "tools/pairs_print.h"

/* Appends the pairs of one side, and adds up those that the scheduler has left out. */
static bool fetch(const struct scheduler_call *call, const char *source, const char *target,
                  json_t *pairs, json_int_t *left_out, struct kvr_error *error)
{
    char path[PAIRS_PATH_BYTES];
    json_t *answer, *list;
    bool fetched;

    pairs_path(source, target, path);
    answer = scheduler_get(call, path, NULL, error);
    list = json_object_get(answer, "pairs");
    fetched = json_is_array(list);
    if (answer != NULL && !fetched)
        (void)kvr_error_set(error, KVR_MALFORMED, "scheduler", "%s answers without pairs of rails",
                            call->url);
    if (fetched) {
        json_array_extend(pairs, list);
        *left_out += json_integer_value(json_object_get(answer, "left_out"));
    }
    json_decref(answer);
    return fetched;
}

/* There is no pair: because there is no such agent, or it has none. */
static int none_say(const struct scheduler_call *call, const char *name)
{
    struct kvr_error error = {0};
    json_t *agents = scheduler_get(call, "/api/v1/agents", "agents", &error), *agent;
    bool known = false;
    size_t index;

    if (agents == NULL) {
        fprintf(stderr, "kvrail topo: %s\n", error.detail);
        return scheduler_exit(&error);
    }
    json_array_foreach(agents, index, agent)
    {
        const char *other = json_string_value(json_object_get(agent, "name"));

        known |= other != NULL && strcmp(other, name) == 0;
    }
    if (known) {
        fprintf(stderr,
                "kvrail topo: no pair of rails of %s is known: no peer of it is up, or the "
                "prefill-agent does not report pairs yet\n",
                name);
    } else {
        fprintf(stderr, "kvrail topo: the scheduler at %s knows no agent '%s'; it knows", call->url,
                name);
        json_array_foreach(agents, index, agent)
        {
            const char *other = json_string_value(json_object_get(agent, "name"));

            fprintf(stderr, "%s %s", index > 0 ? "," : "", other != NULL ? other : "?");
        }
        fprintf(stderr, json_array_size(agents) > 0 ? "\n" : " none\n");
    }
    json_decref(agents);
    return 1;
}

void topo_peer_print(const json_t *answer, const char *asked, FILE *stream)
{
    json_int_t left_out = json_integer_value(json_object_get(answer, "left_out"));

    pairs_print(json_object_get(answer, "pairs"), stream);
    if (left_out > 0)
        fprintf(stream, "\nThe %s has left out %lld more pairs.\n", asked, (long long)left_out);
}

int topo_peer(const struct scheduler_call *call, const char *name, json_t **ret_answer)
{
    json_t *pairs = json_array();
    struct kvr_error error = {0};
    json_int_t left_out = 0;
    int exit_status = 0;

    if (!fetch(call, name, NULL, pairs, &left_out, &error) ||
        !fetch(call, NULL, name, pairs, &left_out, &error)) {
        fprintf(stderr, "kvrail topo: %s\n", error.detail);
        exit_status = scheduler_exit(&error);
    } else if (json_array_size(pairs) == 0 && left_out == 0) {
        exit_status = none_say(call, name);
    } else {
        *ret_answer = json_pack("{s:O, s:I}", "pairs", pairs, "left_out", left_out);
    }
    json_decref(pairs);
    return exit_status;
}

/* ---- one agent alone ------------------------------------------------------------------------- */

static bool is_of(const json_t *pair, const char *side, const char *name)
{
    const char *text = json_string_value(json_object_get(pair, side));

    return text != NULL && strcmp(text, name) == 0;
}

/* Those with that agent, which may be the asked one itself. */
static json_t *pairs_of(const json_t *pairs, const char *name)
{
    json_t *found = json_array();
    size_t index;
    json_t *pair;

    json_array_foreach(pairs, index, pair)
    {
        if (name[0] == '\0' || is_of(pair, "source", name) || is_of(pair, "target", name))
            json_array_append(found, pair);
    }
    return found;
}

/* The names of its peers, each once; rows of one peer lie together. */
static void no_peer_say(const json_t *pairs, const char *name)
{
    const char *last = "";
    size_t index;
    json_t *pair;

    if (json_array_size(pairs) == 0) {
        fprintf(stderr, "kvrail topo: the agent knows no pair of rails: no peer of it is up, or it "
                        "has just come up\n");
        return;
    }
    fprintf(stderr, "kvrail topo: the agent knows no peer '%s'; it knows", name);
    json_array_foreach(pairs, index, pair)
    {
        const char *target = json_string_value(json_object_get(pair, "target"));

        if (target == NULL || strcmp(target, last) == 0)
            continue;
        fprintf(stderr, "%s %s", last[0] != '\0' ? "," : "", target);
        last = target;
    }
    fputc('\n', stderr);
}

int topo_peer_of_agent(const char *socket, kvr_ns timeout, const char *name, json_t **ret_answer)
{
    struct kvr_error error = {0};
    json_int_t left_out = 0;
    json_t *all = agent_ask_pairs(socket, timeout, &left_out, &error), *pairs;
    bool found;

    if (all == NULL) {
        fprintf(stderr, "kvrail topo: %s: %s\n", socket, error.detail);
        return error.status == KVR_TIMED_OUT || error.status == KVR_SYSTEM ||
                       error.status == KVR_PEER_LOST
                   ? SCHEDULER_EXIT_AWAY
                   : 1;
    }
    pairs = pairs_of(all, name);
    found = json_array_size(pairs) > 0;
    if (found)
        *ret_answer = json_pack("{s:O, s:I}", "pairs", pairs, "left_out", left_out);
    else
        no_peer_say(all, name);
    json_decref(pairs);
    json_decref(all);
    return found ? 0 : 1;
}
