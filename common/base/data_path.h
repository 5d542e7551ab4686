/* How bytes get between an engine's pages and the wire. */
#ifndef KVR_BASE_DATA_PATH_H
#define KVR_BASE_DATA_PATH_H

#include "base/names.h"

/* The most direct first. X(symbol, name, meaning) */
#define KVR_PATH_LIST(X)                                                                           \
    X(KVR_PATH_HOST, "host", "host memory, read or written by the card")                           \
    X(KVR_PATH_DMABUF, "dmabuf", "device memory, read or written by the card (FI_MR_DMABUF)")      \
    X(KVR_PATH_HMEM, "hmem", "device memory, read or written by the card (FI_HMEM_CUDA)")          \
    X(KVR_PATH_LOCAL, "local", "copied by the target on the same host: no card takes part")        \
    X(KVR_PATH_STAGED, "staged", "device memory or fragments, copied through pinned host memory")

typedef enum kvr_path {
    KVR_PATH_NONE, /* nothing to move, or not known */
    KVR_PATH_LIST(KVR_SYMBOL) KVR_PATH_END
} kvr_path;

const char *kvr_path_name(kvr_path path);      /* "" for KVR_PATH_NONE */
kvr_path kvr_path_from_name(const char *name); /* KVR_PATH_NONE for an unknown name */

#endif
