/* The path of device memory over a rail, and why no better path is taken. Pure.
 *
 *   dmabuf  the card gets a dmabuf descriptor of the memory (FI_MR_DMABUF)
 *   hmem    the card gets the memory's address in this process (FI_HMEM_CUDA)
 *   local   both sides are on this host, and the target copies between them, from device to device
 *   staged  the bytes are copied through pinned host memory, which the card reaches */
#ifndef KVR_FABRIC_DEVICE_PATH_H
#define KVR_FABRIC_DEVICE_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/data_path.h"

/* Why a path is not taken. X(symbol, what is the case) */
#define KVR_PATH_WHY_LIST(X)                                                                       \
    X(KVR_WHY_HOST_ONLY, "its provider moves host memory only")                                    \
    X(KVR_WHY_OLD_BUILD, "kvrail was built with a libfabric older than 1.20")                      \
    X(KVR_WHY_OLD_LIBRARY, "the libfabric that is loaded is older than 1.20")                      \
    X(KVR_WHY_NO_HMEM,                                                                             \
      "libfabric has no FI_HMEM for it (needs CUDA in libfabric, and nvidia-peermem or dmabuf)")   \
    X(KVR_WHY_NO_CUDA,                                                                             \
      "libfabric has no CUDA: it found no libcudart.so (LD_LIBRARY_PATH), or is built without it") \
    X(KVR_WHY_CUDA_CALLS,                                                                          \
      "its provider calls CUDA for each write, and cannot be kept from it (no peer-to-peer)")      \
    X(KVR_WHY_NETWORK, "a network lies between")                                                   \
    X(KVR_WHY_NO_DMABUF, "there is no dmabuf of the memory")                                       \
    X(KVR_WHY_NO_ADDRESS, "the agent has no device address of the memory")                         \
    X(KVR_WHY_NO_COPIES, "nothing here can copy what is only a dmabuf")                            \
    X(KVR_WHY_DIGEST, "--digest needs the bytes in host memory")                                   \
    X(KVR_WHY_REFUSED, "the card refuses it")                                                      \
    X(KVR_WHY_BETTER, "a better one is taken")                                                     \
    X(KVR_WHY_NOTHING, "nothing speaks against it")

typedef enum kvr_path_why { KVR_PATH_WHY_LIST(KVR_SYMBOL) KVR_WHY_END } kvr_path_why;

const char *kvr_path_why_text(kvr_path_why why);

/* What a rail can do with device memory; zeroed, it can do nothing. */
struct kvr_rail_device_facts {
    kvr_path_why dmabuf, hmem;
};

/* What there is of a region. */
struct kvr_path_form {
    bool dmabuf;         /* a descriptor */
    bool address;        /* a device pointer of this process */
    bool copies;         /* its device copies it */
    bool hashed;         /* its bytes are to be read by the agent */
    bool refused_dmabuf; /* it was tried on this rail */
    bool refused_hmem;
};

struct kvr_path_choice {
    kvr_path path;                  /* KVR_PATH_NONE: there is none */
    kvr_path_why why[KVR_PATH_END]; /* of DMABUF, HMEM, LOCAL and STAGED; NOTHING: that is it */
};

/* direct_copy: the rail's targets move a device's pages themselves. */
void kvr_path_choose(const struct kvr_rail_device_facts *rail, bool same_host, bool direct_copy,
                     const struct kvr_path_form *form, struct kvr_path_choice *ret_choice);

/* A region that takes it has no bytes that this process could read or write. */
static inline bool kvr_path_direct(kvr_path path)
{
    return path == KVR_PATH_DMABUF || path == KVR_PATH_HMEM;
}

/* "dmabuf, hmem: its provider moves host memory only": of the direct paths. "": one is taken. */
void kvr_path_reasons(const struct kvr_path_choice *choice, char *text, size_t capacity);

#endif
