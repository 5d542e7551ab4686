#include "tools/status_print.h"
#include "tools/json_fields.h"

#include <stdbool.h>
#include <string.h>

#include "tools/pairs_print.h"

/* A transfer that lives longer than this is worth a look. */
#define OLD_SECONDS 60.0

static void print_bytes(FILE *stream, double bytes)
{
    static const char *const units[] = {"B", "KB", "MB", "GB", "TB", "PB"};
    size_t unit = 0;

    for (; bytes >= 1000 && unit + 1 < sizeof(units) / sizeof(units[0]); unit++)
        bytes /= 1000;
    fprintf(stream, unit == 0 ? "%6.0f %-2s" : "%6.2f %-2s", bytes, units[unit]);
}

/* Of its peers, those that are warm: every pair in use has carried a write; a decode-agent does not
 * know. */
static const char *warm_of(const json_t *agent, char *text, size_t capacity)
{
    const json_t *warm = json_object_get(agent, "peers_warm");

    if (!json_is_integer(warm))
        return "-";
    snprintf(text, capacity, "%" JSON_INTEGER_FORMAT, json_integer_value(warm));
    return text;
}

static void print_agents(const json_t *agents, FILE *stream)
{
    size_t index;
    json_t *agent;
    char warm[24];

    fprintf(stream, "%-20s %-8s %-8s %-8s %-16s %8s %5s %5s %5s %7s\n", "AGENT", "ROLE", "STATE",
            "PROVIDER", "HOST", "SILENT", "PEERS", "WARM", "LIVE", "ENGINES");
    json_array_foreach(agents, index, agent)
    {
        fprintf(stream, "%-20s %-8s %-8s %-8s %-16s %6.1f s %5.0f %5s %5.0f %7zu\n",
                json_text_or(agent, "name", "-"), json_text_or(agent, "role", "-"),
                json_text_or(agent, "state", "-"), json_text_or(agent, "provider", "-"),
                json_text_or(agent, "host", "-"), json_number_of(agent, "silent_seconds"),
                json_number_of(agent, "peers_up"), warm_of(agent, warm, sizeof(warm)),
                json_number_of(agent, "transfers_live"),
                json_array_size(json_object_get(agent, "engines")));
    }
    if (json_array_size(agents) == 0)
        fprintf(stream, "no agent has reported yet\n");
}

static void print_rails(const json_t *agents, FILE *stream)
{
    size_t index, rail_index;
    json_t *agent, *rail;

    fprintf(stream, "\n%-20s %-4s %-5s %-16s %-10s %-24s %9s %12s\n", "AGENT", "RAIL", "GROUP",
            "NAME", "STATE", "ADDRESS", "BYTES", "WRITES");
    json_array_foreach(agents, index, agent)
    {
        json_array_foreach(json_object_get(agent, "rails"), rail_index, rail)
        {
            fprintf(stream, "%-20s %4zu %5.0f %-16s %-10s %-24s ", json_text_or(agent, "name", "-"),
                    rail_index, json_number_of(rail, "group"), json_text_or(rail, "name", "-"),
                    json_text_or(rail, "state", "-"), json_text_or(rail, "address", "-"));
            print_bytes(stream, json_number_of(rail, "bytes"));
            fprintf(stream, " %12.0f\n", json_number_of(rail, "writes"));
        }
    }
}

/* Nothing where each agent has the one tenant of an agent without --tenant. */
static void print_tenants(const json_t *agents, FILE *stream)
{
    size_t index, tenant_index;
    json_t *agent, *tenant;
    bool any = false;

    json_array_foreach(agents, index, agent)
    {
        const json_t *tenants = json_object_get(agent, "tenants");

        json_array_foreach(tenants, tenant_index, tenant)
        {
            if (json_array_size(tenants) == 1 &&
                strcmp(json_text_or(tenant, "name", "-"), "default") == 0)
                continue;
            if (!any)
                fprintf(stream, "\n%-20s %-20s %9s %7s %9s %9s %7s %7s %9s\n", "AGENT", "TENANT",
                        "REQUESTS", "AT MOST", "BYTES", "AT MOST", "REFUSED", "WEIGHT", "POSTED");
            any = true;
            fprintf(stream, "%-20s %-20s %9.0f %7.0f ", json_text_or(agent, "name", "-"),
                    json_text_or(tenant, "name", "-"), json_number_of(tenant, "requests"),
                    json_number_of(tenant, "requests_limit"));
            print_bytes(stream, json_number_of(tenant, "bytes"));
            fputs(" ", stream);
            print_bytes(stream, json_number_of(tenant, "bytes_limit"));
            fprintf(stream, " %7.0f %7.0f ",
                    json_number_of(tenant, "requests_refused") +
                        json_number_of(tenant, "bytes_refused"),
                    json_number_of(tenant, "weight"));
            print_bytes(stream, json_number_of(tenant, "posted_bytes"));
            fputs("\n", stream);
        }
    }
}

static void print_transfers(const json_t *transfers, FILE *stream)
{
    size_t index;
    json_t *transfer;

    fprintf(stream, "\n%-28s %-12s %-14s %9s %10s %7s  %s\n", "REQUEST", "STATE", "REASON", "BYTES",
            "TIME", "RETRIES", "FROM → TO");
    json_array_foreach(transfers, index, transfer)
    {
        bool live = json_is_true(json_object_get(transfer, "live"));

        fprintf(stream, "%-28s %-12s %-14s ", json_text_or(transfer, "request", "-"),
                json_text_or(transfer, "state", "-"), json_text_or(transfer, "reason", "-"));
        print_bytes(stream, json_number_of(transfer, "bytes"));
        fprintf(stream, " %7.1f ms %7.0f  %s → %s\n",
                1000 * json_number_of(transfer, live ? "age_seconds" : "duration_seconds"),
                json_number_of(transfer, "retries"),
                json_text_or(json_object_get(transfer, "source"), "agent", "-"),
                json_text_or(json_object_get(transfer, "target"), "agent", "-"));
    }
    if (json_array_size(transfers) == 0)
        fprintf(stream, "no transfer has been reported yet\n");
}

