/* Goal: a source that cannot give the requested bytes reports which field differs, and both values.
 * The report goes to the target, into the source's own record, and to the source's engine: by an
 * event, by why, and at the end of the publish when no other target came. Method: outbound alone,
 * with a record of its port's calls; the target's engine differs in one field after the other. */
#include "tests/support/check.h"

#include <stdio.h>

#include "base/text.h"
#include "prefill-agent/publish.h"
#include "tests/support/outbound_case.h"

static struct kvr_event last_event;
static struct kvr_ports ports;

static void keep_event(void *self, const struct kvr_event *event)
{
    (void)self;
    last_event = *event;
}

static int open_reported(void **state)
{
    open_outbound(state);
    ports = machine_ports;
    ports.events.emit = keep_event;
    outbound.ports = &ports;
    memset(&last_event, 0, sizeof(last_event));
    return 0;
}

/* Each place gets the sentence once; the publish stays unchanged. */
static void refuse(uint64_t nonce, const char *sentence)
{
    uint32_t told = machine_notice_count(KVR_NOTICE_TARGET_REFUSED);
    const struct kvr_notice *notice;
    char json[4096], expected[512], quoted[256];

    want(0, nonce);
    assert_int_equal(machine_sent(KVR_MSG_FAIL)->transfer, nonce);
    assert_int_equal(machine_sent(KVR_MSG_FAIL)->reason.status, KVR_INCOMPATIBLE);
    assert_string_equal(machine_sent(KVR_MSG_FAIL)->reason.detail, sentence);
    assert_int_equal(last_event.kind, KVR_EVENT_ENDED);
    assert_int_equal(last_event.transfer, nonce);
    assert_int_equal(last_event.outcome, KVR_INCOMPATIBLE);
    assert_string_equal(last_event.detail, sentence);
    assert_int_equal(machine_notice_count(KVR_NOTICE_TARGET_REFUSED), told + 1);
    notice = machine_notice(KVR_NOTICE_TARGET_REFUSED);
    assert_int_equal(notice->handle, HANDLE);
    assert_int_equal(notice->status, KVR_INCOMPATIBLE);
    assert_string_equal(notice->agent, "d0");
    assert_string_equal(notice->detail, sentence);
    outbound_why(&outbound, 0, HANDLE, json, sizeof(json));
    snprintf(expected, sizeof(expected),
             "\"refused\":{\"count\":%u,\"agent\":\"d0\",\"reason\":\"incompatible\",\"detail\":"
             "\"%s\"}}",
             told + 1, kvr_text_json(sentence, quoted, sizeof(quoted)));
    if (strstr(json, expected) == NULL)
        fail_msg("%s is not in %s", expected, json);
    assert_null(freed());
    assert_int_equal(machine_notice_count(KVR_NOTICE_ACCEPTED), 0);
}

static void every_field_is_named_to_both_sides(void **state)
{
    struct kvr_remote_engine *remote = &outbound.engines.remote[0];
    const struct kvr_compat fits = remote->compat;

    (void)state;
    publish_for(1);
    strcpy(remote->compat.model, "another");
    refuse(NONCE, "model: the source has \"small\", the target has \"another\"");
    remote->compat = fits;
    strcpy(remote->compat.dtype, "f16");
    refuse(NONCE + 1, "dtype: the source has \"u8\", the target has \"f16\"");
    remote->compat = fits;
    remote->compat.layers_total++;
    refuse(NONCE + 2, "num layers: the source has 2, the target has 3");
    remote->compat = fits;
    remote->compat.kv_heads_total = 4;
    refuse(NONCE + 3, "num kv heads: the source has 1, the target has 4");
    remote->compat = fits;
    remote->compat.head_dim = 64;
    refuse(NONCE + 4, "head dim: the source has 4096, the target has 64");
    remote->compat = fits;
    remote->set->layouts[0].head_bytes /=
        2; /* all required fields are equal, but no plan is possible */
    refuse(NONCE + 5, "head_bytes: the source has 4096, the target has 2048 (layer 0 KV)");
}

/* A target that fits is served. Repeated refusals are counted, and not reported any more. */
static void others_are_served_and_the_rest_is_counted(void **state)
{
    struct kvr_remote_engine *remote = &outbound.engines.remote[0];
    char json[4096];

    (void)state;
    publish_for(1);
    remote->compat.head_dim = 64;
    for (uint32_t i = 0; i < 2 * PUBLISH_REFUSALS_SENT; i++)
        want(0, NONCE + i);
    assert_int_equal(machine_notice_count(KVR_NOTICE_TARGET_REFUSED), PUBLISH_REFUSALS_SENT);
    outbound_why(&outbound, 0, HANDLE, json, sizeof(json));
    assert_non_null(strstr(json, "\"refused\":{\"count\":16,"));
    want(1, NONCE + 100);
    assert_int_equal(machine_notice_count(KVR_NOTICE_ACCEPTED), 1);
}

/* An engine that looks only at the end learns of the refusal there. */
static void the_end_of_the_lease_says_who_was_refused(void **state)
{
    char json[4096];

    (void)state;
    publish_for(1);
    outbound.engines.remote[0].compat.head_dim = 64;
    want(0, NONCE);
    tick(LEASE);
    assert_int_equal(freed()->status, KVR_EXPIRED);
    assert_string_equal(freed()->detail,
                        "its lease ended before every consumer had come; d0 asked and was refused: "
                        "head dim: the source has 4096, the target has 64");
    outbound_why(&outbound, 0, HANDLE, json, sizeof(json));
    assert_non_null(strstr(json, "head dim: the source has 4096, the target has 64"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(every_field_is_named_to_both_sides, open_reported),
        cmocka_unit_test_setup(others_are_served_and_the_rest_is_counted, open_reported),
        cmocka_unit_test_setup(the_end_of_the_lease_says_who_was_refused, open_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
