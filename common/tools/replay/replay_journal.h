/* The journal of a replay: a line of JSON for each event of each engine, as --journal asks for it.
 * The engine is "source" or "target"; of several "source-1", or as its NAME says.
 *
 *   {"at_s": 81.250731, "engine": "target", "what": "opened", "request": 7, "pages": 128,
 * "priority": 0}
 *   {"at_s": 81.402265, "engine": "target", "what": "done", "request": 7, "status": "ok",
 * "terminal": true}
 *
 * at_s is CLOCK_MONOTONIC, so that times of other processes of the host compare. `what` is one of:
 *
 * - attached: the engine has a connection to its agent, and lends its pages.
 * - opened: the agent has taken the publish or fetch. pages: those that it lends until the terminal
 *   event. priority: that of the fetch.
 * - The name of an event (kvrail_event_name). Without a request it is about the connection.
 * - detached: the connection is over.
 * - missing: the connection is over, and the request's terminal event did not come.
 * - finished: the engine's work is over. pages: those that are not free, with those of its prefix
 *   cache.
 *
 * Both engines append to one file, a line in one write. LAYER_IN and TAIL_IN are left out. */
#ifndef KVR_TOOLS_REPLAY_JOURNAL_H
#define KVR_TOOLS_REPLAY_JOURNAL_H

#include "tools/replay/replay_engine.h"

/* Makes the file; -1, and errno, when it cannot be written. */
int replay_journal_open(const char *path);

/* All do nothing where there is no journal. */
void replay_journal_note(const struct replay_engine *engine, const char *what);
void replay_journal_opened(const struct replay_engine *engine,
                           const struct replay_engine_request *request,
                           const struct replay_table *tables);
/* request: NULL where the event is of none. */
void replay_journal_event(const struct replay_engine *engine,
                          const struct replay_engine_request *request,
                          const struct kvrail_event *event);
void replay_journal_missing(const struct replay_engine *engine,
                            const struct replay_engine_request *request);
void replay_journal_finished(const struct replay_engine *engine);

#endif
