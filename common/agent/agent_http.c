/* The agent's own HTTP port: its options, its thread, and what the loop shows there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "agent/agent_http_state.h"
#include "agent/agent_state.h"
#include "base/log.h"
#include "base/need.h"
#include "base/port_file.h"

#define CONNECTIONS_MAX      64
#define CONNECTIONS_PER_HOST 16
#define YIELDING             10 /* nice */

/* ---- the thread ---- */

static void answer_start(struct agent_http *http, kvr_status status, const struct kvr_error *error)
{
    pthread_mutex_lock(&http->lock);
    http->started = true;
    http->status = status;
    http->error = *error;
    pthread_cond_broadcast(&http->changed);
    pthread_mutex_unlock(&http->lock);
}

/* Waits for about a second. False: it is time to stop. */
static bool rest(struct agent_http *http, bool *ret_hung_up)
{
    struct timespec until;
    bool go_on;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec++;
    pthread_mutex_lock(&http->lock);
    while (!http->stop && !http->hung_up &&
           pthread_cond_timedwait(&http->changed, &http->lock, &until) == 0)
        ;
    *ret_hung_up = http->hung_up;
    http->hung_up = false;
    go_on = !http->stop;
    pthread_mutex_unlock(&http->lock);
    return go_on;
}

/* libmicrohttpd's thread begins as this one is: it gives way, too. */
static void *run(void *self)
{
    struct agent_http *http = self;
    struct kvr_error error = {0};
    kvr_status status;
    bool hung_up;

    (void)setpriority(PRIO_PROCESS, 0, YIELDING); /* of this thread alone, on Linux */
    status = http_server_start(&http->options, &http->server, &http->port, &error);
    answer_start(http, status, &error);
    if (status != KVR_OK)
        return NULL;
    while (rest(http, &hung_up)) {
        http_server_tick(http->server, kvr_clock_now());
        if (!hung_up)
            continue;
        access_reread(http->options.access, true);
        if (http->options.tls != NULL)
            http_tls_look(http->options.tls, true);
    }
    http_server_stop(http->server);
    return NULL;
}

static kvr_status start(struct agent_http *http, struct kvr_error *error)
{
    if (pthread_create(&http->thread, NULL, run, http) != 0)
        return kvr_error_set(error, KVR_SYSTEM, "http", "no thread for --http");
    (void)pthread_setname_np(http->thread, "kvr-http");
    pthread_mutex_lock(&http->lock);
    while (!http->started)
        pthread_cond_wait(&http->changed, &http->lock);
    pthread_mutex_unlock(&http->lock);
    if (http->status == KVR_OK)
        return KVR_OK;
    pthread_join(http->thread, NULL);
    *error = http->error;
    return http->status;
}

/* ---- open and close ---- */

/* A port alone is one of loopback. */
static kvr_status parse(const char *given, struct kvr_address *ret_address, struct kvr_error *error)
{
    bool port_alone = strspn(given, "0123456789") == strlen(given);
    char text[KVR_OPTION_ITEM_BYTES + sizeof("127.0.0.1:")];
    struct sockaddr_storage socket;
    socklen_t bytes;

    snprintf(text, sizeof(text), "%s%s", port_alone ? "127.0.0.1:" : "", given);
    if (kvr_address_parse(text, -1, error, ret_address) != KVR_OK)
        return agent_option_refuse("http", error);
    if (strcmp(ret_address->host, "localhost") == 0 ||
        kvr_address_to_socket(ret_address, &socket, &bytes) == KVR_OK)
        return KVR_OK;
    return kvr_error_set(error, KVR_INVALID, "http",
                         "--http is '%s', but an agent listens on a numeric address", given);
}

static kvr_status open_access(const struct kvr_agent_config *config, struct access **ret_access,
                              struct kvr_error *error)
{
    struct access_options access = {
        .token_file = config->http.token_file[0] != '\0' ? config->http.token_file : NULL,
        .tls = kvr_tls_given(&config->tls),
        .hosts = {.extra = config->http.hosts},
    };

    KVR_TRY(access_open_paths(&config->http.open, "--http-open", &access, error));
    if (gethostname(access.hosts.own, sizeof(access.hosts.own) - 1) != 0)
        access.hosts.own[0] = '\0';
    return access_open(&access, ret_access, error);
}

static void say_open(const struct kvr_agent_config *config, const struct agent_http *http)
{
    struct kvr_address listening = http->options.listen;
    bool guarded = access_guarded(http->options.access);
    char printed[KVR_ADDRESS_TEXT_BYTES];

    listening.port = http->port;
    kvr_address_print(&listening, printed);
    kvr_log_info("/metrics and /healthz are at %s://%s/",
                 kvr_tls_given(&config->tls) ? "https" : "http", printed);
    if (!guarded && !kvr_address_is_loopback(&listening))
        kvr_log_warning("all that reach %s may read this agent's metrics: there is no "
                        "--http-token-file",
                        printed);
}

