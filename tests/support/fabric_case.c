#include "tests/support/fabric_case.h"

#include "tests/support/check.h"

const char *case_provider;

struct party_answer case_do(struct party *party, int side, const struct party_command *command)
{
    struct party_answer answer = party_do(party, side, command);

    if (answer.status != KVR_OK)
        fail_msg("verb %d on side %d: %s %s (%u accepted, %u written, %u failed)", command->verb,
                 side, kvr_status_name(answer.status), answer.detail, answer.accepted,
                 answer.written, answer.failed);
    return answer;
}

struct party_answer case_tell(struct party *party, int side, party_verb verb)
{
    struct party_command command = {.verb = verb};

    return case_do(party, side, &command);
}

/* Both sides' memory: the source's filled with the pattern, the target's zeroed. */
static void prepare_for(struct party *party, int source, const struct party_command *post)
{
    struct party_command fill = *post;

    fill.verb = PARTY_FILL;
    case_do(party, source, &fill);
    case_tell(party, 1 - source, PARTY_CLEAR);
}

void case_prepare(struct party *party, int source, uint64_t seed)
{
    struct party_command all = {.seed = seed};

    prepare_for(party, source, &all);
}

void case_write(struct party *party, int source, const struct party_command *post)
{
    struct party_side *target = &party_shared(party)->sides[1 - source];
    struct party_command verify = *post;
    struct party_answer answer;

    prepare_for(party, source, post);
    target->expected = *post;
    target->check_arrivals = true;
    answer = case_do(party, source, post);
    assert_int_equal(answer.accepted, post->count);
    assert_int_equal(answer.written, post->count);
    assert_true(party_wait(party, &target->arrived, post->count, 5000));
    target->check_arrivals = false;
    assert_int_equal(target->arrived, post->count);
    assert_int_equal(target->repeated, 0);
    assert_int_equal(target->wrong, 0);
    verify.verb = PARTY_VERIFY;
    assert_int_equal(case_do(party, 1 - source, &verify).value, 0);
}

struct party_command case_post(uint32_t count, uint32_t bytes, uint32_t pieces, uint64_t seed)
{
    return (struct party_command){.verb = PARTY_POST,
                                  .rail = UINT32_MAX,
                                  .count = count,
                                  .bytes = bytes,
                                  .pieces = pieces,
                                  .seed = seed};
}

const struct kvr_rail_facts *case_facts(struct party *party)
{
    struct kvr_fabric fabric;

    kvr_fabric_of(case_provider, &fabric);
    return fabric.ops->rail_facts(party_rail(party, 0));
}

void case_renew(struct party *party, int first)
{
    struct party_command post = case_post(500, 2048, 1, 77);

    case_tell(party, first, PARTY_RECYCLE);
    case_tell(party, 1 - first, PARTY_RECYCLE);
    case_tell(party, 0, PARTY_CONNECT);
    case_tell(party, 1, PARTY_CONNECT);
    case_write(party, first, &post);
    case_write(party, 1 - first, &post);
}

void case_stream(struct party *party, int source, uint32_t bytes, bool on)
{
    struct party_command command = case_post(on, bytes, 1, 1);

    command.verb = PARTY_STREAM;
    case_do(party, source, &command);
}
