/* What a program needs of the machine before it starts. Each failure is a sentence that names the
 * limit, what it allows, what is needed and the remedy. At start, but for
 * descriptors that come later. */
#ifndef KVR_BASE_NEED_H
#define KVR_BASE_NEED_H

#include <stdint.h>

#include "base/status.h"

/* RLIMIT_NOFILE allows this many descriptors, raised up to the hard limit if need be. */
KVR_MUST_CHECK kvr_status kvr_need_files(uint64_t files, struct kvr_error *error);
/* The same of so many more than are open now; raised as far as it goes if need be, since others
 * count at the same time. Any thread. */
KVR_MUST_CHECK kvr_status kvr_need_more_files(uint64_t files, struct kvr_error *error);
/* So many bytes may be locked, because of `what`: by RLIMIT_MEMLOCK, or by a capability that lifts
 * the limit. */
KVR_MUST_CHECK kvr_status kvr_need_locked(uint64_t bytes, const char *what,
                                          struct kvr_error *error);
/* The limits that are in force; UINT64_MAX: none. */
uint64_t kvr_limit_files(void);
uint64_t kvr_limit_locked(void);
/* What cards may lock for this process; UINT64_MAX: no limit, or a capability lifts it. */
uint64_t kvr_lockable_bytes(void);
/* The file system of `folder` has this many bytes for us. what begins the sentence, remedy
 * ends it. */
KVR_MUST_CHECK kvr_status kvr_need_space(const char *what, const char *folder, uint64_t bytes,
                                         const char *remedy, struct kvr_error *error);

#endif
