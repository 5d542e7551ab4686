/* Goal: where the granted rails reach no peer, another group of the source carries on with the
 * rails that the target grants instead. Nothing is free before both groups have ended their work.
 * Method: outbound alone, with two rail groups. The test plays the engine, the peers and the group
 * threads. */
#include "tests/support/check.h"

#include "tests/support/outbound_case.h"
#include "wire/revocation_words.h"

static const struct kvr_rail_groups two = {.count = 2, .first = {0, 1, 2}};

/* The first group can post nothing more of the transfer; the target was asked for rails. The first
 * trial of the pairs is long over. */
static void lose_the_group(bool failover)
{
    outbound_begin(&two, failover);
    tick(SILENCE);
    publish_for(1);
    publish_all();
    want(0, NONCE);
    grant(0, NONCE);
    assert_int_equal(machine_command(PUSH_OPEN)->head.group, 0);
    group_says(PUSH_NO_RAIL, 0, NULL);
    assert_int_equal(machine_sent_count(KVR_MSG_NO_RAIL), 0);
    tick(SILENCE / 2);
    assert_int_equal(machine_sent_count(KVR_MSG_NO_RAIL), 1);
}

/* The rail thread gives the job to its successor. */
static struct push_job *failed_over(void)
{
    struct push_failover *failover = push_commanded(PUSH_FAILOVER).failover;
    struct push_job *job = push_commanded(PUSH_OPEN).opened;

    *failover->successor = *job;
    failover->successor->target = failover->target;
    failover->successor->target_rails = failover->target_rails;
    group_says(PUSH_FAILED_OVER, 0, failover);
    return job;
}

static void another_group_carries_on(void **state)
{
    struct kvr_message missing = {.kind = KVR_MSG_MISSING, .transfer = NONCE};
    const struct kvr_chunk_run run = {0, 1};
    struct push_job *before;

    (void)state;
    lose_the_group(true);
    grant_rails(0, NONCE, 1);
    assert_int_equal(machine_log.registered, 1); /* its regions, with the rails of the other */
    assert_int_equal(machine_log.registered_group, 1);
    assert_int_equal(machine_command_count(PUSH_FAILOVER), 0);
    outbound_registered(&outbound, now, machine_log.registered_id, KVR_OK);
    assert_int_equal(machine_command(PUSH_FAILOVER)->head.group, 0);
    missing.missing.round = 1;
    missing.missing.runs = &run;
    missing.missing.run_count = 1;
    outbound_message(&outbound, now, 0, &missing);
    assert_int_equal(machine_command_count(PUSH_RETRANSMIT), 0); /* neither group has the job now */
    before = failed_over();
    assert_int_equal(machine_command(PUSH_OPEN)->head.group, 1);
    assert_int_equal(push_commanded(PUSH_OPEN).opened->target_rails, 2);
    assert_int_equal(machine_command(PUSH_RETRANSMIT)->head.group, 1);
    assert_int_equal(machine_command_count(PUSH_LIST), 1); /* lists chunks that may be lost */
    tick(2 * SILENCE);
    assert_int_equal(machine_sent_count(KVR_MSG_FAIL), 0);

    message(0, NONCE, KVR_MSG_LANDED, KVR_OK);
    group_says(PUSH_STOPPED, 0, NULL);
    group_closes();
    assert_null(freed()); /* cards of the first group may still read the pages */
    before->first = NULL;
    group_says(PUSH_CLOSED, 0, before);
    assert_int_equal(freed()->status, KVR_OK);
}

/* One transfer has waited for the group to recover. Later ones ask for other rails at once, until
 * one succeeds. */
static void the_next_asks_at_once(void **state)
{
    (void)state;
    lose_the_group(true);
    for (uint64_t i = 1; i <= 2; i++) {
        if (i == 2)
            group_says(PUSH_POSTED, 0, NULL);
        message(0, NONCE + i - 1, i == 1 ? KVR_MSG_CANCEL : KVR_MSG_LANDED,
                i == 1 ? KVR_CANCELLED : KVR_OK);
        group_says(PUSH_STOPPED, 0, NULL);
        group_closes();
        machine_log_clear();
        publish_for(1);
        publish_all();
        want(0, NONCE + i);
        grant(0, NONCE + i);
        assert_int_equal(machine_command(PUSH_OPEN)->head.group, 0);
        group_says(PUSH_NO_RAIL, 0, NULL);
        assert_int_equal(machine_sent_count(KVR_MSG_NO_RAIL), i == 1 ? 1 : 0);
    }
    tick(SILENCE / 2);
    assert_int_equal(machine_sent_count(KVR_MSG_NO_RAIL), 1);
}