static kvr_status open_port(struct kvr_agent *agent, struct agent_http *http,
                            struct kvr_error *error)
{
    const struct kvr_agent_config *config = agent->config;

    http->name = config->name;
    http->options = (struct http_server_options){
        .connections_max = CONNECTIONS_MAX,
        .connections_per_host = CONNECTIONS_PER_HOST,
        .limits_fixed = true,
        .counts = &http->counts,
        .serve = agent_http_serve,
        .self = http,
    };
    KVR_TRY(parse(config->http.listen, &http->options.listen, error));
    KVR_TRY(kvr_need_more_files(CONNECTIONS_MAX, error));
    KVR_TRY(open_access(config, &http->options.access, error));
    if (kvr_tls_given(&config->tls))
        KVR_TRY(http_tls_open(&config->tls, &http->options.tls, error));
    return start(http, error);
}

static struct agent_http *make(void)
{
    struct agent_http *http = calloc(1, sizeof(*http));
    pthread_condattr_t attributes;

    if (http == NULL)
        return NULL;
    pthread_mutex_init(&http->lock, NULL);
    pthread_mutex_init(&http->shown_lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&http->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    return http;
}

static void release(struct agent_http *http)
{
    pthread_cond_destroy(&http->changed);
    pthread_mutex_destroy(&http->shown_lock);
    pthread_mutex_destroy(&http->lock);
    for (int i = 0; i < 2; i++)
        ready_drop(http->texts[i].text);
    http_tls_close(http->options.tls);
    access_close(http->options.access);
    free(http);
}

kvr_status agent_http_open(struct kvr_agent *agent, struct kvr_error *error)
{
    const struct kvr_agent_config *config = agent->config;
    struct agent_http *http;
    kvr_status status;

    if (config->http.listen[0] == '\0')
        return KVR_OK;
    http = make();
    if (http == NULL)
        return kvr_error_set(error, KVR_NO_MEMORY, "http", "no memory for --http");
    status = open_port(agent, http, error);
    if (status != KVR_OK) {
        release(http);
        return status;
    }
    agent->http = http;
    say_open(config, http);
    if (config->http.port_file[0] != '\0')
        return kvr_port_file_write(config->http.port_file, http->port, error);
    return KVR_OK;
}

void agent_http_close(struct kvr_agent *agent)
{
    struct agent_http *http = agent->http;

    if (http == NULL)
        return;
    pthread_mutex_lock(&http->lock);
    http->stop = true;
    pthread_cond_broadcast(&http->changed);
    pthread_mutex_unlock(&http->lock);
    pthread_join(http->thread, NULL);
    agent->http = NULL;
    release(http);
}

void agent_http_hang_up(struct kvr_agent *agent)
{
    struct agent_http *http = agent->http;

    if (http == NULL)
        return;
    pthread_mutex_lock(&http->lock);
    http->hung_up = true;
    pthread_cond_broadcast(&http->changed);
    pthread_mutex_unlock(&http->lock);
}

/* ---- what the loop shows ---- */

static void count_pair(void *self, const struct kvr_pair_row *row)
{
    struct agent_http_shown *shown = self;

    shown->has_pairs = true; /* from now on */
    if (row->state < KVR_PAIR_STATE_END)
        shown->pairs[row->state]++;
}

static void show_pairs(const struct kvr_agent *agent, struct agent_http_shown *shown, kvr_ns now)
{
    memset(shown->pairs, 0, sizeof(shown->pairs));
    if (agent->pair_table != NULL)
        (void)kvr_pair_table_each(agent->pair_table, NULL, now, count_pair, shown);
}

static void look(const struct kvr_agent *agent, const struct kvr_agent_facts *facts,
                 struct agent_health *health, kvr_ns now)
{
    struct agent_health_look seen = {.thread_count = agent->groups.count,
                                     .stopping = agent->draining};

    for (uint32_t i = 0; i < facts->rail_count; i++)
        seen.rails_up += facts->rails[i].state == KVR_RAIL_UP;
    for (uint32_t i = 0; i < agent->groups.count; i++) {
        struct kvr_group_thread_counters counters =
            kvr_group_thread_counters(agent->group[i].thread);

        seen.threads[i].steps = counters.steps;
        seen.threads[i].asleep = counters.asleep;
    }
    agent_health_look(health, &seen, now);
}

void agent_http_show(struct kvr_agent *agent, const struct kvr_agent_facts *facts, uint64_t dropped)
{
    struct agent_http *http = agent->http;
    kvr_ns now = kvr_clock_now();

    if (http == NULL)
        return;
    look(agent, facts, &http->health, now);
    atomic_store(&http->ran_at, now);
    if (pthread_mutex_trylock(&http->shown_lock) != 0)
        return; /* it is just being read */
    http->shown.serial++;
    http->shown.health = http->health;
    http->shown.dropped = dropped;
    http->shown.facts = *facts;
    show_pairs(agent, &http->shown, now);
    pthread_mutex_unlock(&http->shown_lock);
}
