/* The folder for files that must outlive a restart: --state-dir. One process at a time uses it,
 * because two would write over each other's files. Main thread, at start. */
#ifndef KVR_BASE_STATE_FOLDER_H
#define KVR_BASE_STATE_FOLDER_H

#include <stdint.h>

#include "base/status.h"

/* Makes it if it is missing (mode 0700), sees that it can be written and has room, and locks it
 * until this process ends, however it ends: the file "lock" in it names the process. */
KVR_MUST_CHECK kvr_status kvr_state_folder_take(const char *folder, uint64_t bytes_needed,
                                                struct kvr_error *error);

#endif