/* A transfer that cannot be registered there stays, and goes on with the rails that the target
 * names. */
static void the_same_group_takes_other_rails(void **state)
{
    const struct push_failover *failover;

    (void)state;
    lose_the_group(true);
    grant_rails(0, NONCE, 1);
    outbound_registered(&outbound, now, machine_log.registered_id, KVR_NO_MEMORY);
    failover = push_commanded(PUSH_FAILOVER).failover;
    assert_null(failover->successor);
    assert_int_equal(failover->target_rails, 2);
}

/* Then the successor posts nothing. */
static void a_stop_waits_for_the_heir(void **state)
{
    const struct kvr_group_message *last;

    (void)state;
    lose_the_group(true);
    grant_rails(0, NONCE, 1);
    outbound_registered(&outbound, now, machine_log.registered_id, KVR_OK);
    message(0, NONCE, KVR_MSG_CANCEL, KVR_CANCELLED);
    assert_int_equal(machine_command_count(PUSH_STOP), 0);
    (void)failed_over();
    last = machine_command(PUSH_STOP);
    assert_int_equal(last->head.group, 1);
    assert_int_equal(last[-1].head.kind, PUSH_OPEN); /* nothing between them starts it */
    assert_int_equal(push_message_of(&last[-1]).opened->state, PUSH_JOB_AWAITING_STOP);
    assert_int_equal(machine_command_count(PUSH_LIST), 0);
}

/* Before the group gets the target's other rails. */
static void a_stop_does_not_wait_for_other_rails(void **state)
{
    (void)state;
    lose_the_group(true);
    grant_rails(0, NONCE, 1);
    outbound_registered(&outbound, now, machine_log.registered_id, KVR_NO_MEMORY);
    assert_int_equal(machine_command_count(PUSH_FAILOVER), 1);
    message(0, NONCE, KVR_MSG_CANCEL, KVR_CANCELLED);
    assert_int_equal(machine_command_count(PUSH_STOP), 1);
    group_says(PUSH_FAILED_OVER, 0, push_commanded(PUSH_FAILOVER).failover);
    assert_int_equal(machine_command_count(PUSH_STOP), 1);
}

/* The rail thread may post to that epoch after the failover, before it has the rail's successor. */
static void an_epoch_that_ends_during_a_failover_is_listed(void **state)
{
    struct kvr_message ended = {
        .kind = KVR_MSG_EPOCH_ENDED,
        .epoch_ended = {.rail = 1, .epoch = 1, .successor = {.rail = 1, .epoch = 2, .bytes = 1}}};
    unsigned named = 0;

    (void)state;
    lose_the_group(true);
    grant_rails(0, NONCE, 1);
    outbound_registered(&outbound, now, machine_log.registered_id, KVR_NO_MEMORY);
    assert_int_equal(machine_command_count(PUSH_FAILOVER), 1);
    outbound_message(&outbound, now, 0, &ended);
    assert_int_equal(machine_command_count(PUSH_LIST), 0);
    group_says(PUSH_FAILED_OVER, 0, push_commanded(PUSH_FAILOVER).failover);
    for (uint32_t i = 0; i < machine_log.command_count; i++) {
        const union push_message command = push_message_of(&machine_log.commands[i]);

        if (command.head.kind == PUSH_LIST)
            named += command.list->target_rail == 1 && command.list->epoch == 1;
    }
    assert_int_equal(named, 1);
    assert_int_equal(machine_command_count(PUSH_LIST), 2); /* and all that was posted before */
}

/* A card and a rail for this host, on which the target copies. */
static void open_mixed(bool registered)
{
    static const struct kvr_rail_groups mixed = {.count = 1, .first = {0, 2}, .same_host = 2};
    static struct kvr_ports ports;
    static int registration;
    struct kvr_region *region;

    outbound_begin(&mixed, true);
    ports = machine_ports;
    ports.revocation_words = machine_words;
    outbound.ports = &ports;
    region = outbound.engines.local[0].set->locals[0];
    region->memory[0] = (struct kvr_memory *)&registration;
    region->memory[1] = registered ? region->memory[0] : NULL;
    publish_for(1);
    publish_all();
    want(0, NONCE);
}

static const struct push_job *job_opened(void)
{
    return push_commanded(PUSH_OPEN).opened;
}

