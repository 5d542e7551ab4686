/* Goal: `kvrail doctor --peer` finds nothing on two hosts that fit together, and names each
 * difference with its check, its state and a remedy. Method: two sides by hand, of two RoCE rails
 * each; one fault at a time. */
#include "tests/support/check.h"

#include <stdio.h>

#include "tools/doctor_peer.h"

static struct doctor_pair pair;
static struct doctor_findings findings;

static void rail_set(struct kvr_rail_snapshot *rail, unsigned number)
{
    *rail = (struct kvr_rail_snapshot){
        .provider = "verbs",
        .state = KVR_RAIL_UP,
        .speed_bps = UINT64_C(400000000000),
        .traits = {.reported = true,
                   .link = {KVR_LINK_ROCE_V2, 9000, true, true, 1 << 3, 1 << 3},
                   .device_path = KVR_PATH_DMABUF,
                   .pins_memory = true}};
    snprintf(rail->name, sizeof(rail->name), "mlx5_%u", number);
    snprintf(rail->traits.network, sizeof(rail->traits.network), "10.%u.0.0/24", number);
    snprintf(rail->traits.plane, sizeof(rail->traits.plane), "plane-%u", number);
}

static void side_set(struct doctor_side *side, const char *name, kvr_role role)
{
    memset(side, 0, sizeof(*side));
    snprintf(side->name, sizeof(side->name), "%s", name);
    snprintf(side->state, sizeof(side->state), "up");
    side->agent = side->up = side->traits_shown = side->clock_heard = true;
    side->facts.role = role;
    side->facts.secure = true;
    strcpy(side->facts.version, "0.2.0");
    strcpy(side->facts.provider, "verbs+local");
    side->facts.rail_count = 3;
    rail_set(&side->facts.rails[0], 0);
    rail_set(&side->facts.rails[1], 1);
    strcpy(side->facts.rails[2].name, "local"); /* counts for nothing */
    strcpy(side->facts.rails[2].provider, "local");
    side->facts.traits = (struct kvr_host_traits){.reported = true,
                                                  .libfabric = "2.1.0",
                                                  .files_limit = UINT64_MAX,
                                                  .lockable_bytes = UINT64_MAX,
                                                  .clock_known = true,
                                                  .clock_synchronised = true,
                                                  .clock_error_us = 2000,
                                                  .rail_port_first = 9500,
                                                  .rail_port_last = 9563};
}

static int good_pair(void **state)
{
    (void)state;
    memset(&pair, 0, sizeof(pair));
    side_set(&pair.ours, "decode-0", KVR_ROLE_TARGET);
    side_set(&pair.theirs, "prefill-0", KVR_ROLE_SOURCE);
    strcpy(pair.theirs.facts.listen, "10.0.0.7:9480");
    pair.dial.tried = true;
    return 0;
}

static const struct doctor_finding *find(const char *check, doctor_state of, const char *part)
{
    for (uint32_t i = 0; i < findings.count; i++)
        if (strcmp(findings.list[i].check, check) == 0 && findings.list[i].state == of &&
            strstr(findings.list[i].found, part) != NULL)
            return &findings.list[i];
    return NULL;
}

static void judge(void)
{
    memset(&findings, 0, sizeof(findings));
    doctor_judge_pair(&pair, &findings);
}

/* A finding of the check has that state and that part in its sentence; nothing else is bad. */
static void expect(const char *check, doctor_state state, const char *part)
{
    const struct doctor_finding *finding;

    judge();
    finding = find(check, state, part);
    if (finding == NULL) {
        doctor_print(&findings, stderr);
        fail_msg("%s is not '%s' with '%s'", check, doctor_state_name(state), part);
    }
    if (state == DOCTOR_WARNING || state == DOCTOR_WRONG)
        assert_true(finding->remedy[0] != '\0');
    assert_int_equal(findings.wrong, state == DOCTOR_WRONG);
    assert_int_equal(findings.warnings, state == DOCTOR_WARNING);
}

static void two_good_hosts_have_every_check(void **state)
{
    static const char *const checks[] = {
        "peer_agent", "peer_insecure", "peer_version", "peer_libfabric", "peer_limits",
        "peer_clock", "peer_control",  "peer_ports",   "peer_provider",  "peer_rails",
        "peer_speed", "peer_planes",   "peer_mtu",     "peer_link",      "peer_pfc",
        "peer_ecn",   "peer_gpudirect"};

    (void)state;
    judge();
    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++)
        if (find(checks[i], DOCTOR_OK, "") == NULL)
            fail_msg("%s is not ok", checks[i]);
    assert_int_equal(findings.wrong, 0);
    assert_int_equal(findings.warnings, 0);
    expect("peer_rails", DOCTOR_OK, "2 at both");
    expect("peer_ports", DOCTOR_OK, "9500 to 9563");
}