/* A source holds its pages, and no target has asked for them. */
static bool is_held(const json_t *transfer)
{
    return strcmp(json_text_or(transfer, "state", "-"), "opened") == 0 &&
           strcmp(json_text_or(json_object_get(transfer, "source"), "agent", "-"), "-") != 0 &&
           strcmp(json_text_or(json_object_get(transfer, "target"), "agent", "-"), "-") == 0;
}

/* Of all that are opened, which are few, and not only of the latest. */
static void print_held(const json_t *opened, FILE *stream)
{
    bool any = false;
    size_t index;
    json_t *transfer;

    json_array_foreach(opened, index, transfer)
    {
        if (!is_held(transfer))
            continue;
        if (!any)
            fprintf(stream, "\nHeld without a target (kvrail abandon lets go of one):\n");
        any = true;
        fprintf(stream, "  %s, attempt %.0f: held for %.0f s without a target, at %s\n",
                json_text_or(transfer, "request", "-"), json_number_of(transfer, "attempt"),
                json_number_of(transfer, "age_seconds"),
                json_text_or(json_object_get(transfer, "source"), "agent", "-"));
    }
}

/* ---- what is odd ---------------------------------------------------------------------------- */

/* Counters that stay 0 on a healthy fleet, or have a reason worth knowing. */
static int print_odd_counters(const json_t *agent, FILE *stream)
{
    static const char *const counters[] = {"stale_writes",       "epochs_ended",     "cq_errors",
                                           "handshake_failures", "peers_lost",       "engines_lost",
                                           "leases_expired",     "digest_mismatches"};
    int odd = 0;

    for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++) {
        double value = json_number_of(json_object_get(agent, "counters"), counters[i]);

        if (value == 0)
            continue;
        fprintf(stream, "  %s counts %.0f %s since it started\n", json_text_or(agent, "name", "-"),
                value, counters[i]);
        odd++;
    }
    return odd;
}

static int print_odd_agent(const json_t *agent, const json_t *troubles, FILE *stream)
{
    const char *name = json_text_or(agent, "name", "-");
    double dropped = json_number_of(agent, "events_dropped");
    size_t index;
    json_t *rail;
    int odd = 0;

    if (strcmp(json_text_or(agent, "state", "-"), "up") != 0) {
        fprintf(stream, "  %s is %s; it was heard %.0f s ago\n", name,
                json_text_or(agent, "state", "-"), json_number_of(agent, "silent_seconds"));
        odd++;
    }
    if (json_is_true(json_object_get(agent, "insecure"))) {
        fprintf(stream, "  %s runs with --insecure: its peers prove no identity\n", name);
        odd++;
    }
    if (dropped > 0) {
        fprintf(stream, "  %s dropped %.0f events before the scheduler had them\n", name, dropped);
        odd++;
    }
    json_array_foreach(json_object_get(agent, "rails"), index, rail)
    {
        if (strcmp(json_text_or(rail, "state", "-"), "up") == 0)
            continue;
        fprintf(stream, "  rail %zu (%s) of %s is %s\n", index, json_text_or(rail, "name", "-"),
                name, json_text_or(rail, "state", "-"));
        odd++;
    }
    odd += (int)pairs_print_rails(troubles, name, json_array_size(json_object_get(agent, "rails")),
                                  stream);
    return odd + print_odd_counters(agent, stream);
}

static int print_odd_transfer(const json_t *transfer, FILE *stream)
{
    bool live = json_is_true(json_object_get(transfer, "live"));
    double age = json_number_of(transfer, "age_seconds");

    if (live && age > OLD_SECONDS && !is_held(transfer)) {
        fprintf(stream, "  %s has been %s for %.0f s\n", json_text_or(transfer, "request", "-"),
                json_text_or(transfer, "state", "-"), age);
        return 1;
    }
    if (live || strcmp(json_text_or(transfer, "reason", "-"), "-") == 0)
        return 0;
    fprintf(stream, "  %s is %s: %s: %s\n", json_text_or(transfer, "request", "-"),
            json_text_or(transfer, "state", "-"), json_text_or(transfer, "reason_text", "-"),
            json_text_or(transfer, "detail", "-"));
    return 1;
}

static int print_odd_scheduler(const json_t *summary, FILE *stream)
{
    if (!json_is_true(json_object_get(summary, "insecure")))
        return 0;
    fprintf(stream, "  the scheduler runs with --insecure: agents prove no identity to it\n");
    return 1;
}

void status_print(const struct status_answers *answers, FILE *stream)
{
    size_t index;
    json_t *item;
    int odd = 0;

    print_agents(answers->agents, stream);
    if (json_array_size(answers->agents) > 0)
        print_rails(answers->agents, stream);
    print_tenants(answers->agents, stream);
    print_transfers(answers->transfers, stream);
    print_held(answers->opened, stream);
    fprintf(stream, "\nWhat is odd:\n");
    odd += print_odd_scheduler(answers->summary, stream);
    json_array_foreach(answers->agents, index, item) odd +=
        print_odd_agent(item, answers->troubles, stream);
    json_array_foreach(answers->transfers, index, item) odd += print_odd_transfer(item, stream);
    if (odd == 0)
        fprintf(stream, "  nothing\n");
}
