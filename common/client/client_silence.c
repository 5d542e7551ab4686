#include "client/client_silence.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/mutant.h"

static void look_next(struct client_silence *silence, kvr_ns now)
{
    if (silence->sign == 0)
        silence->due_at = KVR_NEVER;
    else if (silence->silent)
        silence->due_at = now + KVR_ENGINE_BEAT_NS;
    else
        silence->due_at =
            kvr_min_u64(silence->counts_from + CLIENT_SILENCE_NS, now + KVR_ENGINE_BEAT_NS);
}

void client_silence_begin(struct client_silence *silence, kvr_ns now, kvr_ns sign)
{
    *silence = (struct client_silence){
        .sign = sign, .alive_at = now, .counts_from = now, .looked_at = now};
    look_next(silence, now);
}

/* The sign is the agent's time. Where its clock is another (a time namespace), the time lies
 * outside of the looks around it. */
static void take_sign(struct client_silence *silence, kvr_ns now, kvr_ns sign)
{
    silence->sign = sign;
    silence->alive_at = sign >= silence->looked_at && sign <= now ? sign : now;
    silence->counts_from = silence->alive_at;
    silence->excused = false;
}

/* Time without a look does not count. After the first such time the agent has a beat to give a
 * sign.
 */
static void allow_for_absence(struct client_silence *silence, kvr_ns now)
{
    kvr_ns allowed = CLIENT_SILENCE_NS - KVR_ENGINE_BEAT_NS;
    kvr_ns late = now > silence->due_at ? now - silence->due_at : 0;

    if (late <= KVR_ENGINE_BEAT_NS / 2 || KVR_MUTANT(blamed_for_own_absence))
        return;
    silence->counts_from = kvr_min_u64(silence->counts_from + late, now);
    if (!silence->excused && now - silence->counts_from > allowed)
        silence->counts_from = now - allowed;
    silence->excused = true;
}

client_silence_news client_silence_look(struct client_silence *silence, kvr_ns now, kvr_ns sign)
{
    client_silence_news news = CLIENT_SILENCE_NONE;
    bool changed = sign != silence->sign;

    if (silence->sign == 0)
        return news;
    if (changed)
        take_sign(silence, now, sign);
    if (!silence->silent)
        allow_for_absence(silence, now);
    if (silence->silent && changed) {
        silence->silent = false;
        news = CLIENT_SILENCE_BACK;
    } else if (!silence->silent && now - silence->counts_from >= CLIENT_SILENCE_NS) {
        silence->silent = true;
        news = CLIENT_SILENCE_SILENT;
    }
    silence->looked_at = now;
    look_next(silence, now);
    return news;
}

/* ---- a fetch --------------------------------------------------------------------------------- */

bool client_silence_expires(const struct client_silence *silence, const struct client_told *told,
                            kvr_ns deadline, kvr_ns now)
{
    return silence->silent && !told->failing && now >= deadline && !KVR_MUTANT(deadline_unheard);
}

void client_silence_expire(const struct client_silence *silence, struct client_told *told,
                           kvr_ns now, uint64_t handle, struct kvr_notice *ret_notice)
{
    told->failing = told->own = true;
    *ret_notice = (struct kvr_notice){.kind = KVR_MUTANT(silence_hands_back) ? KVR_NOTICE_EXPIRED
                                                                             : KVR_NOTICE_FAILING,
                                      .handle = handle,
                                      .status = KVR_EXPIRED};
    snprintf(
        ret_notice->detail, sizeof(ret_notice->detail),
        "its deadline passed, and the agent on this host has given no sign of life for %" PRIu64
        " ms: its pages stay lent until the agent answers, or its process ends",
        (now - silence->alive_at) / KVR_MS);
}

bool client_told_take(struct client_told *told, uint64_t tokens, struct kvr_notice *notice)
{
    if (told->own && !kvr_notice_terminal(notice->kind))
        return false;
    told->failing |= notice->kind == KVR_NOTICE_FAILING;
    if (!told->own || notice->kind != KVR_NOTICE_DONE || KVR_MUTANT(done_after_own_failing))
        return true;
    notice->kind = KVR_NOTICE_EXPIRED;
    notice->status = KVR_EXPIRED;
    if (notice->token_end > notice->token_first)
        notice->token_first = notice->token_end; /* all of them are right */
    notice->token_end = tokens;
    snprintf(notice->detail, sizeof(notice->detail),
             "its deadline passed while the agent on this host did not run; all bytes had come");
    return true;
}
