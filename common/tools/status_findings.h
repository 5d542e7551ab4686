/* What is odd about a fleet, worst first, for `kvrail status`: its text, its JSON and its --check.
 *
 * A finding is {"kind", "fails", "agents": [names], "text": a sentence without a full stop}. One
 * that `fails` makes --check fail: it needs a person. The others are notes. */
#ifndef KVR_TOOLS_STATUS_FINDINGS_H
#define KVR_TOOLS_STATUS_FINDINGS_H

#include "tools/status_answers.h"

/* The caller's. */
json_t *status_findings(const struct status_answers *answers);
/* No finding fails. */
bool status_is_well(const json_t *findings);

/* The agents in the order in which a person should look at them: those with findings first, which
 * are *ret_needy, the worst of them before the others; then the busiest, then by name. The
 * caller's. */
json_t *status_by_need(const json_t *agents, const json_t *findings, size_t *ret_needy);

#endif