static void what_neighbours_can_copy_is_lent(void **state)
{
    (void)state;
    open_mixed(true);
    assert_int_not_equal(machine_sent(KVR_MSG_PLAN)->plan.revocation_word, 0);
    grant_rails(0, NONCE, 1);
    assert_int_equal(job_opened()->target_rails, 2);
    assert_true(kvr_revocation_word_holds(job_opened()->revocation_word, NONCE));
}

/* The target may choose its cards; then nothing is lent. */
static void what_cards_read_is_not_lent(void **state)
{
    (void)state;
    open_mixed(true);
    grant_rails(0, NONCE, 0);
    assert_int_equal(job_opened()->target_rails, 1);
    assert_null(job_opened()->revocation_word);
}

/* Nor are pages that both kinds of rails may carry. */
static void what_both_may_carry_is_not_lent(void **state)
{
    static const uint16_t slot = 3;
    const struct kvr_rail_address rails[] = {{.rail = 0, .epoch = 1}, {.rail = 1, .epoch = 1}};
    struct kvr_message message = {.kind = KVR_MSG_GRANT, .transfer = NONCE};

    (void)state;
    open_mixed(true);
    message.grant.slots = &slot;
    message.grant.slot_count = message.grant.tag = 1;
    message.grant.rails = rails;
    message.grant.rail_count = 2;
    outbound_message(&outbound, now, 0, &message);
    assert_int_equal(job_opened()->target_rails, 1);
    assert_null(job_opened()->revocation_word);
}

static void what_is_not_registered_is_not_lent(void **state)
{
    (void)state;
    open_mixed(false);
    assert_int_equal(machine_sent(KVR_MSG_PLAN)->plan.revocation_word, 0);
    grant_rails(0, NONCE, 1); /* the same rails */
    assert_int_equal(job_opened()->target_rails, 0);
}

/* Without another group, and without permission to use one. */
static void cards_carry_on_for_a_neighbour(void **state)
{
    const struct push_failover *failover;

    (void)state;
    open_mixed(true);
    outbound.options.failover = false;
    grant_rails(0, NONCE, 1);
    group_says(PUSH_NO_RAIL, 0, NULL);
    tick(SILENCE / 2);
    assert_int_equal(machine_sent_count(KVR_MSG_NO_RAIL), 1);
    grant_rails(0, NONCE, 0);
    failover = push_commanded(PUSH_FAILOVER).failover;
    assert_null(failover->successor);
    assert_int_equal(failover->target_rails, 1);
    group_says(PUSH_FAILED_OVER, 0, push_commanded(PUSH_FAILOVER).failover);
    assert_int_equal(machine_command_count(PUSH_LIST), 1);
    group_says(PUSH_NO_RAIL, 0, NULL);
    tick(SILENCE / 2);
    assert_int_equal(machine_sent_count(KVR_MSG_NO_RAIL), 1); /* there is nothing else to ask for */
}

static void without_failover_it_says_so(void **state)
{
    (void)state;
    lose_the_group(false);
    grant(0, NONCE); /* the target has no other rails either */
    assert_int_equal(machine_log.registered, 0);
    assert_int_equal(machine_command_count(PUSH_FAILOVER), 0);
    tick(SILENCE);
    assert_int_equal(machine_sent(KVR_MSG_FAIL)->reason.status, KVR_NO_RAIL);
    assert_non_null(strstr(machine_sent(KVR_MSG_FAIL)->reason.detail, "between group 0"));
    assert_non_null(strstr(machine_sent(KVR_MSG_FAIL)->reason.detail, "--group-failover is off"));
}

/* The grant was not requested. */
static void a_second_grant_changes_nothing(void **state)
{
    (void)state;
    outbound_begin(&two, true);
    publish_for(1);
    publish_all();
    want(0, NONCE);
    grant(0, NONCE);
    grant_rails(0, NONCE, 1);
    assert_int_equal(machine_log.registered, 0);
    assert_int_equal(machine_command_count(PUSH_FAILOVER), 0);
}

static void lose_all_pairs(void)
{
    want(0, NONCE);
    grant(0, NONCE);
    group_says(PUSH_NO_RAIL, 0, NULL);
}

/* A fetch that comes with the session fails when the first trial ends. One that comes just before
 * that end waits a little longer. One that comes later waits for a trial of its own. */
