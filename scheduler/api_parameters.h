/* The paths of the API and their parameters: the one list that answers, errors and the document
 * /api/v1/openapi.json agree with (`unit.api_document`). Any thread. */
#ifndef KVR_SCHEDULER_API_PARAMETERS_H
#define KVR_SCHEDULER_API_PARAMETERS_H

#include "scheduler/api.h"

typedef enum api_path_kind {
    API_SUMMARY,
    API_AGENTS,
    API_ENGINES,
    API_TRANSFERS,
    API_TRANSFER,
    API_PAIRS,
    API_TIMELINE,
    API_ERRORS,
    API_MATRIX,
    API_ROLLUPS,
    API_HISTOGRAMS,
    API_COMPARE,
    API_MARKS,
    API_FAULTS,
    API_AUDIT,
    API_DOCUMENT,
    API_STREAM,
    API_SESSION,
    API_ABANDON,
    API_RENEW,
    API_CANCEL,
    API_DRAIN,
    API_RESUME,
    API_RECORD,
} api_path_kind;

#define API_NAMES_MAX 14

struct api_path {
    api_path_kind kind;
    const char *methods;              /* with a space between them */
    const char *path;                 /* {id}: one part, not empty */
    const char *names[API_NAMES_MAX]; /* of its parameters; NULL: none follows */
};

extern const struct api_path api_paths[];
extern const size_t api_path_count;

/* NULL: there is none. */
const struct api_path *api_path_of(const char *method, const char *path);
/* Error 404, which names the paths that there are. */
void api_no_path(struct api_answer *ret_answer);
/* Path and parameters are UTF-8, as each database and JSON want them; false: *ret_answer says which
 * is not. */
bool api_check_text(const char *path, const struct api_query *query, struct api_answer *ret_answer);
/* Each is known and stands there once; false: *ret_answer says which one does not. */
bool api_check_parameters(const struct api_path *path, const struct api_query *query,
                          struct api_answer *ret_answer);
/* NULL: it is not given; "": it has no value. */
const char *api_parameter(const struct api_query *query, const char *name);

/* ---- values; false: it is none, and what it would be stored to is unchanged ---- */

/* Decimal digits only. */
bool api_number(const char *text, int64_t min, int64_t max, int64_t *ret_number);
/* RFC 3339 in UTC, from 1970 to 2262: "2026-01-31T12:34:56.789Z". */
bool api_time(const char *text, int64_t *ret_ns);
#define API_NO_TIME "\"%s\" is no time: give one in UTC, such as 2026-01-31T12:34:56Z"
/* "2.5", at most 1e9. */
bool api_seconds(const char *text, int64_t *ret_ns);
/* As the API writes it, or without hyphens. */
bool api_uuid(const char *text, struct kvr_uuid *ret_uuid);

/* The name of one `noun` ("agent") in that parameter; NULL where it is not given. False: it is
 * none, and *ret_answer says so. */
bool api_parse_name(const struct api_query *query, const char *parameter, const char *noun,
                    const char **ret_name, struct api_answer *ret_answer);
/* The time in that parameter; unchanged where it is not given. False as above. */
bool api_parse_time(const struct api_query *query, const char *parameter, int64_t *ns,
                    struct api_answer *ret_answer);
/* Rows of an answer; unchanged where it is not given. False as above. */
bool api_parse_limit(const struct api_query *query, uint32_t *limit, struct api_answer *ret_answer);

/* limit and after, which every list has. */
struct api_page {
    uint32_t limit;
    int64_t before, before_ns; /* ns: 0 where the place has one number */
};
#define API_NO_PLACE "after=%s is not the \"next\" of an earlier answer to these parameters"
bool api_parse_page(const struct api_query *query, struct api_page *ret_page,
                    struct api_answer *ret_answer);

#endif
