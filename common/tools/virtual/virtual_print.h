/* What a run in virtual time came to: for people and as JSON. */
#ifndef KVR_TOOLS_VIRTUAL_VIRTUAL_PRINT_H
#define KVR_TOOLS_VIRTUAL_VIRTUAL_PRINT_H

#include <jansson.h>
#include <stdio.h>

#include "tools/virtual/virtual_run.h"

struct virtual_report {
    const struct virtual_config *config;
    const struct virtual_figures *figures;
    const char *trace;
    double wall_s;
    long memory_kib; /* the most that the process has had */
};

void virtual_print(const struct virtual_report *report, FILE *stream);
json_t *virtual_json(const struct virtual_report *report);

#endif
