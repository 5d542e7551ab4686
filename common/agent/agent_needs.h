/* What an agent needs of the process that it starts in. `kvrail doctor` asks the same questions
 * before there is an agent. Each failure is a sentence that names the limit, the need and the
 * remedy. Main thread, at start. */
#ifndef KVR_AGENT_AGENT_NEEDS_H
#define KVR_AGENT_AGENT_NEEDS_H

#include "fabric/fabric.h"

/* Descriptors for as many engines, peers and rails as an agent takes. Raises the limit up to the
 * hard one. Without them an agent does not start. */
KVR_MUST_CHECK kvr_status kvr_agent_needs_files(struct kvr_error *error);

/* Locked memory for regions on that rail. With less an agent starts, and refuses large regions. */
KVR_MUST_CHECK kvr_status kvr_agent_needs_locked(const struct kvr_rail_facts *facts,
                                                 struct kvr_error *error);

/* The two needs themselves, for what another agent has. */
uint64_t kvr_agent_files_needed(void);
uint64_t kvr_agent_locked_advised(void);

#endif
