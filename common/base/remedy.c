#include "base/remedy.h"

#include <stddef.h>

/* A publish ends with the failed fetch of its last target: fetching again would find nothing. */
#define REPEAT                                                                                     \
    "compute the tokens at the decode engine, or let the router start the request again with the " \
    "next attempt"

static const struct {
    kvr_status status;
    kvr_scope scope;
    const char *act;
} remedies[] = {
    {KVR_CANCELLED, KVR_SCOPE_REQUEST,
     "an engine cancelled it: see why that engine or its router gave the request up"},
    {KVR_EXPIRED, KVR_SCOPE_REQUEST,
     "the times of its stages show the slow one; --deadline (decode-agent) and --lease "
     "(prefill-agent) set how long it may take"},
    {KVR_NO_SOURCE, KVR_SCOPE_REQUEST,
     "check that the router names the prefill-agent, engine, generation and attempt "
     "that has the request, and passes its secret on; if prefill is only slow, raise "
     "the fetch's deadline (--deadline "
     "of the decode-agent)"},
    {KVR_NOT_AUTHORIZED, KVR_SCOPE_REQUEST,
     "the decode engine must name the secret that the prefill engine returned: see that the router "
     "passes it on"},
    {KVR_INCOMPATIBLE, KVR_SCOPE_ENGINE,
     "give both engines the same model, dtype and geometry; the detail names the difference"},
    {KVR_PLAN_MISMATCH, KVR_SCOPE_AGENT,
     "run the same version of kvrail on both sides; if the versions are equal, report it"},
    {KVR_DIGEST_MISMATCH, KVR_SCOPE_ENGINE,
     "the source engine changed pages after it called them final, or memory is bad"},
    {KVR_ABORTED, KVR_SCOPE_ENGINE, "the prefill engine gave the request up: its log says why"},
    {KVR_FULL, KVR_SCOPE_AGENT,
     "raise --slots or --table-memory of the agent that refused, or send fewer requests at once"},
    {KVR_REVOKED, KVR_SCOPE_REQUEST, "the source took its pages back before the end: " REPEAT},
    {KVR_DRAINING, KVR_SCOPE_AGENT,
     "that agent is stopping: send the request to another one, or again after its restart"},
    {KVR_COPY_FAILED, KVR_SCOPE_ENGINE,
     "the GPU or its engine failed: the agent's log and nvidia-smi show which; compute "
     "the request again"},
    {KVR_RAIL_FAILED, KVR_SCOPE_RAIL,
     "kvrail status and kvrail topo show the cards: check link and cable"},
    {KVR_EPOCH_ENDED, KVR_SCOPE_RAIL,
     REPEAT "; if it happens again, look at the rails in kvrail status"},
    {KVR_NO_RAIL, KVR_SCOPE_RAIL,
     "give both agents rails of one provider that reach each other (--rail, --provider)"},
    {KVR_PEER_LOST, KVR_SCOPE_PEER,
     "check that the other agent runs and can be reached; its log says why it ended; " REPEAT},
    {KVR_PEER_RESTARTED, KVR_SCOPE_PEER, "the other agent has restarted: " REPEAT},
    {KVR_REFUSED, KVR_SCOPE_PEER, "the other side refused; the detail is its own sentence"},
    {KVR_STALE, KVR_SCOPE_REQUEST,
     "the router named an older generation or attempt: an engine has restarted since"},
    {KVR_ENGINE_LOST, KVR_SCOPE_ENGINE,
     "the engine process ended: its log says why; compute the request again"},
    {KVR_AGENT_LOST, KVR_SCOPE_AGENT,
     "start the agent again and look at the end of its log; engines attach again"},
    {KVR_TOO_LARGE, KVR_SCOPE_REQUEST,
     "the request is larger than the limit that the detail names; smaller ones go on"},
    {KVR_NO_MEMORY, KVR_SCOPE_AGENT, "raise --table-memory of the agent that says so"},
    {KVR_INTERNAL, KVR_SCOPE_KVRAIL, "please report it with both agents' logs of that time"},
    {KVR_TIMED_OUT, KVR_SCOPE_PEER,
     "the other side did not answer in time: kvrail status shows both agents and their rails, and "
     "the log of that agent why it was slow"},
    {KVR_TOO_SLOW, KVR_SCOPE_RAIL,
     "kvrail status shows the rail's share beside the others: check its link, cable and switch "
     "port"},
    {KVR_UNKNOWN_TRANSFER, KVR_SCOPE_PEER,
     "the other agent has restarted or given the request up: " REPEAT},
};

static const char *const scope_names[] = {KVR_SCOPE_LIST(KVR_NAME)};

static size_t find(kvr_status status)
{
    size_t i = 0;

    while (i < sizeof(remedies) / sizeof(remedies[0]) && remedies[i].status != status)
        i++;
    return i;
}

kvr_scope kvr_remedy_scope(kvr_status status)
{
    size_t at = find(status);

    return at < sizeof(remedies) / sizeof(remedies[0]) ? remedies[at].scope : KVR_SCOPE_KVRAIL;
}

const char *kvr_scope_name(kvr_scope scope)
{
    return scope_names[scope];
}

const char *kvr_remedy_act(kvr_status status)
{
    size_t at = find(status);

    return at < sizeof(remedies) / sizeof(remedies[0]) ? remedies[at].act
                                                       : "see the logs of both agents at that time";
}
