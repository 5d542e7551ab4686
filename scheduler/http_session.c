/* Sessions of browsers:
 *
 *   GET    /api/v1/session   the asker: {""name":…,"right":…,"via":…,"ends":…,"sign_in":…}; 401
 *   POST   /api/v1/session   with Authorization: Bearer TOKEN: 201, and the cookie
 *   DELETE /api/v1/session   with X-Kvrail-Request: 1: 200, and the cookie is gone
 */
#include "scheduler/http_request.h"

#include <stdio.h>
#include <string.h>

#include "scheduler/api_json.h"

static const char *cookie_of(struct request *request)
{
    char name[COOKIE_NAME_BYTES];

    http_cookie_name(request->http, name);
    return MHD_lookup_connection_value(request->connection, MHD_COOKIE_KIND, name);
}

/* An empty one ends it in the browser. */
static void set_cookie(struct request *request, const char *value, kvr_ns life)
{
    char name[COOKIE_NAME_BYTES];

    http_cookie_name(request->http, name);
    snprintf(request->set_cookie, sizeof(request->set_cookie),
             "%s=%s; Path=/; Max-Age=%llu; HttpOnly; SameSite=Strict%s", name, value,
             (unsigned long long)(life / KVR_S),
             request->http->options.tls != NULL ? "; Secure" : "");
}

static void audit(struct request *request, const char *action)
{
    struct audit_entry entry;

    http_audit_begin(request, action, "", &entry);
    strcpy(entry.outcome, "done");
    ingest_audit(request->http->options.ingest, &entry);
}

static enum MHD_Result send_actor(struct request *request, unsigned status)
{
    const struct access_actor *actor = &request->asker.actor;
    kvr_ns now = kvr_clock_now();
    struct api_answer answer;

    api_answer_with(&answer, status,
                    json_pack("{s:o, s:s, s:s, s:o, s:b}", "name",
                              actor->name[0] != '\0' ? json_string(actor->name) : json_null(),
                              "right", token_right_name(actor->right), "via", actor->via, "ends",
                              actor->ends > now
                                  ? json_time((int64_t)(kvr_clock_wall() + (actor->ends - now)))
                                  : json_null(),
                              "sign_in", access_has_tokens(request->http->options.access)));
    return http_send_answer(request, &answer);
}

static enum MHD_Result sign_in(struct request *request)
{
    struct access *access = request->http->options.access;
    char cookie[ACCESS_COOKIE_BYTES];
    refusal why;

    if (!access_has_tokens(access))
        return http_send_error(
            request, MHD_HTTP_CONFLICT,
            "this scheduler has no tokens (--token-file), so there is no sign-in");
    why = access_sign_in(
        access, MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, "Authorization"),
        request->asker.from.host[0] != '\0' ? &request->asker.from : NULL, kvr_clock_now(), cookie,
        &request->asker.actor);
    if (why != REFUSAL_END)
        return http_refuse(request, why);
    set_cookie(request, cookie, access_session_life(access));
    atomic_fetch_add(&metrics_http(request->http->options.metrics)->signed_in, 1);
    audit(request, "sign_in");
    return send_actor(request, MHD_HTTP_CREATED);
}

static enum MHD_Result sign_out(struct request *request)
{
    struct access *access = request->http->options.access;
    const char *cookie = cookie_of(request);
    struct api_answer answer;
    struct access_ask ask = {
        .need = ACCESS_READ,
        .cookie = cookie,
    };
    refusal why;

    if (cookie == NULL)
        return http_refuse(request, REFUSAL_SESSION);
    why = access_check(access, &ask, kvr_clock_now(), &request->asker.actor);
    if (why != REFUSAL_END || strcmp(request->asker.actor.via, "session") != 0)
        return http_refuse(request, REFUSAL_SESSION);
    if (MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, "X-Kvrail-Request") ==
        NULL)
        return http_refuse(request, REFUSAL_MARKER);
    access_sign_out(access, cookie);
    set_cookie(request, "", 0);
    audit(request, "sign_out");
    api_answer_with(&answer, MHD_HTTP_OK, json_pack("{s:b}", "signed_out", 1));
    return http_send_answer(request, &answer);
}

enum MHD_Result http_session(struct request *request, const char *method)
{
    if (strcmp(method, "POST") == 0)
        return sign_in(request);
    if (strcmp(method, "DELETE") == 0)
        return sign_out(request);
    if (strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0)
        return send_actor(request, MHD_HTTP_OK);
    return http_send_error(request, MHD_HTTP_METHOD_NOT_ALLOWED,
                           "GET, POST and DELETE are known here");
}
