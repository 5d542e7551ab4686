/* The file in which a program says on which port it listens: --port-file. */
#ifndef KVR_BASE_PORT_FILE_H
#define KVR_BASE_PORT_FILE_H

#include "base/status.h"

/* A reader never sees a part of the file: it is made beside its place and moved there. A pipe or
 * /dev/stdout is written to. */
KVR_MUST_CHECK kvr_status kvr_port_file_write(const char *path, unsigned port,
                                              struct kvr_error *error);

#endif
