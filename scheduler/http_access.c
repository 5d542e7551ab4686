#include "scheduler/http_request.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

void http_cookie_name(const struct http *http, char name[COOKIE_NAME_BYTES])
{
    snprintf(name, COOKIE_NAME_BYTES, "%skvrail_%u", http->options.tls != NULL ? "__Host-" : "",
             http->port);
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
    case ROUTE_STREAM:
    case ROUTE_API:
        break;
    }
    return ACCESS_READ;
}

static refusal check(struct request *request, const char *path, const char *method)
{
    char cookie[COOKIE_NAME_BYTES];

    http_cookie_name(request->http, cookie);
    return http_server_check(
        request->http->server, request->connection, need_of(request, method), path,
        MHD_lookup_connection_value(request->connection, MHD_COOKIE_KIND, cookie), &request->asker);
}

bool http_still_may(struct request *request, const char *path)
{
    return check(request, path, "GET") == REFUSAL_END;
}

bool http_access(struct request *request, const char *path, const char *method,
                 enum MHD_Result *ret_result)
{
    refusal why = check(request, path, method);

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
    snprintf(ret_entry->actor, sizeof(ret_entry->actor), "%s", request->asker.actor.name);
    snprintf(ret_entry->via, sizeof(ret_entry->via), "%s", request->asker.actor.via);
    snprintf(ret_entry->from, sizeof(ret_entry->from), "%s", request->asker.from.host);
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
    const struct refusal_facts *facts =
        http_server_refuse(request->http->server, &request->asker, why);

    audit_refusal(request, why);
    return http_send_error(request, facts->status, facts->sentence);
}
