/* The libfabric of this process. No program is linked with one: it is loaded when a rail is first
 * looked for, from the folder that was chosen. So the host's own can be taken, and a host without
 * any still has provider local. The .c file defines those functions of libfabric that are symbols;
 * each calls the library that was loaded. All others go through tables that libfabric's objects
 * carry. */
#ifndef KVR_FABRIC_FABRIC_OFI_LIBRARY_H
#define KVR_FABRIC_FABRIC_OFI_LIBRARY_H

#include "base/options.h"
#include "base/status.h"

#define KVR_LIBFABRIC_FOLDER_BYTES KVR_OPTION_ITEM_BYTES

/* The row of --libfabric, in the struct's `libfabric`. */
#define KVR_OPTION_LIBFABRIC(type_)                                                                \
    {                                                                                              \
        .name = "libfabric", .section = "rails", .value = "DIR",                                   \
        KVR_OPTION_STRING(type_, libfabric),                                                       \
        .help = "Folder of the libfabric.so.1 to load, 1.17 or later, as /opt/amazon/efa/lib; "    \
                "agents log which one it is. Without it the one that came with kvrail, else the "  \
                "system's."                                                                        \
    }

/* Before a rail is looked for. folder: "" = KVRAIL_LIBFABRIC of the environment, else where the
 * system's loader looks for a library of this program. */
void kvr_libfabric_choose(const char *folder);

/* Loads it, unless that was done. An error is the same each time. */
kvr_status kvr_libfabric_load(struct kvr_error *error);

/* The version of libfabric's API that kvrail was built with, and asks for. */
uint32_t kvr_libfabric_api(void);

/* "libfabric 1.17.0 of FILE, kvrail is built with its API 1.17"; "" = none is loaded. */
const char *kvr_libfabric_describe(void);
/* "1.17.0"; "" = none is loaded. */
const char *kvr_libfabric_version(void);

#endif