static void first_fetches_fail_with_the_first_trial(void **state)
{
    const kvr_ns end = kvr_group_trial(SILENCE) + SILENCE / 12;
    static const kvr_ns after[] = {0, SILENCE / 3, 2, 0};
    kvr_ns last;

    for (unsigned i = 0; i < 4; i++) {
        (void)open_outbound(state);
        publish_for(1);
        publish_all();
        outbound.peers[0].up_at = now;
        tick(i < 2 ? after[i] : i == 2 ? end - after[i] : end);
        last = i < 2 ? end - after[i] : i == 2 ? SILENCE / 6 : kvr_group_soon(SILENCE);
        lose_all_pairs();
        tick(last - 1);
        assert_int_equal(machine_sent_count(KVR_MSG_FAIL), 0);
        tick(1);
        assert_int_equal(machine_sent(KVR_MSG_FAIL)->reason.status, KVR_NO_RAIL);
    }
}

/* That pair showed that the peer can be reached. Losing it again is no first trial. */
static void a_pair_that_came_back_ends_the_first_trial(void **state)
{
    (void)open_outbound(state);
    publish_for(1);
    publish_all();
    outbound.peers[0].up_at = now;
    lose_all_pairs();
    group_says(PUSH_RAIL_BACK, 0, NULL);
    group_says(PUSH_NO_RAIL, 0, NULL);
    tick(SILENCE + SILENCE / 4 - 1);
    assert_int_equal(machine_sent_count(KVR_MSG_FAIL), 0);
    tick(1);
    assert_int_equal(machine_sent(KVR_MSG_FAIL)->reason.status, KVR_NO_RAIL);
}

/* Nothing is lost by that: the other groups were tried at the same time. */
static void in_the_first_trial_others_are_asked_at_once(void **state)
{
    (void)state;
    outbound_begin(&two, true);
    publish_for(1);
    publish_all();
    outbound.peers[0].up_at = now;
    lose_all_pairs();
    assert_int_equal(machine_sent_count(KVR_MSG_NO_RAIL), 1);
}

/* Nothing has ever come through: a fetch hears that soon. */
static void without_a_rail_it_fails_soon(void **state)
{
    struct kvr_group_message broken = {
        .head.kind = KVR_GROUP_PAIR_BROKEN,
        .pair_broken = {.peer = 0, .status = KVR_TIMED_OUT, .pair = {1, 2, 1}}};

    (void)open_outbound(state);
    publish_for(1);
    publish_all();
    want(0, NONCE);
    grant(0, NONCE);
    tick(SILENCE);
    outbound_group(&outbound, now, &broken);
    group_says(PUSH_NO_RAIL, 0, NULL);
    tick(kvr_group_soon(SILENCE) - 1);
    assert_int_equal(machine_sent_count(KVR_MSG_FAIL), 0);
    tick(1);
    assert_int_equal(machine_sent(KVR_MSG_FAIL)->reason.status, KVR_NO_RAIL);
    assert_string_equal(
        machine_sent(KVR_MSG_FAIL)->reason.detail,
        "every pair of rails between the two agents is broken; the last, our rail 1 "
        "to its rail 2: nothing comes through, and no error either");
}

/* Pages have come through before: the network may have broken for a moment. */
static void without_a_rail_it_fails_after_a_while(void **state)
{
    (void)open_outbound(state);
    publish_for(1);
    publish_all();
    want(0, NONCE);
    grant(0, NONCE);
    outbound.peers[0].lost[0].reached = true;
    group_says(PUSH_NO_RAIL, 0, NULL);
    group_says(PUSH_RAIL_BACK, 0, NULL);
    tick(2 * SILENCE);
    assert_int_equal(machine_sent_count(KVR_MSG_FAIL), 0);
    group_says(PUSH_NO_RAIL, 0, NULL);
    tick(SILENCE); /* a peer that died with its rails is declared dead, by its silence */
    assert_int_equal(machine_sent_count(KVR_MSG_FAIL), 0);
    tick(SILENCE / 4);
    assert_int_equal(machine_sent(KVR_MSG_FAIL)->reason.status, KVR_NO_RAIL);
}

/* Pages have come through before. Then the pairs were silent for the whole bound, and a fetch waits
 * for a rail. Returns the begin of the silence. */
static kvr_ns lose_a_peer_that_was_reached(void)
{
    kvr_ns silent_from;

    outbound_begin(&(struct kvr_rail_groups){0}, false);
    silent_from = now;
    tick(SILENCE);
    publish_for(1);
    publish_all();
    want(0, NONCE);
    grant(0, NONCE);
    outbound.peers[0].lost[0].reached = true;
    group_says(PUSH_NO_RAIL, silent_from, NULL);
    return silent_from;
}

