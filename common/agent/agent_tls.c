/* The agent's certificate: opened at the start, read again when its files change, watched until it
 * ends. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "agent/agent_state.h"
#include "base/log.h"

/* A certificate of another role or name would be refused by every peer. */
static kvr_status own_check(const struct kvr_agent *agent, struct kvr_error *error)
{
    const struct kvr_identity *own = kvr_credentials_identity(agent->credentials);
    bool source = agent->machine.role == KVR_ROLE_SOURCE;
    kvr_identity_role role = source ? KVR_IDENTITY_PREFILL : KVR_IDENTITY_DECODE;

    if (own->role != role)
        return kvr_error_set(error, KVR_INVALID, "tls",
                             "--tls-certificate has the role %s, and this agent needs %s",
                             kvr_identity_role_name(own->role), kvr_identity_role_name(role));
    if (strcmp(own->name, agent->config->name) != 0)
        return kvr_error_set(error, KVR_INVALID, "tls",
                             "--tls-certificate names %.63s, and --name is %.63s: they must be the "
                             "same",
                             own->name, agent->config->name);
    return KVR_OK;
}

kvr_status agent_tls_open(struct kvr_agent *agent, struct kvr_error *error)
{
    const struct kvr_identity *own;

    if (!kvr_tls_given(&agent->config->tls))
        return KVR_OK;
    KVR_TRY(kvr_credentials_open(&agent->config->tls, &agent->credentials, error));
    KVR_TRY(own_check(agent, error));
    own = kvr_credentials_identity(agent->credentials);
    agent->counters[KVR_COUNTER_TLS_EXPIRY] = (uint64_t)kvr_credentials_expiry(agent->credentials);
    kvr_log_info("TLS 1.3 with peers of the fleet %s, as %s %s", own->fleet,
                 kvr_identity_role_name(own->role), own->name);
    return KVR_OK;
}

void agent_tls_close(struct kvr_agent *agent)
{
    kvr_credentials_close(agent->credentials);
    agent->credentials = NULL;
}

uint32_t agent_tls_roles(const struct kvr_agent *agent)
{
    return 1u << (agent->machine.role == KVR_ROLE_SOURCE ? KVR_IDENTITY_DECODE
                                                         : KVR_IDENTITY_PREFILL);
}

static void take(struct kvr_agent *agent, kvr_credentials_news news, const struct kvr_error *error)
{
    char text[KVR_RFC3339_BYTES];

    if (news == KVR_CREDENTIALS_BAD) {
        agent->counters[KVR_COUNTER_TLS_BAD_RELOADS]++;
        kvr_log_failure(KVR_LOG_ERROR, "the certificates stay as they were", error);
    }
    if (news != KVR_CREDENTIALS_CHANGED)
        return;
    agent->counters[KVR_COUNTER_TLS_RELOADS]++;
    agent->counters[KVR_COUNTER_TLS_EXPIRY] = (uint64_t)kvr_credentials_expiry(agent->credentials);
    kvr_log_info("certificates are read anew: this agent's ends at %s",
                 kvr_clock_rfc3339_seconds(kvr_credentials_expiry(agent->credentials), text));
    agent_tenants_renewed(agent);
    kvr_peers_judge(agent->peers);
}

void agent_tls_second(struct kvr_agent *agent)
{
    int64_t now = time(NULL);
    struct kvr_error error = {0};
    char text[KVR_RFC3339_BYTES];

    if (agent->credentials == NULL)
        return;
    take(agent, kvr_credentials_look(agent->credentials, &error), &error);
    if (kvr_credentials_aging(agent->credentials, now))
        kvr_log_warning(
            "--tls-certificate %s ends at %s, and no newer one has come: renew it",
            agent->config->tls.certificate,
            kvr_clock_rfc3339_seconds(kvr_credentials_expiry(agent->credentials), text));
    kvr_peers_expire(agent->peers, now);
}

void agent_tls_hang_up(struct kvr_agent *agent)
{
    struct kvr_error error = {0};

    if (agent->credentials != NULL)
        take(agent, kvr_credentials_reload(agent->credentials, &error), &error);
}

void agent_tls_refused(struct kvr_agent *agent, kvr_tls_refusal refusal)
{
    static_assert(KVR_COUNTER_TLS_BY_PEER - KVR_COUNTER_TLS_NO_CERTIFICATE == KVR_TLS_BY_PEER &&
                      KVR_COUNTER_TLS_FLOOD - KVR_COUNTER_TLS_NO_CERTIFICATE == KVR_TLS_FLOOD,
                  "the counters stand in the order of the refusals");
    agent->counters[KVR_COUNTER_TLS_NO_CERTIFICATE + (int)refusal]++;
}
