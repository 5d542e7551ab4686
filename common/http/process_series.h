/* The metrics of this process, by Prometheus' usual names. Any thread. */
#ifndef KVR_HTTP_PROCESS_SERIES_H
#define KVR_HTTP_PROCESS_SERIES_H

#include "http/exposition.h"

void process_series_write(struct exposition *out);

#endif