/* The fresh endpoints that it waits for have time to connect, and no second bound. */
static void the_wait_counts_from_the_last_answer(void **state)
{
    (void)state;
    (void)lose_a_peer_that_was_reached();
    tick(kvr_group_soon(SILENCE) - 1);
    assert_int_equal(machine_sent_count(KVR_MSG_FAIL), 0);
    tick(1);
    assert_int_equal(machine_sent(KVR_MSG_FAIL)->reason.status, KVR_NO_RAIL);
}

/* However long its rail took to be replaced. Replaced again, it is no news. */
static void a_fresh_endpoint_has_its_trial(void **state)
{
    const kvr_ns soon = kvr_group_soon(SILENCE), late = soon / 5;
    struct kvr_group_message message = {.head.kind = KVR_GROUP_RECYCLED,
                                        .recycled = {.ended = 1, .epoch = 2}};

    (void)state;
    (void)lose_a_peer_that_was_reached();
    tick(late);
    outbound_group(&outbound, now, &message);
    tick(late);
    outbound_group(&outbound, now, &message);
    tick(soon - late - 1);
    assert_int_equal(machine_sent_count(KVR_MSG_FAIL), 0);
    tick(1);
    assert_int_equal(machine_sent(KVR_MSG_FAIL)->reason.status, KVR_NO_RAIL);
}

/* Its trial began before NO_RAIL: the peer's rail was replaced, say. It gets a fresh endpoint once
 * more, for later fetches. Where another pair of the rail broke before, that one had no trial. */
static void a_trial_that_is_over_is_not_waited_for_again(void **state)
{
    const kvr_ns soon = kvr_group_soon(SILENCE), early = soon / 5;
    struct kvr_group_message recycled = {.head.kind = KVR_GROUP_RECYCLED,
                                         .recycled = {.ended = 1, .epoch = 2}},
                             broken = {.head.kind = KVR_GROUP_PAIR_BROKEN,
                                       .pair_broken = {.status = KVR_TIMED_OUT, .fresh = true}};

    (void)state;
    for (unsigned earlier = 0; earlier < 2; earlier++) {
        (void)lose_a_peer_that_was_reached();
        outbound.peers[0].repair_at[0] = earlier > 0 ? now + SILENCE : KVR_NEVER;
        tick(early);
        outbound_group(&outbound, now, &broken);
        tick(SILENCE / 4);
        assert_int_equal(machine_command_count(KVR_GROUP_RECYCLE), 1);
        outbound_group(&outbound, now, &recycled);
        tick(soon - early - SILENCE / 4);
        assert_int_equal(machine_sent_count(KVR_MSG_FAIL), earlier > 0 ? 0 : 1);
    }
}

/* The target had every page. That says nothing of the pairs, for which another fetch waits. */
static void what_moved_no_page_proves_no_pair(void **state)
{
    const struct outbound_lost *lost = &outbound.peers[0].lost[0];
    kvr_ns from;

    (void)state;
    from = lose_a_peer_that_was_reached();
    assert_int_equal(lost->from, from);
    message(0, NONCE, KVR_MSG_LANDED, KVR_OK);
    assert_int_equal(lost->from, from);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_group_carries_on),
        cmocka_unit_test(the_next_asks_at_once),
        cmocka_unit_test(the_same_group_takes_other_rails),
        cmocka_unit_test(a_stop_waits_for_the_heir),
        cmocka_unit_test(a_stop_does_not_wait_for_other_rails),
        cmocka_unit_test(an_epoch_that_ends_during_a_failover_is_listed),
        cmocka_unit_test(what_neighbours_can_copy_is_lent),
        cmocka_unit_test(what_cards_read_is_not_lent),
        cmocka_unit_test(what_both_may_carry_is_not_lent),
        cmocka_unit_test(what_is_not_registered_is_not_lent),
        cmocka_unit_test(cards_carry_on_for_a_neighbour),
        cmocka_unit_test(without_failover_it_says_so),
        cmocka_unit_test(a_second_grant_changes_nothing),
        cmocka_unit_test(first_fetches_fail_with_the_first_trial),
        cmocka_unit_test(a_pair_that_came_back_ends_the_first_trial),
        cmocka_unit_test(in_the_first_trial_others_are_asked_at_once),
        cmocka_unit_test(without_a_rail_it_fails_soon),
        cmocka_unit_test(without_a_rail_it_fails_after_a_while),
        cmocka_unit_test(the_wait_counts_from_the_last_answer),
        cmocka_unit_test(a_fresh_endpoint_has_its_trial),
        cmocka_unit_test(a_trial_that_is_over_is_not_waited_for_again),
        cmocka_unit_test(what_moved_no_page_proves_no_pair),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