static void agents_that_are_not_up_are_wrong(void **state)
{
    (void)state;
    pair.theirs.up = false;
    pair.theirs.silent_s = 12;
    strcpy(pair.theirs.state, "lost");
    expect("peer_agent", DOCTOR_WRONG, "has not heard it for 12 s");
    strcpy(pair.theirs.state, "stopped");
    expect("peer_agent", DOCTOR_WRONG, "was stopped 12 s ago");
    good_pair(NULL);
    pair.ours.up = false;
    strcpy(pair.ours.state, "lost");
    expect("peer_agent", DOCTOR_WRONG, "decode-0");
    good_pair(NULL);
    pair.ours.facts.role = KVR_ROLE_SOURCE;
    expect("peer_agent", DOCTOR_WRONG, "both of role prefill");
}

static void insecure_sides_are_said(void **state)
{
    (void)state;
    pair.theirs.facts.secure = false;
    expect("peer_insecure", DOCTOR_WRONG, "prefill-0 runs with --insecure and decode-0 with");
    pair.ours.facts.secure = false;
    expect("peer_insecure", DOCTOR_WARNING, "prefill-0 runs with --insecure");
    pair.theirs.facts.secure = true;
    expect("peer_insecure", DOCTOR_WRONG, "decode-0 runs with --insecure and prefill-0 with");
    pair.ours.agent = false; /* this host has no such option */
    strcpy(pair.ours.name, "this host");
    expect("peer_insecure", DOCTOR_OK, "prefill-0 takes peers with certificates");
}

static void the_older_version_is_to_be_updated_first(void **state)
{
    (void)state;
    strcpy(pair.theirs.facts.version, "0.10.0");
    expect("peer_version", DOCTOR_WARNING, "decode-0 has kvrail 0.2.0, and prefill-0 has 0.10.0");
    assert_non_null(strstr(find("peer_version", DOCTOR_WARNING, "")->remedy, "decode-0 first"));
    strcpy(pair.theirs.facts.version, "0.1.0");
    expect("peer_version", DOCTOR_WARNING, "0.1.0");
    assert_non_null(strstr(find("peer_version", DOCTOR_WARNING, "")->remedy, "prefill-0 first"));
    good_pair(NULL);
    strcpy(pair.ours.facts.traits.libfabric, "1.22.0");
    expect("peer_libfabric", DOCTOR_WARNING, "decode-0 has libfabric 1.22.0");
    pair.ours.facts.traits.libfabric[0] = '\0';
    expect("peer_libfabric", DOCTOR_ABSENT, "decode-0 has loaded none");
}

static void limits_of_agents_are_judged(void **state)
{
    (void)state;
    pair.theirs.facts.traits.files_limit = 1024;
    expect("peer_limits", DOCTOR_WARNING, "prefill-0 may open 1024 files");
    good_pair(NULL);
    pair.theirs.facts.traits.lockable_bytes = 8u << 20;
    expect("peer_limits", DOCTOR_WARNING, "may lock 8192 KiB");
    pair.theirs.facts.rails[0].traits.pins_memory = false;
    pair.theirs.facts.rails[1].traits.pins_memory = false;
    expect("peer_limits", DOCTOR_ABSENT, "no rail of prefill-0 pins memory");
}

static void clocks_are_compared(void **state)
{
    (void)state;
    expect("peer_clock", DOCTOR_OK, "errors of at most 2.0 ms and 2.0 ms");
    pair.theirs.facts.traits.clock_synchronised = false;
    expect("peer_clock", DOCTOR_WARNING, "the clock of prefill-0 is not synchronised");
    pair.theirs.facts.traits.clock_known = false;
    expect("peer_clock", DOCTOR_ABSENT, "does not say whether its clock");
    good_pair(NULL);
    pair.theirs.clock_ahead_s = 3;
    pair.ours.clock_ahead_s = 1;
    expect("peer_clock", DOCTOR_WARNING, "prefill-0 is about 2.0 s ahead of that of decode-0");
    pair.clock_doubt_s = 2; /* the answer took so long */
    expect("peer_clock", DOCTOR_OK, "less than 2.25 s");
    pair.clock_doubt_s = 0;
    pair.theirs.clock_ahead_s = 0.5;
    expect("peer_clock", DOCTOR_WARNING, "0.5 s behind");
    pair.theirs.clock_heard = false;
    expect("peer_clock", DOCTOR_ABSENT, "how far both clocks differ is not known");
}

