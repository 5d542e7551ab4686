/* Marks on the time axis: an agent started, or ended, and what its new start changed.
 *
 * An agent's facts show its version, host, listen, provider, insecure, the number of its rails, and
 * its options that are not default: of these a mark has the ones that differ. Pure. */
#ifndef KVR_SCHEDULER_MARKS_H
#define KVR_SCHEDULER_MARKS_H

#include "trace/report.h"

/* X(symbol, name) */
#define MARK_KIND_LIST(X)                                                                          \
    X(MARK_STARTED, "started")                                                                     \
    X(MARK_VERSION, "version")                                                                     \
    X(MARK_HOST, "host")                                                                           \
    X(MARK_LISTEN, "listen")                                                                       \
    X(MARK_PROVIDER, "provider")                                                                   \
    X(MARK_INSECURE, "insecure")                                                                   \
    X(MARK_RAILS, "rails")                                                                         \
    X(MARK_OPTIONS, "options")                                                                     \
    X(MARK_STOPPED, "stopped")

typedef enum mark_kind { MARK_KIND_LIST(KVR_SYMBOL) MARK_KIND_END } mark_kind;

#define MARK_TEXT_BYTES KVR_AGENT_OPTIONS_BYTES

struct mark {
    mark_kind kind;
    char before[MARK_TEXT_BYTES], after[MARK_TEXT_BYTES]; /* "": none, or not known */
};

const char *mark_name(mark_kind kind);
/* before: of the start before, NULL: not known. restarted: the report is of another start than
 * that. Returns how many marks there are. */
uint32_t marks_of(const struct kvr_agent_facts *before, bool restarted,
                  const struct kvr_report *report, struct mark ret_marks[MARK_KIND_END]);

#endif
