/* Says in one line what is wrong with a word that arrived, and what its value would have been right
 * for: another page, layer, part or request, memory never written, or a free page. */
#ifndef KVR_TOOLS_REPLAY_EXPLAIN_H
#define KVR_TOOLS_REPLAY_EXPLAIN_H

#include "tools/replay/replay_setup.h"

const char *replay_part_name(uint32_t part);

void replay_explain(const struct replay_setup *setup, uint32_t request, uint32_t page,
                    uint32_t layer, uint32_t part, const struct content_wrong *wrong, char *text,
                    size_t text_bytes);

#endif