static void addresses_that_take_no_connection_are_wrong(void **state)
{
    (void)state;
    (void)kvr_error_set(&pair.dial.error, KVR_SYSTEM, "test", "Connection refused");
    expect("peer_control", DOCTOR_WRONG,
           "10.0.0.7:9480 of prefill-0 takes no connection from here: Connection refused");
    pair.dial = (struct doctor_dial){.tried = false};
    expect("peer_control", DOCTOR_ABSENT, "prefill-0 listens for no agent");
}

static void ports_of_the_target_are_said(void **state)
{
    (void)state;
    pair.ours.facts.traits.rail_port_first = 0;
    expect("peer_ports", DOCTOR_OK, "the kernel chooses the ports of decode-0");
    pair.ours.agent = false;
    expect("peer_ports", DOCTOR_ABSENT, "no peer connects to rails of prefill-0");
}

/* ---- rails ----------------------------------------------------------------------------------- */

static void providers_must_be_one(void **state)
{
    (void)state;
    strcpy(pair.ours.facts.provider, "tcp");
    expect("peer_provider", DOCTOR_WRONG, "decode-0 uses provider tcp, and prefill-0 uses verbs");
    assert_null(find("peer_rails", DOCTOR_OK, ""));
    pair.ours.facts.provider[0] = '\0';
    expect("peer_provider", DOCTOR_WRONG, "decode-0 has no rail of it");
}

static void unequal_numbers_and_links_that_are_down_are_said(void **state)
{
    (void)state;
    strcpy(pair.ours.facts.rails[2].provider, "verbs");
    pair.ours.facts.rails[2].traits = pair.ours.facts.rails[1].traits;
    expect("peer_rails", DOCTOR_WARNING, "decode-0 has 3 rails, and prefill-0 has 2");
    good_pair(NULL);
    pair.theirs.facts.rails[1].state = KVR_RAIL_DOWN;
    expect("peer_rails", DOCTOR_WARNING, "down at prefill-0: mlx5_1");
}

static void rails_without_a_partner_are_said(void **state)
{
    (void)state;
    strcpy(pair.theirs.facts.rails[1].traits.plane, "blue");
    judge();
    assert_int_equal(findings.wrong, 0);
    assert_int_equal(findings.warnings, 2); /* at either side */
    assert_non_null(find("peer_planes", DOCTOR_WARNING, "of decode-0: mlx5_1 (plane-1)"));
    assert_non_null(find("peer_planes", DOCTOR_WARNING, "of prefill-0: mlx5_1 (blue)"));
    strcpy(pair.theirs.facts.rails[0].traits.plane, "red");
    judge();
    assert_int_equal(findings.wrong, 2); /* none has any */
    for (int i = 0; i < 2; i++)
        pair.theirs.facts.rails[i].traits.plane[0] = '\0';
    expect("peer_planes", DOCTOR_ABSENT, "no plane or network is known at prefill-0");
}

/* This host has no labels, so that networks are compared; whatever the order of the cards. */
static void networks_are_compared_where_one_side_has_no_agent(void **state)
{
    struct kvr_rail_snapshot *rails = pair.ours.facts.rails, first = rails[0];

    (void)state;
    pair.ours.agent = false;
    strcpy(rails[0].traits.plane, "10.0.0.0/24");
    strcpy(rails[1].traits.plane, "10.1.0.0/24");
    first = rails[0];
    rails[0] = rails[1];
    rails[1] = first;
    rails[0].traits.link.mtu = pair.theirs.facts.rails[1].traits.link.mtu = 4200;
    expect("peer_planes", DOCTOR_OK, "every rail has a partner");
    strcpy(rails[0].traits.network, "10.9.0.0/24");
    judge();
    assert_non_null(find("peer_planes", DOCTOR_WARNING, "mlx5_1 (10.9.0.0/24)"));
}

