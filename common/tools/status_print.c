#include "tools/status_print.h"

#include <stdint.h>
#include <stdlib.h>

#include "tools/status_findings.h"
#include "tools/status_screen.h"

#define CELL_BYTES 512

/* In the order in which they get room. */
enum part {
    PART_AGENTS,
    PART_ODD,
    PART_HELD,
    PART_TENANTS,
    PART_RAILS,
    PART_TRANSFERS,
    PARTS,
};

/* One text as it is printed. */
struct page {
    const struct status_answers *answers;
    const json_t *agents, *findings; /* in the order of the page */
    size_t needy;                    /* agents with findings, which come first */
    bool all;
    struct screen_part parts[PARTS];
    FILE *stream;
};

/* ---- cells ----------------------------------------------------------------------------------- */

static void print_bytes(FILE *stream, double bytes)
{
    static const char *const units[] = {"B", "KB", "MB", "GB", "TB", "PB"};
    size_t unit = 0;

    for (; bytes >= 1000 && unit + 1 < sizeof(units) / sizeof(units[0]); unit++)
        bytes /= 1000;
    fprintf(stream, unit == 0 ? "%6.0f %-2s" : "%6.2f %-2s", bytes, units[unit]);
}

/* On a screen the middle of a longer text is left out. */
static const char *fitted(const struct page *page, const char *text, unsigned width,
                          char cell[CELL_BYTES])
{
    return page->all || strlen(text) >= CELL_BYTES ? text : screen_shorten(text, width, cell);
}

/* The member in so many columns, and a space. */
static void print_cell(const struct page *page, const json_t *object, const char *name,
                       unsigned width)
{
    char cell[CELL_BYTES];
    const char *text = fitted(page, json_text_or(object, name, "-"), width, cell);
    unsigned columns = screen_columns(text, strlen(text));

    fprintf(page->stream, "%s%*s ", text, columns < width ? (int)(width - columns) : 0, "");
}

/* ---- the fleet in a line --------------------------------------------------------------------- */

static size_t count_agents(const json_t *agents, const char *state)
{
    size_t count = 0, index;
    json_t *agent;

    json_array_foreach(agents, index, agent) count += status_is(agent, "state", state);
    return count;
}

static size_t count_rails(const json_t *agents, bool up_only)
{
    size_t count = 0, index, rail_index;
    json_t *agent, *rail;

    json_array_foreach(agents, index, agent)
    {
        json_array_foreach(json_object_get(agent, "rails"), rail_index, rail) count +=
            !up_only || status_is(rail, "state", "up");
    }
    return count;
}

static void print_head(const struct page *page)
{
    const json_t *agents = page->answers->agents;
    const json_t *states = json_object_get(page->answers->summary, "states");

    fprintf(page->stream,
            "%zu agents: %zu up, %zu lost, %zu stopped; %zu of %zu rails up; %.0f transfers live\n",
            json_array_size(agents), count_agents(agents, "up"), count_agents(agents, "lost"),
            count_agents(agents, "stopped"), count_rails(agents, true), count_rails(agents, false),
            json_number_of(states, "live"));
}

/* ---- agents, rails, tenants ------------------------------------------------------------------ */

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

/* Of the agents below the last that is shown. */
static void print_more_agents(const struct page *page, unsigned shown)
{
    size_t count = json_array_size(page->agents);
    size_t needy = page->needy > shown ? page->needy - shown : 0;

    if (shown >= count)
        return;
    if (needy > 0)
        fprintf(page->stream, "%zu more need a look (--all shows them)", needy);
    if (needy > 0 && count - shown > needy)
        fputs(", ", page->stream);
    if (count - shown > needy)
        fprintf(page->stream, "%zu more are up", count - shown - needy);
    fputc('\n', page->stream);
}

static void print_agents(const struct page *page)
{
    unsigned shown = page->parts[PART_AGENTS].shown;
    char warm[24];

    if (shown == 0) {
        fprintf(page->stream, "no agent has reported yet\n");
        return;
    }
    fprintf(page->stream, "%-20s %-8s %-8s %-9s %-15s %8s %5s %5s %5s %7s%s\n", "AGENT", "ROLE",
            "STATE", "PROVIDER", "HOST", "SILENT", "PEERS", "WARM", "LIVE", "ENGINES",
            page->all ? "  SCHEDULER" : "");
    for (unsigned i = 0; i < shown; i++) {
        const json_t *agent = json_array_get(page->agents, i);

        print_cell(page, agent, "name", 20);
        print_cell(page, agent, "role", 8);
        print_cell(page, agent, "state", 8);
        print_cell(page, agent, "provider", 9);
        print_cell(page, agent, "host", 15);
        fprintf(page->stream, "%6.1f s %5.0f %5s %5.0f %7zu",
                json_number_of(agent, "silent_seconds"), json_number_of(agent, "peers_up"),
                warm_of(agent, warm, sizeof(warm)), json_number_of(agent, "transfers_live"),
                json_array_size(json_object_get(agent, "engines")));
        if (page->all)
            fprintf(page->stream, "  %s", json_text_or(agent, "scheduler", "-"));
        fputc('\n', page->stream);
    }
    print_more_agents(page, shown);
}

