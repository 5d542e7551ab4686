/* A line of the history for each message between an agent's loop and its rail groups: the kind, the
 * transfer, and up to three numbers in the order of the message's members. */
#include "prefill-agent/push.h"
#include "tools/sim/sim_world.h"

struct note {
    const char *name;
    uint64_t nonce, a, b, c;
};

static struct note group_note(const struct kvr_group_message *m)
{
    switch (m->head.kind) {
    case KVR_GROUP_PEER_ADD:
        return (struct note){"PEER_ADD", 0, m->peer_rails.peer, 0, 0};
    case KVR_GROUP_PEER_ADDED:
        return (struct note){"PEER_ADDED", 0, m->peer_rails.peer, 0, 0};
    case KVR_GROUP_PEER_RAIL:
        return (struct note){"PEER_RAIL", 0, m->peer_rail.peer, 0, 0};
    case KVR_GROUP_PEER_RAIL_SET:
        return (struct note){"PEER_RAIL_SET", 0, m->peer_rail.peer, 0, 0};
    case KVR_GROUP_PEER_DROP:
        return (struct note){"PEER_DROP", 0, m->peer_drop.peer, 0, 0};
    case KVR_GROUP_PEER_DROPPED:
        return (struct note){"PEER_DROPPED", 0, m->peer_drop.peer, 0, 0};
    case KVR_GROUP_RECYCLE:
        return (struct note){"RECYCLE", 0, m->recycle.rail, 0, 0};
    case KVR_GROUP_RECYCLED:
        return (struct note){"RECYCLED", 0, m->recycled.rail, m->recycled.ended, m->recycled.epoch};
    case KVR_GROUP_CONFIRMED:
        return (struct note){"CONFIRMED", 0, m->confirmed.peer, m->confirmed.count, 0};
    case KVR_GROUP_SENDER:
        return (struct note){"SENDER", 0, m->sender.peer, m->sender.rail, m->sender.serial};
    case KVR_GROUP_SENDER_SET:
        return (struct note){"SENDER_SET", 0, m->sender.peer, m->sender.rail, m->sender.serial};
    case KVR_GROUP_SENDER_KNOWN:
        return (struct note){"SENDER_KNOWN", 0, m->sender_known.peer, m->sender_known.rail,
                             m->sender_known.epoch};
    case KVR_GROUP_SUSPENDED:
        return (struct note){"SUSPENDED", 0, m->suspended.since, 0, 0};
    case KVR_GROUP_RESUMED:
        return (struct note){"RESUMED", 0, m->resumed.count, 0, 0};
    case KVR_GROUP_PAIR_RENEW:
        return (struct note){"PAIR_RENEW", 0, m->pair_renew.peer, m->pair_renew.rail, 0};
    case KVR_GROUP_PAIR_BROKEN:
        return (struct note){"PAIR_BROKEN", 0, m->pair_broken.pair.rail,
                             m->pair_broken.pair.target_rail, m->pair_broken.pair.epoch};
    case KVR_GROUP_RAIL_ERROR:
        return (struct note){"RAIL_ERROR", 0, m->rail_error.rail, m->rail_error.epoch, 0};
    case KVR_GROUP_PEER_WARM:
        return (struct note){"PEER_WARM", 0, m->peer_warm.peer, m->peer_warm.pairs, 0};
    default:
        return (struct note){"?", 0, m->head.kind, 0, 0};
    }
}

static struct note push_note(const union push_message *m)
{
    static const char *const names[] = {
        "PUSH_OPEN",     "PUSH_SEGMENT",    "PUSH_FINAL", "PUSH_RETRANSMIT", "PUSH_LIST",
        "PUSH_FAILOVER", "PUSH_STOP",       "PUSH_CLOSE", "PUSH_PROBE",      "PUSH_PAGE",
        "FIRST_POST",    "ALL_READY",       "COUNT",      "POSTED",          "STAGING_FULL",
        "STOPPED",       "RETRANSMIT_DONE", "LISTED",     "COPY_FAILED",     "NO_RAIL",
        "RAIL_BACK",     "FAILED_OVER",     "PROBED",     "PUSH_CLOSED",     "PAGE_SET"};
    struct note note = {.name = names[m->head.kind - KVR_GROUP_KIND_USER], .nonce = m->transfer};

    switch (m->head.kind) {
    case PUSH_FIRST_POST:
    case PUSH_ALL_READY:
        note.a = m->ready_at;
        break;
    case PUSH_COUNT:
        note.a = m->count.rail;
        note.b = m->count.epoch;
        note.c = m->count.count;
        break;
    case PUSH_POSTED:
    case PUSH_STAGING_FULL:
    case PUSH_STOPPED:
        note.a = m->sum.round;
        note.b = m->sum.posted;
        note.c = m->sum.repeated;
        break;
    default:
        break;
    }
    return note;
}

static struct note land_note(const union land_message *m)
{
    static const char *const names[] = {
        "LAND_OPEN",    "LAND_SEGMENT",  "LAND_FINAL",  "LAND_QUIET",  "QUIET_VOID",
        "LAND_FILTER",  "LAND_SUSPECTS", "LAND_DIGEST", "LAND_VERIFY", "LAND_CLOSE",
        "KEYS_OPEN",    "KEYS_CLOSE",    "FORWARD",     "FORWARD_END", "HANDED",
        "EPOCH_CLOSED", "DRAINED",       "LAND_FIRST",  "LAND_LAYER",  "LAND_ALL",
        "IS_QUIET",     "QUIET_TAKEN",   "FILTERED",    "SUSPECT",     "COMING",
        "BAD",          "REVOKED",       "VERIFIED",    "CORRUPT",     "FORWARD_ENDED",
        "ROOM",         "KEYS_OPENED",   "KEYS_CLOSED", "COPY_FAILED", "LAND_CLOSED",
        "STRANGERS"};
    struct note note = {.name = names[m->head.kind - KVR_GROUP_KIND_USER], .nonce = m->transfer};

    switch (m->head.kind) {
    case LAND_FINAL:
    case LAND_ALL:
        note.a = m->chunks;
        break;
    case LAND_SUSPECTS:
        note.a = m->suspects.quiet_ns;
        note.b = m->suspects.at_once;
        break;
    case LAND_FORWARD:
    case LAND_FORWARD_END:
        note.a = m->forward.home;
        break;
    case LAND_LAYER:
        note.a = m->layer.segment;
        note.b = m->layer.layer;
        break;
    case LAND_IS_QUIET:
        note.a = m->round;
        break;
    case LAND_SUSPECT:
    case LAND_STRANGERS:
        note.a = m->epoch.rail;
        note.b = m->epoch.epoch;
        break;
    case LAND_CORRUPT:
        note.a = m->chunk;
        break;
    case LAND_ROOM:
        note.a = m->position;
        break;
    case LAND_CLOSED:
        note.a = m->closed.arrivals;
        note.b = m->closed.rails;
        break;
    default:
        break;
    }
    return note;
}

void sim_group_note(const struct sim_group *group, const struct kvr_group_message *message)
{
    const union push_message push = push_message_of(message);
    const union land_message land = land_message_of(message);
    struct note note;

    if (message->head.kind < KVR_GROUP_KIND_USER)
        note = group_note(message);
    else if (group->agent->source)
        note = push_note(&push);
    else
        note = land_note(&land);
    sim_agent_note(group->agent, note.name, note.nonce, note.a, note.b, note.c, NULL);
}
