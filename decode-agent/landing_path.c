/* The path of a transfer: into its pages, through staging memory, or as a direct copy.
 *
 * state       | STAGE  | CLOSED_STAGE | STAGE_ANSWERS | COPY
 * ------------|--------|--------------|---------------|------------
 * PAGES       | STAGED | OPENING      | -             | -
 * OPENING     | -      | -            | STAGED        | -
 * STAGED      | -      | -            | -             | DIRECT_COPY
 * DIRECT_COPY | -      | -            | -             | -
 *
 * A transfer begins in STAGED where the cards cannot reach its pages. WANT offers its source the
 * other possible paths, and the first PLAN takes one of them. After the first segment the path
 * stays. */
#include "decode-agent/landing_path.h"

#include "decode-agent/fetch.h"
#include "decode-agent/transfer.h"

KVR_STATE_TABLE(landing_path, PATH) = {
    /* STAGE, CLOSED_STAGE, STAGE_ANSWERS, COPY */
    [PATH_PAGES] = {PATH_STAGED, PATH_OPENING, NEVER, NEVER},
    [PATH_OPENING] = {NEVER, NEVER, PATH_STAGED, NEVER},
    [PATH_STAGED] = {NEVER, NEVER, NEVER, PATH_DIRECT_COPY},
    [PATH_DIRECT_COPY] = {NEVER, NEVER, NEVER, NEVER},
};

struct kvr_stage *landing_path_stage(const struct inbound *inbound, const struct transfer *transfer)
{
    if (!landing_path_staged(&transfer->path))
        return NULL;
    return kvr_region_set_stage(fetch_of(inbound, transfer)->set);
}

uint64_t landing_path_stage_bytes(const struct inbound *inbound, const struct transfer *transfer)
{
    bool may = kvr_region_set_can_stage(fetch_of(inbound, transfer)->set) &&
               inbound->now >= inbound->stage_retry_at && inbound->ports->region_stage != NULL;

    return may ? inbound->options.stage_bytes : 0;
}

/* Direct copy: source and target lie in device memory of one host, and both agents can reach both
 * devices. The target's agent copies (provider local). Nothing is staged at either end. */
bool direct_copy_possible(const struct inbound *inbound, const struct transfer *transfer)
{
    const struct kvr_region_set *set = fetch_of(inbound, transfer)->set;
    const struct kvr_rail_groups *groups = &inbound->options.groups;
    bool mixed = groups->same_host != 0;
    uint64_t rails = mixed ? kvr_rail_groups_same_host(groups, set->locals[0]->home) : UINT64_MAX;

    return transfer->verification.mode == KVR_DIGEST_OFF &&
           inbound->ports->revocation_word_take != NULL &&
           (!mixed || inbound->peers[transfer->link.peer].same_host) &&
           kvr_region_set_direct_copy_on(set, rails);
}

/* The source's PLANs are not for staging memory: a direct copy. False: WANT did not offer one. */
static bool direct_copy_take(struct transfer *transfer)
{
    if (!transfer->path.copy_offered || !landing_path_staged(&transfer->path) ||
        transfer->intake.segments != NULL)
        return false;
    landing_path_on(&transfer->path.state, PATH_ON_COPY);
    return true;
}

kvr_status landing_path_planned(struct inbound *inbound, struct transfer *transfer,
                                const struct kvr_msg_plan *plan, struct kvr_error *error)
{
    struct kvr_region_set *set = fetch_of(inbound, transfer)->set;
    bool staged = plan->limits.pieces_remote == KVR_PLAN_ONE_RUN;

    if (staged == landing_path_staged(&transfer->path) || (!staged && direct_copy_take(transfer)))
        return KVR_OK;
    if (transfer->intake.segments != NULL || !staged || transfer->path.stage_bytes == 0)
        return kvr_error_set(error, KVR_MALFORMED, "plan",
                             "the source's writes are %s staging memory, which was not agreed",
                             staged ? "for" : "not for");
    if (kvr_region_set_stage(set) != NULL) {
        landing_path_on(&transfer->path.state, PATH_ON_STAGE);
        return KVR_OK;
    }
    landing_path_on(&transfer->path.state, PATH_ON_CLOSED_STAGE);
    inbound->ports->region_stage(inbound->ports->self, set, transfer->id);
    return KVR_OK;
}

void landing_path_opened(struct inbound *inbound, struct transfer *transfer, kvr_status status)
{
    landing_path_on(&transfer->path.state, PATH_ON_STAGE_ANSWERS);
    if (landing_path_stage(inbound, transfer) != NULL) {
        if (transfer->quota.state == QUOTA_AWAITS_STAGE && transfer->state == T_WANTED)
            transfer_grant(inbound, transfer);
        return;
    }
    inbound->stage_retry_at = inbound->now + KVR_STAGE_RETRY_NS;
    if (transfer->state == T_WANTED)
        transfer_fail(inbound, transfer, status != KVR_OK ? status : KVR_NO_MEMORY,
                      "the staging memory for its fragments could not be had: see the agent's log");
}
