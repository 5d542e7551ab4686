/* How far a replay is: a bar that redraws itself on a terminal, else a line a second when asked
 * for; on standard error. */
#ifndef KVR_TOOLS_REPLAY_PROGRESS_H
#define KVR_TOOLS_REPLAY_PROGRESS_H

#include "tools/replay/replay_figures.h"

/* How often replay_progress_show() wants to be called; KVR_NEVER: there is no terminal. */
kvr_ns replay_progress_interval(const struct replay_setup *setup);
void replay_progress_show(const struct replay_figures *figures, kvr_ns now);
/* Leaves the bar's line, so that what follows begins on its own. */
void replay_progress_clear(void);

#endif
