/* One transfer explained, from the scheduler's JSON. */
#ifndef KVR_TOOLS_WHY_PRINT_H
#define KVR_TOOLS_WHY_PRINT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* transfer: what /api/v1/transfers/<id> answers. pairs: the pairs of rails between its agents, as
 * /api/v1/rails/matrix has them at `now`, in seconds since 1970; NULL: unknown. */
void why_print(const json_t *transfer, const json_t *pairs, double now, FILE *stream);
/* timeline: what /api/v1/transfers/<id>/timeline answers; NULL, or without layers: prints nothing.
 */
void why_print_layers(const json_t *timeline, FILE *stream);
/* The exit status that says its outcome. */
#define WHY_EXIT_DONE    0
#define WHY_EXIT_FAILED  1
#define WHY_EXIT_LIVE    3 /* 2 is a bad option */
#define WHY_EXIT_UNKNOWN 4 /* there is no transfer, or no word about its end */
int why_exit(const json_t *transfer);
/* The others that the same question found, one line each. */
void why_print_others(const json_t *transfers, const char *explained_id, FILE *stream);

struct why_advice {
    const char *why; /* begins after "it …" or stands alone: a clause without a full stop */
    const char *act; /* what to do */
};

/* Of a live transfer: by its state and which sides have spoken. */
struct why_advice why_live(const char *state, bool source_opened, bool target_opened);
/* Of one that has ended: by the name of its reason. */
const char *why_act(const char *reason);

/* Whether the network holds it up, or has done so; then says so in a clause, without a full stop.
 * stream NULL: says nothing. */
bool why_network(const json_t *transfer, const json_t *pairs, double now, FILE *stream);
/* What to look at then; a clause, too. */
void why_network_act(const json_t *transfer, FILE *stream);

#endif