static void print_rail(const struct page *page, const json_t *agent, size_t number,
                       const json_t *rail)
{
    print_cell(page, agent, "name", 20);
    fprintf(page->stream, "%4zu %5.0f ", number, json_number_of(rail, "group"));
    print_cell(page, rail, "name", 12);
    print_cell(page, rail, "state", 9);
    print_cell(page, rail, "address", 21);
    print_bytes(page->stream, json_number_of(rail, "bytes"));
    fprintf(page->stream, " %12.0f\n", json_number_of(rail, "writes"));
}

/* All or none. */
static void print_rails(const struct page *page)
{
    size_t index, rail_index;
    json_t *agent, *rail;

    if (page->parts[PART_RAILS].shown == 0)
        return;
    fprintf(page->stream, "\n%-20s %-4s %-5s %-12s %-9s %-21s %9s %12s\n", "AGENT", "RAIL", "GROUP",
            "NAME", "STATE", "ADDRESS", "BYTES", "WRITES");
    json_array_foreach(page->agents, index, agent)
    {
        json_array_foreach(json_object_get(agent, "rails"), rail_index, rail)
            print_rail(page, agent, rail_index, rail);
    }
}

/* An agent without --tenant has one, which says nothing. */
static bool is_named(const json_t *tenants)
{
    return json_array_size(tenants) > 1 ||
           (json_array_size(tenants) == 1 &&
            !status_is(json_array_get(tenants, 0), "name", "default"));
}

static unsigned count_tenants(const json_t *agents)
{
    size_t index, count = 0;
    json_t *agent;

    json_array_foreach(agents, index, agent)
    {
        const json_t *tenants = json_object_get(agent, "tenants");

        count += is_named(tenants) ? json_array_size(tenants) : 0;
    }
    return (unsigned)count;
}

static void print_tenant(const struct page *page, const json_t *agent, const json_t *tenant)
{
    print_cell(page, agent, "name", 20);
    print_cell(page, tenant, "name", 15);
    fprintf(page->stream, "%9.0f %7.0f ", json_number_of(tenant, "requests"),
            json_number_of(tenant, "requests_limit"));
    print_bytes(page->stream, json_number_of(tenant, "bytes"));
    fputs(" ", page->stream);
    print_bytes(page->stream, json_number_of(tenant, "bytes_limit"));
    fprintf(page->stream, " %7.0f %7.0f ",
            json_number_of(tenant, "requests_refused") + json_number_of(tenant, "bytes_refused"),
            json_number_of(tenant, "weight"));
    print_bytes(page->stream, json_number_of(tenant, "posted_bytes"));
    fputs("\n", page->stream);
}

/* All or none. */
static void print_tenants(const struct page *page)
{
    size_t index, tenant_index;
    json_t *agent, *tenant;

    if (page->parts[PART_TENANTS].shown == 0)
        return;
    fprintf(page->stream, "\n%-20s %-15s %9s %7s %9s %9s %7s %7s %9s\n", "AGENT", "TENANT",
            "REQUESTS", "AT MOST", "BYTES", "AT MOST", "REFUSED", "WEIGHT", "POSTED");
    json_array_foreach(page->agents, index, agent)
    {
        const json_t *tenants = json_object_get(agent, "tenants");

        if (!is_named(tenants))
            continue;
        json_array_foreach(tenants, tenant_index, tenant) print_tenant(page, agent, tenant);
    }
}

/* ---- transfers ------------------------------------------------------------------------------- */

static void print_transfer(const struct page *page, const json_t *transfer)
{
    bool live = json_is_true(json_object_get(transfer, "live"));
    const char *source = json_text_or(json_object_get(transfer, "source"), "agent", "-");
    const char *target = json_text_or(json_object_get(transfer, "target"), "agent", "-");
    char from[CELL_BYTES], to[CELL_BYTES];

    print_cell(page, transfer, "request", 20);
    print_cell(page, transfer, "state", 11);
    print_cell(page, transfer, "reason", 14);
    print_bytes(page->stream, json_number_of(transfer, "bytes"));
    fprintf(page->stream, " %7.1f ms %5.0f  %s → %s\n",
            1000 * json_number_of(transfer, live ? "age_seconds" : "duration_seconds"),
            json_number_of(transfer, "retries"), fitted(page, source, 10, from),
            fitted(page, target, 10, to));
}

