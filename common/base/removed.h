/* Words of earlier versions that options, files and databases may still hold. */
#ifndef KVR_BASE_REMOVED_H
#define KVR_BASE_REMOVED_H

/* For a provider, or a mixed name such as "tcp+shm", that this version no longer has: the part of a
 * sentence that says what to use, as in "provider shm was removed: use local". Else NULL. */
const char *kvr_removed_provider(const char *provider);

/* Their names; ends with NULL. */
extern const char *const kvr_removed_providers[];

/* For an option that this version no longer has: a sentence that says what follows. Else NULL. */
const char *kvr_removed_option(const char *name);

#endif
