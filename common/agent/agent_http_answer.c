/* GET /metrics and GET /healthz at an agent. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent_http_state.h"
#include "http/agent_series.h"
#include "http/http_answer.h"
#include "http/problem.h"
#include "http/process_series.h"

static enum MHD_Result send_problem(struct MHD_Connection *connection, unsigned status,
                                    const char *message)
{
    const struct http_head head = {.status = status, .type = PROBLEM_TYPE, .methods = "GET, HEAD"};
    char *text = problem_text(status, message, NULL);

    return http_answer(connection, &head, text, text != NULL ? strlen(text) : 0);
}

/* False: the loop has shown nothing yet. */
static bool look(struct agent_http *http, struct agent_health_view *ret_health)
{
    pthread_mutex_lock(&http->shown_lock);
    if (http->copy.serial != http->shown.serial)
        http->copy = http->shown;
    pthread_mutex_unlock(&http->shown_lock);
    if (http->copy.serial == 0)
        return false;
    agent_health_judge(&http->copy.health, atomic_load(&http->ran_at), kvr_clock_now(), ret_health);
    return true;
}

/* ---- /healthz, as the scheduler's ---- */

static json_t *problem_json(agent_problem problem, kvr_ns since)
{
    const struct agent_problem_facts *facts = agent_problem_facts(problem);
    kvr_ns ago = kvr_clock_now() - since;
    char at[KVR_RFC3339_BYTES], detail[48];

    snprintf(detail, sizeof(detail), "for %.0f s", (double)ago / 1e9);
    return json_pack("{s:s, s:s, s:s, s:s, s:s}", "problem", facts->name, "text", facts->text,
                     "detail", detail, "next", facts->next, "since",
                     kvr_clock_rfc3339(kvr_clock_wall() - ago, at));
}

static enum MHD_Result send_health(struct agent_http *http, struct MHD_Connection *connection)
{
    struct agent_health_view health;
    struct http_head head = {.status = MHD_HTTP_OK, .type = "application/json"};
    const char *scheduler = http->copy.facts.scheduler;
    json_t *problems, *object;
    char *text;

    if (!look(http, &health))
        return send_problem(connection, MHD_HTTP_SERVICE_UNAVAILABLE, "the agent is starting");
    problems = json_array();
    for (int i = 0; i < health.count; i++)
        json_array_append_new(problems,
                              problem_json(health.problems[i].problem, health.problems[i].since));
    if (health.count > 0)
        head.status = MHD_HTTP_SERVICE_UNAVAILABLE;
    object = json_pack("{s:s, s:o, s:s?}", "status", health.count == 0 ? "ok" : "failing",
                       "problems", problems, "scheduler", scheduler[0] != '\0' ? scheduler : NULL);
    text = json_dumps(object, JSON_COMPACT);
    json_decref(object);
    return http_answer(connection, &head, text, text != NULL ? strlen(text) : 0);
}

/* ---- /metrics ---- */

struct source {
    const struct agent_http *http;
    bool up;
};

static void each(void *self, agent_series_visit *visit, void *visitor)
{
    const struct source *source = self;

    visit(visitor, &(struct agent_series_view){
                       .name = source->http->name,
                       .facts = &source->http->copy.facts,
                       .dropped = source->http->copy.dropped,
                       .up = source->up,
                   });
}

static void each_pairs(void *self, agent_series_visit_pairs *visit, void *visitor)
{
    const struct agent_http *http = ((const struct source *)self)->http;

    if (http->copy.has_pairs)
        visit(visitor, http->name, http->copy.pairs);
}

static void write_metrics(void *self, struct exposition *out)
{
    const struct source *source = self;

    agent_series_write(&(const struct agent_series_source){self, each, each_pairs}, out);
    http_counts_write(&source->http->counts, out);
    process_series_write(out);
}

/* Written once for each snapshot, so that many questions cost as much as one. */
static enum MHD_Result send_metrics(struct agent_http *http, struct MHD_Connection *connection)
{
    bool open =
        exposition_wants_open(MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Accept"));
    struct agent_http_text *text = &http->texts[open];
    struct agent_health_view health;
    bool up = true;

    if (!look(http, &health))
        return send_problem(connection, MHD_HTTP_SERVICE_UNAVAILABLE, "the agent is starting");
    for (int i = 0; i < health.count; i++)
        up &= health.problems[i].problem != AGENT_LOOP_STILL;
    if (text->text == NULL || text->serial != http->copy.serial || text->up != up) {
        ready_drop(text->text);
        *text = (struct agent_http_text){
            exposition_ready(open, write_metrics, &(struct source){http, up}), http->copy.serial,
            up};
    }
    if (text->text == NULL)
        return send_problem(connection, MHD_HTTP_SERVICE_UNAVAILABLE, "no memory for the metrics");
    return http_answer_ready(connection, ready_share(text->text));
}

/* ---- requests ---- */

static access_need need_of(const char *path)
{
    if (strcmp(path, "/metrics") == 0)
        return ACCESS_METRICS;
    return strcmp(path, "/healthz") == 0 ? ACCESS_HEALTH : ACCESS_READ;
}

/* Its headers are here. */
static enum MHD_Result begin(struct agent_http *http, struct MHD_Connection *connection,
                             const char *path, const char *method)
{
    struct http_asker asker;
    refusal why = http_server_check(http->server, connection, need_of(path), path, NULL, &asker);

    if (why != REFUSAL_END) {
        const struct refusal_facts *facts = http_server_refuse(http->server, &asker, why);

        return send_problem(connection, facts->status, facts->sentence);
    }
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
        return send_problem(connection, MHD_HTTP_METHOD_NOT_ALLOWED,
                            "only GET and HEAD are known here");
    return MHD_YES;
}

enum MHD_Result agent_http_serve(void *self, struct MHD_Connection *connection, const char *path,
                                 const char *method, const char *version, const char *data,
                                 size_t *data_size, void **context)
{
    struct agent_http *http = self;

    (void)version;
    (void)data;
    if (*context == NULL) {
        *context = http;
        return begin(http, connection, path, method);
    }
    if (*data_size > 0)
        return MHD_NO; /* closes: a question has no body */
    http_server_asked(http->server, connection);
    if (strcmp(path, "/metrics") == 0)
        return send_metrics(http, connection);
    if (strcmp(path, "/healthz") == 0)
        return send_health(http, connection);
    return send_problem(connection, MHD_HTTP_NOT_FOUND, "an agent has /metrics and /healthz");
}
