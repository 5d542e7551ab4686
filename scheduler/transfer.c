#include "scheduler/transfer.h"

#include <stdio.h>
#include <xxhash.h>

#include "base/plain_name.h"

static const kvr_event_kind stage_kinds[] = {TRANSFER_STAGE_LIST(KVR_NAME)};

static const struct {
    const char *name;
    bool live;
} states[] = {TRANSFER_STATE_LIST(KVR_ROW)};

/* The state of a live transfer after a stage. */
static const transfer_state stage_states[] = {
    [STAGE_OPENED] = STATE_OPENED,         [STAGE_MATCHED] = STATE_MATCHED,
    [STAGE_GRANTED] = STATE_GRANTED,       [STAGE_FIRST_READY] = STATE_FIRST_READY,
    [STAGE_LAST_READY] = STATE_LAST_READY, [STAGE_FIRST_POST] = STATE_FIRST_POST,
    [STAGE_LAST_POST] = STATE_LAST_POST,   [STAGE_FIRST_LAND] = STATE_FIRST_LAND,
    [STAGE_LAST_LAND] = STATE_LAST_LAND,   [STAGE_FAILING] = STATE_FAILING,
};

const char *transfer_stage_name(transfer_stage stage)
{
    return kvr_event_name(stage_kinds[stage]);
}

const char *transfer_state_name(transfer_state state)
{
    return states[state].name;
}

bool transfer_state_live(transfer_state state)
{
    return states[state].live;
}

bool transfer_state_from_name(const char *name, transfer_state *ret_state)
{
    for (int state = 0; state < STATE_END; state++) {
        if (strcmp(states[state].name, name) == 0) {
            *ret_state = (transfer_state)state;
            return true;
        }
    }
    return false;
}

const char *transfer_role_name(kvr_role role)
{
    return role == KVR_ROLE_SOURCE ? "source" : "target";
}

static bool stage_of(kvr_event_kind kind, transfer_stage *ret_stage)
{
    for (int stage = 0; stage < STAGE_END; stage++) {
        if (stage_kinds[stage] == kind) {
            *ret_stage = (transfer_stage)stage;
            return true;
        }
    }
    return false; /* RETRY, or a kind of a newer agent */
}

static transfer_state state_of_outcome(kvr_status outcome)
{
    if (outcome == KVR_OK)
        return STATE_DONE;
    if (outcome == KVR_CANCELLED)
        return STATE_CANCELLED;
    return outcome == KVR_EXPIRED ? STATE_EXPIRED : STATE_FAILED;
}

static transfer_state furthest(const struct transfer *transfer)
{
    transfer_state state = STATE_OPENED;

    for (int role = 0; role < 2; role++)
        for (int stage = 0; stage < STAGE_ENDED; stage++)
            if (transfer->sides[role].at_ns[stage] != 0 && stage_states[stage] > state)
                state = stage_states[stage];
    return state;
}

/* The target's end counts. Until it is known, the source's end does: a source ends with KVR_OK only
 * after the target's LANDED. */
static void derive(struct transfer *transfer)
{
    const struct transfer_side *source = &transfer->sides[KVR_ROLE_SOURCE];
    const struct transfer_side *target = &transfer->sides[KVR_ROLE_TARGET];
    const struct transfer_side *speaker = target->ended ? target : source;
    bool source_gone = source->lost || source->boot == 0;
    bool target_gone = target->lost || target->boot == 0;

    transfer->reason = KVR_OK;
    if (speaker->ended) {
        transfer->state = state_of_outcome(speaker->outcome);
        transfer->reason = speaker->outcome;
    } else if (source_gone && target_gone) {
        transfer->state = STATE_LOST;
        transfer->reason = KVR_AGENT_LOST;
    } else {
        transfer->state = furthest(transfer);
    }
}

uint64_t transfer_opening_id(const char *agent, uint64_t boot, const struct kvr_event *event)
{
    bool source = event->role == KVR_ROLE_SOURCE;
    const struct kvr_uuid *engine = source ? &event->source_engine : &event->target_engine;
    const struct kvr_place *rank = source ? &event->source_rank : &event->target_rank;
    char key[2 * KVR_NAME_BYTES + KVR_REQUEST_BYTES + 96];
    int length = snprintf(key, sizeof(key), "%s\n%016llx\n%d\n%u\n%u\n%u\n%s\n%s", agent,
                          (unsigned long long)boot, (int)event->role, rank->tp, rank->pp,
                          event->attempt, event->tenant, event->request);

    return XXH64(key, (size_t)length, XXH64(engine->bytes, sizeof(engine->bytes), 0)) |
           1; /* never 0 */
}

bool transfer_take_opening(struct transfer *transfer, kvr_role role, const struct transfer *opening)
{
    struct transfer_side *side = &transfer->sides[role];
    const struct transfer_side *opened = &opening->sides[role];

    if (opened->at_ns[STAGE_OPENED] != 0) {
        side->at_ns[STAGE_OPENED] = opened->at_ns[STAGE_OPENED];
        side->at_ns[STAGE_FIRST_READY] = opened->at_ns[STAGE_FIRST_READY];
        side->at_ns[STAGE_LAST_READY] = opened->at_ns[STAGE_LAST_READY];
    }
    return !opened->ended;
}

static void merge_amounts(struct transfer *transfer, const struct kvr_event *event)
{
#define LARGER(field)                                                                              \
    do {                                                                                           \
        if (event->field > transfer->field)                                                        \
            transfer->field = event->field;                                                        \
    } while (0)
    LARGER(tokens);
    LARGER(skip_tokens);
    LARGER(bytes);
    LARGER(layers);
    LARGER(chunks);
    LARGER(retries);
    LARGER(pieces);
    LARGER(fragment_bytes);
#undef LARGER
    if (event->role == KVR_ROLE_SOURCE && event->fragment_bytes != 0) {
        transfer->fragments_staged = event->fragments_staged;
        transfer->fragments_direct = event->fragments_direct;
        transfer->fragments_copied = event->fragments_copied;
    }
    if (event->role == KVR_ROLE_SOURCE && event->limits.bytes != 0)
        transfer->limits = event->limits;
}

