/* A run as a trace of transfers (trace/kvtrace.h), for `kvrail compare`. Its times are virtual, and
 * the ids of requests are their numbers in the trace. Of ranks that are alike only the first is
 * written. */
#ifndef KVR_TOOLS_VIRTUAL_RECORD_H
#define KVR_TOOLS_VIRTUAL_RECORD_H

#include "tools/virtual/virtual_run.h"

struct virtual_record;

KVR_MUST_CHECK kvr_status virtual_record_open(const char *path, struct virtual_record **ret_record,
                                              struct kvr_error *error);
/* Writes the footer and closes the file. */
KVR_MUST_CHECK kvr_status virtual_record_finish(struct virtual_record *record,
                                                struct kvr_error *error);
/* Closes the file without a footer: it stays as PATH.part. NULL is fine. */
void virtual_record_abandon(struct virtual_record *record);

#endif
