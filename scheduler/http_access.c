#include "scheduler/http_request.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/log.h"
#include "base/text.h"

static const char *header(struct request *request, const char *name)
{
    return MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, name);
}

static access_need need_of(const struct request *request, const char *method)
{
    switch (request->route) {
    case ROUTE_PAGE:
        return ACCESS_PAGE;
    case ROUTE_METRICS:
        return ACCESS_METRICS;
    case ROUTE_HEALTH:
        return ACCESS_HEALTH;
    case ROUTE_REPORT:
        return ACCESS_REPORT;
    case ROUTE_ORDER:
        return ACCESS_ACT;
    case ROUTE_SESSION: /* signing in and out needs no right */
        return strcmp(method, "POST") == 0 || strcmp(method, "DELETE") == 0 ? ACCESS_SIGN_IN
                                                                            : ACCESS_READ;
    case ROUTE_API:
        break;
    }
    return ACCESS_READ;
}

/* A token, or a parameter that calls itself one. */
static enum MHD_Result look_for_token(void *self, enum MHD_ValueKind kind, const char *name,
                                      const char *value)
{
    static const char *const names[] = {"token", "access_token", "bearer", "authorization"};
    bool *found = self;

    (void)kind;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        *found |= strcasecmp(name, names[i]) == 0;
    *found |= kvr_token_within(name) || (value != NULL && kvr_token_within(value));
    return MHD_YES;
}

/* False: the system does not say. */
static bool local_address(struct request *request, struct kvr_address *ret_local)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct sockaddr_storage at;
    socklen_t bytes = sizeof(at);

    return info != NULL && getsockname(info->connect_fd, (struct sockaddr *)&at, &bytes) == 0 &&
           kvr_address_from_socket((const struct sockaddr *)&at, ret_local) == KVR_OK;
}

static void find_source(struct request *request)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);

    if (info == NULL || kvr_address_from_socket(info->client_addr, &request->from) != KVR_OK)
        request->from = (struct kvr_address){0};
}

/* What the client has shown in its handshake; NULL: nothing, or there is no TLS. Without memory for
 * the connection's record it has shown nothing. */
static const struct http_shown *shown_by(struct request *request)
{
    struct http_tls *tls = request->http->options.tls;
    const union MHD_ConnectionInfo *session, *client;
    struct http_client *record;

    if (tls == NULL)
        return NULL;
    session = MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    client = MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    if (session == NULL || client == NULL || client->socket_context == NULL)
        return NULL;
    record = client->socket_context;
    http_tls_judge(tls, session->tls_session, kvr_clock_now(), &record->shown);
    return record->shown.given ? &record->shown : NULL;
}

bool http_access(struct request *request, const char *path, const char *method,
                 enum MHD_Result *ret_result)
{
    struct access_ask ask = {
        .need = need_of(request, method),
        .host = header(request, "Host"),
        .origin = header(request, "Origin"),
        .site = header(request, "Sec-Fetch-Site"),
        .authorization = header(request, "Authorization"),
        .marker = header(request, "X-Kvrail-Request"),
        .cookie = MHD_lookup_connection_value(request->connection, MHD_COOKIE_KIND,
                                              request->http->cookie_name),
        .token_in_url = kvr_token_within(path),
    };
    const struct http_shown *shown = shown_by(request);
    struct kvr_address local;
    refusal why;

    if (shown != NULL && shown->good)
        ask.certificate = &shown->certificate;
    ask.bad_certificate = shown != NULL && !shown->good;
    find_source(request);
    ask.from = request->from.host[0] != '\0' ? &request->from : NULL;
    ask.local = local_address(request, &local) ? &local : NULL;
    MHD_get_connection_values(request->connection, MHD_GET_ARGUMENT_KIND, look_for_token,
                              &ask.token_in_url);
    why = access_check(request->http->options.access, &ask, kvr_clock_now(), &request->actor);
    if (why == REFUSAL_END && request->route == ROUTE_REPORT && ask.certificate != NULL &&
        ask.certificate->agent)
        memcpy(request->agent, ask.certificate->name, sizeof(request->agent));
    if (why == REFUSAL_END)
        return true;
    *ret_result = http_refuse(request, why);
    return false;
}

/* ---- refusals ---- */

void http_audit_begin(const struct request *request, const char *action, const char *object,
                      struct audit_entry *ret_entry)
{
    *ret_entry = (struct audit_entry){0};
    snprintf(ret_entry->action, sizeof(ret_entry->action), "%s", action);
    snprintf(ret_entry->actor, sizeof(ret_entry->actor), "%s", request->actor.name);
    snprintf(ret_entry->via, sizeof(ret_entry->via), "%s", request->actor.via);
    snprintf(ret_entry->from, sizeof(ret_entry->from), "%s", request->from.host);
    kvr_text_show(object, sizeof(ret_entry->object), ret_entry->object);
}

/* Only refusals that cost the other side something, so that a stranger fills no disk: a wrong token
 * is counted by its address, and the others have shown a name. */
static void audit_refusal(const struct request *request, refusal why)
{
    struct audit_entry entry;

    if ((request->route != ROUTE_ORDER && request->route != ROUTE_SESSION) ||
        (why != REFUSAL_TOKEN && why != REFUSAL_MARKER && why != REFUSAL_RIGHT &&
         why != REFUSAL_ROLE))
        return;
    http_audit_begin(request, request->route == ROUTE_ORDER ? "order" : "sign_in", "", &entry);
    snprintf(entry.outcome, sizeof(entry.outcome), "%s", refusal_facts(why)->name);
    ingest_audit(request->http->options.ingest, &entry);
}

enum MHD_Result http_refuse(struct request *request, refusal why)
{
    const struct refusal_facts *facts = refusal_facts(why);

    metrics_refuse(request->http->options.metrics, why);
    audit_refusal(request, why);
    /* A browser that has not signed in yet asks once a second. */
    kvr_log(why == REFUSAL_NONE || why == REFUSAL_SESSION || why == REFUSAL_MANY ? KVR_LOG_DEBUG
                                                                                 : KVR_LOG_WARNING,
            "a request from %s was refused (%s): %s",
            request->from.host[0] != '\0' ? request->from.host : "an unknown address", facts->name,
            facts->sentence);
    return http_send_error(request, facts->status, facts->sentence);
}
