/* The answers of the HTTP API, without HTTP: paths and parameters in, JSON out.
 *
 *   /healthz, /readyz          {"status":"ok"|"degraded"|"failing","problems":[…]}. /healthz: 503
 *                              while nothing can be stored; /readyz: 503 with any problem that
 *                              keeps the scheduler from its work (health.h)
 *   /api/v1/summary            counts by state, throughput, latency, failures by reason
 *   /api/v1/agents             agents with rails, engines and counters (api_fleet.h)
 *   /api/v1/engines            engines that were attached, also those that have gone
 *   /api/v1/transfers          newest first; its filters stand in api_transfers.c
 *   /api/v1/transfers/<id>     one transfer with its events; id: 16 hex digits
 *   /api/v1/rails/matrix       how rails reach each other (api_matrix.c)
 *   /api/v1/rollups            amounts over time (api_rollups.c)
 *   /api/v1/histograms         how long transfers and their stages took (api_histograms.c)
 *   /api/v1/compare            two windows of time beside each other
 *   /api/v1/marks              starts and ends of agents, and changes with them
 *   /api/v1/faults             what broke, since when and until when
 *   /api/v1/audit              actions and sign-ins, newest first
 *   /api/v1/requests/<id>/…    order.h
 *   /api/v1/session            http_session.c
 *
 * Times are RFC 3339 UTC, durations seconds, sizes bytes. An unknown value is null, never left out.
 * An error is a problem of RFC 9457 with the member "error":{"code":…,"message":a sentence}.
 * Unknown parameters and bad values are errors, which name the parameter (api_parameters.h). One
 * thread: that of the reading store. */
#ifndef KVR_SCHEDULER_API_H
#define KVR_SCHEDULER_API_H

#include <jansson.h>

#include "http/ready.h"
#include "scheduler/fleet.h"
#include "scheduler/health.h"
#include "scheduler/metrics.h"
#include "scheduler/store.h"

#define API_PARAMETERS_MAX 16
#define API_JSON_FLAGS     (JSON_COMPACT | JSON_REAL_PRECISION(12))

struct api_query {
    int count; /* may be larger than API_PARAMETERS_MAX: then there were too many */
    struct {
        const char *name, *value; /* value may be NULL */
    } parameters[API_PARAMETERS_MAX];
};

struct api_answer {
    unsigned status;     /* of HTTP */
    char *body;          /* JSON, malloc'ed; NULL: no memory */
    bool problem;        /* the body says it by RFC 9457 */
    struct ready *ready; /* a reference, handed over, instead of a body; or NULL */
};

struct api;

/* store: a reader's. All borrowed. NULL: no memory. */
struct api *api_open(struct store *store, struct metrics *metrics, struct health *health);
struct api *api_close(struct api *api);

void api_get(struct api *api, const char *path, const struct api_query *query,
             struct api_answer *ret_answer);
/* An error in the API's form. */
void api_error(struct api_answer *ret_answer, unsigned status, const char *message);
/* Status 400, for that parameter; format has one %s at most, for a value from outside (NULL: none).
 */
void api_bad_request(struct api_answer *ret_answer, const char *parameter, const char *format,
                     const char *value);
struct json_writer;
/* Status 200 with the text; read: the database gave all of it. Returns it; false: *ret_answer is
 * unchanged, and the text is dropped. */
bool api_answer_written(struct json_writer *writer, bool read, struct api_answer *ret_answer);
/* Takes over the reference to the object. */
void api_answer_with(struct api_answer *ret_answer, unsigned status, json_t *object);
void api_get_pairs(struct fleet *fleet, struct speeds *speeds, const struct api_query *query,
                   struct api_answer *ret_answer);
void api_get_matrix(struct fleet *fleet, const struct api_query *query,
                    struct api_answer *ret_answer);
/* ready: for /readyz, else for /healthz. Any thread. */
void api_get_health(struct health *health, bool ready, struct api_answer *ret_answer);

#endif
