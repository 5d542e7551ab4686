/* Structs of kvrail.h that a program fills: each says its size, which may be that of an older or of
 * a newer header. The library works on a copy in the shape that it knows. */
#ifndef KVR_CLIENT_CLIENT_SIZED_H
#define KVR_CLIENT_CLIENT_SIZED_H

#include <stddef.h>

#include "base/status.h"
#include "client/kvrail.h"

/* Each struct, its last field of the first release, its size there, and its last field now. */
#define CLIENT_SIZED(X)                                                                            \
    X(identity, generation, 80, generation)                                                        \
    X(allocation, bytes, 16, bytes)                                                                \
    X(region, head_bytes, 232, memory_of)                                                          \
    X(source_options, reserved, 40, tenant)                                                        \
    X(source_address, generation, 48, generation)                                                  \
    X(target_options, sources, 64, tenant)                                                         \
    X(event, detail, 400, detail)

/* The size in the first release: no program has a smaller one. */
#define CLIENT_SIZED_FIRST(name, first, bytes, last) CLIENT_FIRST_BYTES_##name = (bytes),
enum { CLIENT_SIZED(CLIENT_SIZED_FIRST) };

/* Copies the program's struct to *ret_own of own_bytes bytes; fields that the program does
 * not know are 0 there. `name` is for the sentence. Errors: INVALID: no version has that size.
 * UNSUPPORTED: a newer program set a field that this library does not know. */
KVR_MUST_CHECK kvr_status client_sized_copy(void *ret_own, size_t own_bytes, const void *theirs,
                                            size_t first_bytes, const char *name,
                                            struct kvr_error *error);

/* client_sized_copy of struct kvrail_<name>. */
#define CLIENT_COPY(ret_own, theirs, name, error)                                                  \
    client_sized_copy((ret_own), sizeof(struct kvrail_##name), (theirs),                           \
                      CLIENT_FIRST_BYTES_##name, #name, (error))

/* Element i of an array of sized structs: as far apart as the first says. */
#define CLIENT_ELEMENT(array, i)                                                                   \
    ((const void *)((const char *)(array) + (size_t)(i) * (array)[0].size))

#endif