static void print_transfers(const struct page *page)
{
    unsigned shown = page->parts[PART_TRANSFERS].shown;

    fprintf(page->stream, "\n%-20s %-11s %-14s %9s %10s %5s  %s\n", "REQUEST", "STATE", "REASON",
            "BYTES", "TIME", "AGAIN", "FROM → TO");
    for (unsigned i = 0; i < shown; i++)
        print_transfer(page, json_array_get(page->answers->transfers, i));
    if (json_array_size(page->answers->transfers) == 0)
        fprintf(page->stream, "no transfer has been reported yet\n");
}

static unsigned count_held(const json_t *opened)
{
    size_t index;
    json_t *transfer;
    unsigned count = 0;

    json_array_foreach(opened, index, transfer) count += status_is_held(transfer);
    return count;
}

/* Of all that are opened, which are few, and not only of the latest. */
static void print_held(const struct page *page)
{
    const struct screen_part *part = &page->parts[PART_HELD];
    unsigned left = part->shown;
    size_t index;
    json_t *transfer;

    if (left == 0)
        return;
    fprintf(page->stream, "\nHeld without a target (kvrail abandon lets go of one):\n");
    json_array_foreach(page->answers->opened, index, transfer)
    {
        if (!status_is_held(transfer) || left == 0)
            continue;
        left--;
        fprintf(page->stream, "  %s, attempt %.0f: held for %.0f s without a target, at %s\n",
                json_text_or(transfer, "request", "-"), json_number_of(transfer, "attempt"),
                json_number_of(transfer, "age_seconds"),
                json_text_or(json_object_get(transfer, "source"), "agent", "-"));
    }
    if (part->shown < part->rows)
        fprintf(page->stream, "  and %u more\n", part->rows - part->shown);
}

/* ---- findings -------------------------------------------------------------------------------- */

static void print_odd(const struct page *page)
{
    const struct screen_part *part = &page->parts[PART_ODD];

    fprintf(page->stream, "\nWhat is odd:\n");
    for (unsigned i = 0; i < part->shown; i++)
        fprintf(page->stream, "  %s\n",
                json_text_or(json_array_get(page->findings, i), "text", "-"));
    if (part->rows == 0)
        fprintf(page->stream, "  nothing\n");
    else if (part->shown < part->rows)
        fprintf(page->stream, "  and %u more (--all shows them)\n", part->rows - part->shown);
}

void status_print_check(const json_t *findings, FILE *stream)
{
    size_t index;
    json_t *finding;

    json_array_foreach(findings, index, finding)
    {
        const char *text = json_text_or(finding, "text", "-");

        if (json_is_true(json_object_get(finding, "fails")))
            fprintf(stream, "%s\n", text);
        else if (status_is(finding, "kind", "insecure"))
            fprintf(stream, "note: %s\n", text);
    }
    if (status_is_well(findings))
        fprintf(stream, "all is well\n");
}

/* ---- the page -------------------------------------------------------------------------------- */

static void fit(struct page *page)
{
    const struct status_answers *answers = page->answers;
    struct screen_part parts[PARTS] = {
        [PART_ODD] = {2, (unsigned)json_array_size(page->findings), 5, true, 0},
        [PART_AGENTS] = {1, (unsigned)json_array_size(page->agents), 4, true, 0},
        [PART_HELD] = {2, count_held(answers->opened), 1, true, 0},
        [PART_TENANTS] = {2, count_tenants(page->agents), 0, false, 0},
        [PART_RAILS] = {2, (unsigned)count_rails(page->agents, false), 0, false, 0},
        [PART_TRANSFERS] = {2, (unsigned)json_array_size(answers->transfers), 2, false, 0},
    };
    /* The first line, and the lines that say that there are no agents, transfers or findings. */
    unsigned lines = SCREEN_LINES - 1 - (parts[PART_AGENTS].rows == 0 ? 1 : 0) -
                     (parts[PART_TRANSFERS].rows == 0 ? 3 : 0) -
                     (parts[PART_ODD].rows == 0 ? 3 : 0);

    screen_fit(parts, PARTS, page->all ? UINT32_MAX : lines);
    memcpy(page->parts, parts, sizeof(parts));
}

static void print_page(const struct page *page)
{
    print_head(page);
    print_agents(page);
    print_rails(page);
    print_tenants(page);
    print_transfers(page);
    print_held(page);
    print_odd(page);
}

void status_print(const struct status_answers *answers, const json_t *findings, bool all,
                  FILE *stream)
{
    struct page page = {.answers = answers, .findings = findings, .all = all};
    json_t *sorted = status_by_need(answers->agents, findings, &page.needy);
    char *text = NULL;
    size_t bytes;

    page.agents = sorted;
    page.stream = all ? stream : open_memstream(&text, &bytes);
    if (page.stream != NULL) {
        fit(&page);
        print_page(&page);
    }
    if (!all && page.stream != NULL) {
        fclose(page.stream);
        screen_cut(text, SCREEN_COLUMNS, stream);
    }
    free(text);
    json_decref(sorted);
}
