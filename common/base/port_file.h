/* The file in which a program says on which port it listens: --port-file. */
#ifndef KVR_BASE_PORT_FILE_H
#define KVR_BASE_PORT_FILE_H

#include "base/status.h"

/* Whoever waits for the file never reads a part of it: it is made beside its place and moved there.
 * What is no file (a pipe, /dev/stdout) is written to. */
KVR_MUST_CHECK kvr_status kvr_port_file_write(const char *path, unsigned port,
                                              struct kvr_error *error);

#endif
