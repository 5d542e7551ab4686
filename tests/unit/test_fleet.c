/* Goal: the scheduler uses an agent's report about itself to correct its own records: a transfer
 * that does not live any more, or a name that two agents use.
 * Method: reports applied as the writer does. */
#include "tests/support/check.h"

#include <stdio.h>

#include "scheduler/api_fleet.h"
#include "tests/support/store_case.h"

/* The agent's spool was full, or its disk lost some events. */
static void fleet_ends_what_an_agent_dropped_the_end_of(void **state)
{
    static struct kvr_agent_facts facts;
    struct fixture *fixture = *state;
    struct kvr_event event = event_of(KVR_EVENT_FIRST_POST, KVR_ROLE_SOURCE, 5, 5);
    struct kvr_event late = event_of(KVR_EVENT_ENDED, KVR_ROLE_SOURCE, 5, 60);
    struct kvr_report report = report_of("prefill-0", 1, &event, 1);
    uint64_t acknowledged;

    facts = (struct kvr_agent_facts){.transfers_live = 1};
    assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
    report = report_of("prefill-0", 0, NULL, 0);
    report.facts = &facts;
    report.dropped = 3;
    assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
    assert_int_equal(get_transfer(fixture, 5).state,
                     STATE_FIRST_POST); /* the lost event may be the end of the live transfer */
    facts.transfers_live = 0;
    assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
    assert_int_equal(get_transfer(fixture, 5).state, STATE_LOST);
    report = report_of("prefill-0", 5, &late, 1); /* the event was only late */
    report.facts = &facts;
    report.dropped = 3;
    assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
    assert_int_equal(get_transfer(fixture, 5).state, STATE_DONE);
    event.transfer = 6;
    report = report_of("prefill-0", 6, &event, 1);
    assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
    report = report_of("prefill-0", 0, NULL, 0);
    report.facts = &facts;
    report.dropped = 3; /* no further loss */
    assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
    assert_int_equal(get_transfer(fixture, 6).state, STATE_FIRST_POST);
}

static void take_live(void *self, const struct agent_view *view)
{
    *(uint32_t *)self = view->facts->transfers_live;
}

/* While the database refuses: what an agent says of itself is shown, and is stored later. */
static void what_is_not_stored_is_shown(void **state)
{
    static struct kvr_agent_facts facts;
    struct fixture *fixture = *state;
    struct kvr_report report = report_of("prefill-0", 0, NULL, 0);
    uint64_t acknowledged;
    uint32_t live = 0;

    facts = (struct kvr_agent_facts){.transfers_live = 8};
    report.facts = &facts;
    assert_int_equal(apply_one(fixture, &report, &acknowledged), KVR_OK);
    assert_false(fleet_differs(fixture->fleet, &report, WALL));
    facts.transfers_live = 0;
    fleet_hear(fixture->fleet, &report, kvr_clock_now());
    fleet_each(fixture->fleet, kvr_clock_now(), take_live, &live);
    assert_int_equal(live, 0);
    assert_true(fleet_differs(fixture->fleet, &report, WALL));
    report.boot++; /* of another start, which may be another program */
    facts.transfers_live = 5;
    fleet_hear(fixture->fleet, &report, kvr_clock_now());
    fleet_each(fixture->fleet, kvr_clock_now(), take_live, &live);
    assert_int_equal(live, 0);
}

static bool twins(struct fixture *fixture, uint64_t boot, struct kvr_agent_facts *facts,
                  char host[KVR_NAME_BYTES])
{
    struct kvr_report report = report_of("prefill-0", 0, NULL, 0);
    bool found;

    report.boot = boot;
    report.facts = facts;
    snprintf(facts->host, sizeof(facts->host), "host-%u", (unsigned)boot);
    found = fleet_find_twin(fixture->fleet, &report, kvr_clock_now(), host);
    assert_true(fleet_update(fixture->fleet, &report, kvr_clock_now(), WALL));
    return found;
}

static void take_twin(void *self, const struct agent_view *view)
{
    static char host[KVR_NAME_BYTES];

    if (view->twin_host != NULL)
        *(const char **)self = strcpy(host, view->twin_host);
}

/* Of the only agent; NULL: it is the only one of its name. */
static const char *twin_of(struct fixture *fixture, kvr_ns now)
{
    const char *host = NULL;

    fleet_each(fixture->fleet, now, take_twin, &host);
    return host;
}

static void fleet_tells_two_agents_of_one_name_from_a_restart(void **state)
{
    static struct kvr_agent_facts facts;
    char host[KVR_NAME_BYTES];

    assert_false(twins(*state, 7, &facts, host));
    assert_false(twins(*state, 8, &facts, host));
    assert_false(twins(*state, 8, &facts, host));
    assert_true(twins(*state, 7, &facts, host));
    assert_string_equal(host, "host-8");
    assert_null(twin_of(*state, kvr_clock_now() + FLEET_TWIN_NS));
    assert_string_equal(twin_of(*state, kvr_clock_now()), "host-8");
    assert_false(twins(*state, 8, &facts, host)); /* already reported */
    assert_string_equal(twin_of(*state, kvr_clock_now()), "host-7");
}

static void count_up(void *self, const struct agent_view *view)
{
    *(int *)self += view->state == AGENT_UP;
}

static int up(struct fleet *fleet, kvr_ns now)
{
    int count = 0;

    fleet_each(fleet, now, count_up, &count);
    return count;
}

