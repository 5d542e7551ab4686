/* What a person should do about a live transfer: a table, not ifs. */
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/remedy.h"
#include "tools/why_print.h"

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
    bool known;
    kvr_status status = kvr_status_from_name(reason, &known);

    return kvr_remedy_act(known ? status : KVR_OK);
}