static void rename_tenant(struct transfer *transfer, const char *tenant)
{
    if (strcmp(transfer->tenant, tenant) == 0)
        return;
    transfer->renamed = true;
    snprintf(transfer->tenant, sizeof(transfer->tenant), "%s", tenant);
}

static void merge_identity(struct transfer *transfer, const struct kvr_event *event)
{
    static const struct kvr_uuid none;

    if (transfer->request[0] == '\0' && event->request[0] != '\0') {
        memcpy(transfer->request, event->request, sizeof(transfer->request));
        transfer->attempt = event->attempt;
        transfer->renamed = true;
    }
    if (event->tenant[0] != '\0')
        rename_tenant(transfer, event->tenant);
    else if (transfer->tenant[0] == '\0')
        rename_tenant(transfer, KVR_TENANT_DEFAULT);
    if (!kvr_uuid_equal(&event->source_engine, &none))
        transfer->source_engine = event->source_engine, transfer->source_rank = event->source_rank;
    if (!kvr_uuid_equal(&event->target_engine, &none))
        transfer->target_engine = event->target_engine, transfer->target_rank = event->target_rank;
}

static void merge_side(struct transfer_side *side, const struct kvr_event *event, int64_t at_ns)
{
    transfer_stage stage;

    side->rails |= event->rails;
    if (event->path > side->path)
        side->path = event->path;
    if (side->lost) { /* it was only out of reach */
        side->lost = false;
        side->detail[0] = '\0';
    }
    if (!stage_of(event->kind, &stage))
        return;
    if (side->at_ns[stage] == 0)
        side->at_ns[stage] = at_ns;
    if (stage != STAGE_ENDED && stage != STAGE_FAILING)
        return;
    if (event->detail[0] != '\0')
        memcpy(side->detail, event->detail, sizeof(side->detail));
    if (stage == STAGE_ENDED) {
        side->ended = true;
        side->outcome = event->outcome;
    }
}

void transfer_merge(struct transfer *transfer, const char *agent, uint64_t boot,
                    const struct kvr_event *event, int64_t at_ns)
{
    struct transfer_side *side = &transfer->sides[event->role];
    struct transfer_side *other = &transfer->sides[1 - (int)event->role];

    if (strcmp(side->agent, agent) != 0)
        snprintf(side->agent, sizeof(side->agent), "%s", agent);
    side->boot = boot;
    if (other->boot == 0 && event->peer[0] != '\0')
        memcpy(other->agent, event->peer, sizeof(other->agent));
    merge_identity(transfer, event);
    merge_amounts(transfer, event);
    merge_side(side, event, at_ns);
    derive(transfer);
}

void transfer_lose(struct transfer *transfer, kvr_role role, const char *detail)
{
    struct transfer_side *side = &transfer->sides[role];

    if (side->ended)
        return;
    side->lost = true;
    snprintf(side->detail, sizeof(side->detail), "%s", detail);
    derive(transfer);
}

const char *transfer_detail(const struct transfer *transfer)
{
    const struct transfer_side *source = &transfer->sides[KVR_ROLE_SOURCE];
    const struct transfer_side *target = &transfer->sides[KVR_ROLE_TARGET];

    if (target->ended && target->outcome == transfer->reason && target->detail[0] != '\0')
        return target->detail;
    if (source->ended && source->outcome == transfer->reason && source->detail[0] != '\0')
        return source->detail;
    return target->detail[0] != '\0' ? target->detail : source->detail;
}

static int64_t side_duration(const struct transfer_side *side)
{
    int64_t from = side->at_ns[STAGE_OPENED], to = side->at_ns[STAGE_ENDED];

    return from != 0 && to >= from ? to - from : -1;
}

int64_t transfer_duration_ns(const struct transfer *transfer)
{
    int64_t target = side_duration(&transfer->sides[KVR_ROLE_TARGET]);

    return target >= 0 ? target : side_duration(&transfer->sides[KVR_ROLE_SOURCE]);
}

int64_t transfer_opened_ns(const struct transfer *transfer)
{
    int64_t earliest = 0;

    for (int role = 0; role < 2; role++)
        for (int stage = 0; stage < STAGE_END; stage++) {
            int64_t at = transfer->sides[role].at_ns[stage];

            if (at != 0 && (earliest == 0 || at < earliest))
                earliest = at;
        }
    return earliest;
}

int64_t transfer_ended_ns(const struct transfer *transfer)
{
    int64_t source = transfer->sides[KVR_ROLE_SOURCE].at_ns[STAGE_ENDED];
    int64_t target = transfer->sides[KVR_ROLE_TARGET].at_ns[STAGE_ENDED];

    return transfer_state_live(transfer->state) ? 0 : target != 0 ? target : source;
}

kvr_path transfer_path(const struct transfer *transfer)
{
    kvr_path source = transfer->sides[KVR_ROLE_SOURCE].path;
    kvr_path target = transfer->sides[KVR_ROLE_TARGET].path;

    return source > target ? source : target;
}

bool transfer_held(const struct transfer *transfer)
{
    const struct transfer_side *source = &transfer->sides[KVR_ROLE_SOURCE];

    return transfer_state_live(transfer->state) && source->boot != 0 && !source->lost &&
           !source->ended && source->at_ns[STAGE_MATCHED] == 0 &&
           transfer->sides[KVR_ROLE_TARGET].boot == 0;
}
