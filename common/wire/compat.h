/* May these two agents, these two engines work together? Pure; any thread.
 *
 * Every refusal is a sentence that names the field and both values, because its reader has to
 * change one of them: "num kv heads: the source has 8, the target has 4". */
#ifndef KVR_WIRE_COMPAT_H
#define KVR_WIRE_COMPAT_H

#include "wire/message.h"

/* KVR_OK, or KVR_INCOMPATIBLE with the first differing field in *error (may be NULL). */
KVR_MUST_CHECK kvr_status kvr_compat_check(const struct kvr_compat *source,
                                           const struct kvr_compat *target,
                                           struct kvr_error *error);

/* The same for two lists: at least one pair must match. An empty list matches everything, because
 * the engines of that side have not come yet. The sentence is about the closest pair. */
KVR_MUST_CHECK kvr_status kvr_compat_check_any(const struct kvr_compat *sources,
                                               uint32_t source_count,
                                               const struct kvr_compat *targets,
                                               uint32_t target_count, struct kvr_error *error);

/* A silence of this many beats means that the peer is dead. */
#define KVR_BEATS_MAX        3
/* A peer's beat counts as no shorter than ours divided by this. */
#define KVR_BEATS_FASTER_MAX 4
#define KVR_BEAT_MS_MIN      10
#define KVR_BEAT_MS_MAX      60000

/* Two hellos: protocol versions (the highest common one goes to *ret_version), beat, provider,
 * write limits, engines. KVR_VERSION, KVR_INCOMPATIBLE or KVR_INVALID with a sentence. */
KVR_MUST_CHECK kvr_status kvr_hello_check(const struct kvr_msg_hello *source,
                                          const struct kvr_msg_hello *target, uint32_t *ret_version,
                                          struct kvr_error *error);

#endif
