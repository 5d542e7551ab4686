/* What a person should do about a transfer: a table, not ifs. */
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "tools/why_print.h"

/* A publish ends with the failed fetch of its last target: fetching again would find nothing. */
#define REPEAT                                                                                     \
    "compute the tokens at the decode engine, or let the router start the request again with the " \
    "next attempt"

static const struct {
    const char *state;
    struct why_advice advice;
} live[] = {
    {"matched",
     {"the target has not granted slots and rails yet",
      "other fetches may hold all slots: see the target agent's live transfers in kvrail status, "
      "and its --slots and --table-memory"}},
    {"granted",
     {"the source engine has announced no final layer yet",
      "look at the prefill engine: it still computes, or does not raise its word"}},
    {"first_ready",
     {"the first layer is ready and no rail has taken a write of it",
      "look at the rails of the source agent in kvrail status"}},
    {"first_post",
     {"writes are posted and none has landed",
      "look at the rails of both agents in kvrail status"}},
    {"first_land",
     {"the source engine has not made its last layer final",
      "look at the prefill engine: it still computes, or does not raise its word"}},
    {"last_ready",
     {"all layers are final and not all are written yet",
      "look at the rails in kvrail status: slow, or busy with other transfers"}},
    {"last_post",
     {"all is written, and the target has not reported all of it as landed",
      "wait for three heartbeats: the target asks for missing writes, or the transfer fails with a "
      "reason"}},
    {"last_land",
     {"all bytes are in place and the end is not settled",
      "the source engine must end its publish (tail, end); then both agents agree that nothing "
      "more can land, and compare digests where --digest asks for them"}},
    {"failing",
     {"it fails, and the agents hold its pages until nothing can land any more",
      "compute the request elsewhere; the pages come back by themselves"}},
};

static const struct {
    const char *reason, *act;
} acts[] = {
    {"cancelled", "an engine cancelled it: see why that engine or its router gave the request up"},
    {"expired", "the times above show the slow stage; --deadline (decode-agent) and --lease "
                "(prefill-agent) set how long it may take"},
    {"no_source", "check that the router names the prefill-agent, engine, generation and attempt "
                  "that has the request, and passes its secret on; if prefill is only slow, raise "
                  "the fetch's deadline (--deadline "
                  "of the decode-agent)"},
    {"not_authorized",
     "the decode engine must name the secret that the prefill engine returned: see that the router "
     "passes it on"},
    {"incompatible",
     "give both engines the same model, dtype and geometry; the detail names the difference"},
    {"plan", "run the same version of kvrail on both sides; if the versions are equal, report it"},
    {"digest", "the source engine changed pages after it called them final, or memory is bad"},
    {"aborted", "the prefill engine gave the request up: its log says why"},
    {"full",
     "raise --slots or --table-memory of the agent that refused, or send fewer requests at once"},
    {"revoked", "the source took its pages back before the end: " REPEAT},
    {"draining",
     "that agent is stopping: send the request to another one, or again after its restart"},
    {"copy_failed",
     "the GPU or its engine failed: the agent's log and nvidia-smi show which; compute "
     "the request again"},
    {"rail_failed", "kvrail status and kvrail topo show the cards: check link and cable"},
    {"epoch_ended", REPEAT "; if it happens again, look at the rails in kvrail status"},
    {"no_rail",
     "give both agents rails of one provider that reach each other (--rail, --provider)"},
    {"peer_lost",
     "check that the other agent runs and can be reached; its log says why it ended; " REPEAT},
    {"peer_restarted", "the other agent has restarted: " REPEAT},
    {"refused", "the other side refused; the detail is its own sentence"},
    {"stale", "the router named an older generation or attempt: an engine has restarted since"},
    {"engine_lost", "the engine process ended: its log says why; compute the request again"},
    {"agent_lost", "start the agent again and look at the end of its log; engines attach again"},
    {"too_large", "the request is larger than the limit that the detail names; smaller ones go on"},
    {"no_memory", "raise --table-memory of the agent that says so"},
    {"internal", "please report it with both agents' logs of that time"},
};

struct why_advice why_live(const char *state, bool source_opened, bool target_opened)
{
    if (strcmp(state, "opened") == 0 && !source_opened)
        return (struct why_advice){
            "the target waits, and no source has published the request at the agent it asks",
            "check that the prefill engine has the request, and that the fetch names the right "
            "agent, engine, generation and attempt"};
    if (strcmp(state, "opened") == 0 && !target_opened)
        return (struct why_advice){"the source holds the pages, and no target has asked for them",
                                   "check that the router has sent the request to a decode engine; "
                                   "else its lease ends it, "
                                   "or kvrail abandon at once"};
    for (size_t i = 0; i < sizeof(live) / sizeof(live[0]); i++) {
        if (strcmp(live[i].state, state) == 0)
            return live[i].advice;
    }
    return (struct why_advice){"both sides are open and have not found each other",
                               "check that the decode-agent reaches the prefill-agent: see peers "
                               "in kvrail status"};
}

const char *why_act(const char *reason)
{
    for (size_t i = 0; i < sizeof(acts) / sizeof(acts[0]); i++) {
        if (strcmp(acts[i].reason, reason) == 0)
            return acts[i].act;
    }
    return "see the logs of both agents at that time";
}
