/* Records of a trace with random members, for the tests of its format. */
#ifndef KVR_TESTS_KVTRACE_CASE_H
#define KVR_TESTS_KVTRACE_CASE_H

#include "base/rng.h"
#include "trace/kvtrace_fields.h"

/* Its rows are valid until the next call. */
void kvtrace_random(struct kvr_rng *rng, kvtrace_kind kind, struct kvtrace_record *ret_record);

#endif