/* Its first call finds the absence, each of them: the reports of that time lie unread. */
static void fleet_does_not_hold_its_own_absence_against_agents(void **state)
{
    static struct kvr_agent_facts facts;
    struct fixture *fixture = *state;
    struct kvr_report report = report_of("prefill-0", 0, NULL, 0);
    char name[KVR_NAME_BYTES];
    kvr_ns now = kvr_clock_now();

    report.facts = &facts;
    assert_true(fleet_update(fixture->fleet, &report, now, WALL));
    for (int i = 0; i < 3; i++)
        fleet_tick(fixture->fleet, now += KVR_S);
    now += 3600 * KVR_S;
    assert_false(fleet_next_silent(fixture->fleet, now, FLEET_SILENT_NS, name));
    assert_int_equal(up(fixture->fleet, now), 1);
    for (int i = 0; i < 2; i++)
        fleet_tick(fixture->fleet, now += KVR_S);
    assert_int_equal(up(fixture->fleet, now), 1);
    fleet_tick(fixture->fleet, now += KVR_S); /* an agent that stays silent is lost */
    assert_int_equal(up(fixture->fleet, now), 0);
    assert_true(fleet_next_silent(fixture->fleet, now, FLEET_SILENT_NS, name));
    assert_string_equal(name, "prefill-0");
}

static bool agents_have(struct api_fleet *api, const char *text)
{
    struct api_query query = {0};
    struct api_answer answer;
    bool has;

    api_fleet_get(api, "/api/v1/agents", &query, &answer);
    assert_int_equal(answer.status, 200);
    assert_non_null(answer.ready);
    has = strstr(answer.ready->text, text) != NULL;
    ready_drop(answer.ready);
    return has;
}

/* The answer is kept for a while, but not beyond such a change. */
static void fleet_answers_show_at_once_that_an_agent_comes_or_stops(void **state)
{
    static struct kvr_agent_facts facts;
    struct fixture *fixture = *state;
    struct api_fleet_parts parts = {.fleet = fixture->fleet};
    struct api_fleet *api = api_fleet_open(&parts);
    struct kvr_report report = report_of("prefill-0", 0, NULL, 0);

    assert_non_null(api);
    assert_true(agents_have(api, "\"agents\":[]"));
    report.facts = &facts;
    assert_true(fleet_update(fixture->fleet, &report, kvr_clock_now(), WALL));
    assert_true(agents_have(api, "\"state\":\"up\""));
    report.leaving = true;
    assert_true(fleet_update(fixture->fleet, &report, kvr_clock_now(), WALL));
    assert_true(agents_have(api, "\"state\":\"stopped\""));
    report.boot++;
    report.leaving = false;
    assert_true(fleet_update(fixture->fleet, &report, kvr_clock_now(), WALL));
    assert_true(agents_have(api, "\"state\":\"up\""));
    api_fleet_close(api);
}

/* Each combination of parameters is a question of its own, and a bad one is never kept. */
static void fleet_answers_are_kept_by_their_parameters(void **state)
{
    struct fixture *fixture = *state;
    struct api_fleet_parts parts = {.fleet = fixture->fleet, .metrics = fixture->metrics};
    struct api_fleet *api = api_fleet_open(&parts);
    struct api_query query = {.count = 1, .parameters = {{"source", "prefill-0"}}};
    struct api_answer answers[4] = {{0}};

    for (int i = 0; i < 4; i++) {
        query.parameters[0].name = i == 3 ? "trouble" : "source";
        query.parameters[0].value = i == 3 ? "no" : i == 2 ? "prefill-1" : "prefill-0";
        api_fleet_get(api, "/api/v1/rails/matrix", &query, &answers[i]);
    }
    assert_true(answers[0].ready != NULL && answers[0].ready == answers[1].ready);
    assert_true(answers[2].ready != NULL && answers[2].ready != answers[0].ready);
    assert_int_equal(answers[3].status, 400);
    for (int i = 0; i < 4; i++) {
        ready_drop(answers[i].ready);
        free(answers[i].body);
    }
    api_fleet_close(api);
}

/* Where a visit takes long, reports do not wait for it. */
static void update_within(void *self, const struct agent_view *view)
{
    static struct kvr_agent_facts facts;
    struct kvr_report report = report_of("prefill-1", 0, NULL, 0);
    struct fleet *fleet = self;

    report.facts = &facts;
    assert_true(fleet_update(fleet, &report, kvr_clock_now(), WALL));
    assert_int_equal(strncmp(view->row.name, "prefill-", 8), 0);
}

static void fleet_is_not_locked_while_agents_are_shown(void **state)
{
    static struct kvr_agent_facts facts;
    struct fixture *fixture = *state;
    struct kvr_report report = report_of("prefill-0", 0, NULL, 0);
    int count = 0;

    report.facts = &facts;
    assert_true(fleet_update(fixture->fleet, &report, kvr_clock_now(), WALL));
    assert_true(fleet_each(fixture->fleet, kvr_clock_now(), update_within, fixture->fleet));
    assert_true(fleet_each(fixture->fleet, kvr_clock_now(), count_up, &count));
    assert_int_equal(count, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_STORE(fleet_answers_are_kept_by_their_parameters),
        WITH_STORE(fleet_is_not_locked_while_agents_are_shown),
        WITH_STORE(fleet_ends_what_an_agent_dropped_the_end_of),
        WITH_STORE(what_is_not_stored_is_shown),
        WITH_STORE(fleet_tells_two_agents_of_one_name_from_a_restart),
        WITH_STORE(fleet_answers_show_at_once_that_an_agent_comes_or_stops),
        WITH_STORE(fleet_does_not_hold_its_own_absence_against_agents),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