static void partners_that_differ_are_said(void **state)
{
    struct kvr_rail_snapshot *rail = &pair.theirs.facts.rails[1];

    (void)state;
    rail->speed_bps = UINT64_C(100000000000);
    expect("peer_speed", DOCTOR_WARNING,
           "1 of 2 pairs of rails differ: mlx5_1 of decode-0 has 400 Gb/s, and mlx5_1 of "
           "prefill-0 has 100 Gb/s");
    rail_set(rail, 1);
    rail->traits.link.mtu = 1500;
    expect("peer_mtu", DOCTOR_WARNING, "has an MTU of 1500");
    rail_set(rail, 1);
    rail->traits.link.kind = KVR_LINK_ROCE_V1;
    expect("peer_link", DOCTOR_WRONG, "has roce-v2, and mlx5_1 of prefill-0 has roce-v1");
    rail_set(rail, 1);
    rail->traits.link.pfc = 0;
    expect("peer_pfc", DOCTOR_WARNING,
           "has PFC on priority 3, and mlx5_1 of prefill-0 has PFC on no priority");
    rail_set(rail, 1);
    rail->traits.link.ecn = 0x30;
    expect("peer_ecn", DOCTOR_WARNING, "has ECN on priority 4 5");
    rail_set(rail, 1);
    rail->traits.device_path = KVR_PATH_STAGED;
    expect("peer_gpudirect", DOCTOR_WARNING,
           "has GPUDirect (dmabuf), and mlx5_1 of prefill-0 has pages on GPUs staged");
}

static void partners_that_are_not_known_are_left_out(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct kvr_rail_snapshot *rail = &pair.theirs.facts.rails[i];

        rail->speed_bps = 0;
        rail->traits.link = (struct kvr_link){.mtu = 0};
        rail->traits.device_path = KVR_PATH_NONE;
    }
    for (const char *const *check =
             (const char *const[]){"peer_speed", "peer_mtu", "peer_link", "peer_pfc", "peer_ecn",
                                   "peer_gpudirect", NULL};
         *check != NULL; check++)
        expect(*check, DOCTOR_ABSENT, "no ");
}

static void roce_without_any_flow_control_is_a_risk(void **state)
{
    struct kvr_link *link = &pair.theirs.facts.rails[1].traits.link;

    (void)state;
    link->pfc = 0;
    link->ecn = 0;
    pair.ours.facts.rails[1].traits.link.pfc_known = false;
    pair.ours.facts.rails[1].traits.link.ecn_known = false;
    expect("peer_lossless", DOCTOR_WARNING, "prefill-0 without PFC and without ECN: mlx5_1");
    link->ecn_known = false;
    judge();
    assert_int_equal(findings.warnings, 0);
}

/* ---- what is not reported
 * ------------------------------------------------------------------------ */

static void what_an_older_agent_does_not_report_is_said(void **state)
{
    static const char *const checks[] = {"peer_libfabric", "peer_limits", "peer_clock",
                                         "peer_planes",    "peer_mtu",    "peer_link",
                                         "peer_pfc",       "peer_ecn",    "peer_gpudirect"};

    (void)state;
    memset(&pair.theirs.facts.traits, 0, sizeof(pair.theirs.facts.traits));
    for (int i = 0; i < 3; i++)
        memset(&pair.theirs.facts.rails[i].traits, 0, sizeof(pair.theirs.facts.rails[i].traits));
    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++)
        expect(checks[i], DOCTOR_ABSENT, "prefill-0: not reported by its version 0.2.0");
    pair.theirs.traits_shown = false;
    expect("peer_mtu", DOCTOR_ABSENT, "not reported: the scheduler is older");
    pair.theirs.traits_shown = true;
    pair.theirs.up = false;
    strcpy(pair.theirs.state, "lost");
    judge();
    assert_non_null(
        find("peer_mtu", DOCTOR_ABSENT, "not reported since the scheduler was started"));
}

#define CASE(name) cmocka_unit_test_setup(name, good_pair)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(two_good_hosts_have_every_check),
        CASE(agents_that_are_not_up_are_wrong),
        CASE(insecure_sides_are_said),
        CASE(the_older_version_is_to_be_updated_first),
        CASE(limits_of_agents_are_judged),
        CASE(clocks_are_compared),
        CASE(addresses_that_take_no_connection_are_wrong),
        CASE(ports_of_the_target_are_said),
        CASE(providers_must_be_one),
        CASE(unequal_numbers_and_links_that_are_down_are_said),
        CASE(rails_without_a_partner_are_said),
        CASE(networks_are_compared_where_one_side_has_no_agent),
        CASE(partners_that_differ_are_said),
        CASE(partners_that_are_not_known_are_left_out),
        CASE(roce_without_any_flow_control_is_a_risk),
        CASE(what_an_older_agent_does_not_report_is_said),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
