/* A grid of fleets: for people, as JSON, and as a page with a plot. */
#ifndef KVR_TOOLS_VIRTUAL_PLAN_FLEET_PRINT_H
#define KVR_TOOLS_VIRTUAL_PLAN_FLEET_PRINT_H

#include <jansson.h>
#include <stdio.h>

#include "tools/virtual/plan_fleet_grid.h"

struct plan_report {
    const struct plan_grid *grid;
    const struct virtual_config *config;
    const char *trace;
    uint32_t requests;
};

/* The answer, in a sentence. */
#define PLAN_VERDICT_BYTES 300
char *plan_verdict(const struct plan_report *report, char text[PLAN_VERDICT_BYTES]);

void plan_print(const struct plan_report *report, FILE *stream);
json_t *plan_json(const struct plan_report *report);
/* False: the stream cannot be written. */
bool plan_html(const struct plan_report *report, FILE *stream);

#endif
