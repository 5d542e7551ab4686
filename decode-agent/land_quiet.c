/* Quiet: whether a write that the source posted can still arrive (rule 4).
 *
 * state   | CLAIMED | VOIDED | EVEN   | READ_BACK
 * --------|---------|--------|--------|----------
 * VOID    | CLAIMED | =      | -      | =
 * CLAIMED | =       | VOID   | PROVEN | =
 * PROVEN  | CLAIMED | VOID   | -      | CLAIMED
 *
 * Even means: for each epoch, as many writes arrived as the source posted, or the epoch is closed.
 */
#include "decode-agent/land.h"

#include "base/mutant.h"

KVR_STATE_TABLE(landing_quiet, QUIET) = {
    /* CLAIMED, VOIDED, EVEN, READ_BACK */
    [QUIET_VOID] = {QUIET_CLAIMED, QUIET_VOID, NEVER, QUIET_VOID},
    [QUIET_CLAIMED] = {QUIET_CLAIMED, QUIET_VOID, QUIET_PROVEN, QUIET_CLAIMED},
    [QUIET_PROVEN] = {QUIET_CLAIMED, QUIET_VOID, NEVER, QUIET_CLAIMED},
};

void land_quiet_give(struct land *land, const struct landing *landing)
{
    if (landing->arrived.claim != NULL)
        land_report(land, landing, LAND_MESSAGE(LAND_QUIET_TAKEN, .quiet = landing->arrived.claim));
}

static bool epoch_closed(const struct land *land, uint32_t rail, uint32_t epoch)
{
    return rail < KVR_RAILS_MAX && epoch <= land->epoch_closed[rail];
}

/* Index of its count, or count_count. */
static uint32_t count_of(const struct landing *landing, uint32_t rail, uint32_t epoch)
{
    uint32_t i = 0;

    while (i < landing->arrived.count_count &&
           (landing->arrived.counts[i].rail != rail || landing->arrived.counts[i].epoch != epoch))
        i++;
    return i;
}

/* All writes that were posted there have arrived. After a chunk arrives a second time, or leaves no
 * bit, equal counts prove nothing: one of the writes may still be on its way. */
static bool even(const struct landing *landing, const struct kvr_epoch_count *posted)
{
    uint32_t i = count_of(landing, posted->rail, posted->epoch);

    if (i == landing->arrived.count_count)
        return posted->count == 0;
    return landing->arrived.counts[i].count == posted->count &&
           ((landing->arrived.doubted >> i & 1) == 0 || KVR_MUTANT(doubted_counts_trusted));
}

/* Even or closed. */
static bool settled(const struct land *land, const struct landing *landing,
                    const struct kvr_epoch_count *posted)
{
    if (epoch_closed(land, posted->rail, posted->epoch))
        return true;
    return !landing->arrived.claim->closed_only && even(landing, posted);
}

/* Writes arrived on an epoch that the source did not name: only closing proves it quiet. */
static bool unnamed(const struct land *land, const struct landing_quiet *quiet,
                    const struct kvr_epoch_count *count)
{
    if (count->count == 0)
        return false;
    for (uint32_t i = 0; i < quiet->count; i++)
        if (quiet->counts[i].rail == count->rail && quiet->counts[i].epoch == count->epoch)
            return false;
    return !epoch_closed(land, count->rail, count->epoch);
}

void land_pair_lost(struct landing *landing, uint32_t rail, uint32_t epoch)
{
    uint32_t i = count_of(landing, rail, epoch);

    if (i == KVR_EPOCHS_PER_TRANSFER)
        return;
    if (i == landing->arrived.count_count)
        landing->arrived.counts[landing->arrived.count_count++] =
            (struct kvr_epoch_count){.rail = rail, .epoch = epoch};
    landing->arrived.lost |= (uint64_t)1 << i;
}

/* One write has one pair. So a chunk that came over the lost pair and now over another was posted
 * twice: no write was counted twice. The other order says less: that count is of the lost pair. */
bool land_is_second_posting(struct landing *landing, uint32_t rail, uint32_t epoch, uint32_t chunk,
                            bool first)
{
    uint64_t *again = landing->arrived.again, bit = (uint64_t)1 << (chunk % 64);
    uint32_t i = count_of(landing, rail, epoch);

    if (again == NULL || (again[chunk / 64] & bit) == 0 ||
        (i < landing->arrived.count_count && (landing->arrived.lost >> i & 1) != 0))
        return false;
    again[chunk / 64] &= ~bit;
    return !first;
}

void land_count_arrival(struct landing *landing, uint32_t rail, uint32_t epoch, bool doubt)
{
    uint32_t i = count_of(landing, rail, epoch);

    landing->arrived.total++;
    landing->arrived.rails |= (uint64_t)1 << rail;
    if (i < landing->arrived.count_count) {
        landing->arrived.counts[i].count++;
        landing->arrived.doubted |= (uint64_t)doubt << i;
        return;
    }
    landing->arrived.doubted |= i < KVR_EPOCHS_PER_TRANSFER ? (uint64_t)doubt << i : 0;
    /* Beyond the table the count is lost, and only closing the epochs proves quiet. The source's
     * own table has the same size, so it gives up first. */
    if (landing->arrived.count_count < KVR_EPOCHS_PER_TRANSFER)
        landing->arrived.counts[landing->arrived.count_count++] =
            (struct kvr_epoch_count){.rail = rail, .epoch = epoch, .count = 1};
}

void land_quiet_check(struct land *land, struct landing *landing)
{
    if (landing->arrived.state != QUIET_CLAIMED)
        return;
    /* Copies still write or read the pages. */
    if ((landing->staging.copying > 0 ||
         (landing->staging.waiting > 0 && !landing->staging.failed) ||
         (landing->staging.stage != NULL && landing->verify.state != HASH_IDLE)) &&
        !KVR_MUTANT(free_before_the_copy))
        return;
    for (uint32_t i = 0; i < landing->arrived.claim->count; i++)
        if (!settled(land, landing, &landing->arrived.claim->counts[i]))
            return;
    for (uint32_t i = 0; i < landing->arrived.count_count; i++)
        if (unnamed(land, landing->arrived.claim, &landing->arrived.counts[i]))
            return;
    landing_quiet_on(&landing->arrived.state, QUIET_ON_EVEN);
    land_report(land, landing, LAND_MESSAGE(LAND_IS_QUIET, .round = landing->arrived.claim->round));
}

void land_quiet_replace(struct land *land, struct landing *landing, struct landing_quiet *quiet)
{
    land_quiet_give(land, landing);
    landing->arrived.claim = quiet;
    landing_quiet_on(&landing->arrived.state, quiet != NULL ? QUIET_ON_CLAIMED : QUIET_ON_VOIDED);
    land_quiet_check(land, landing);
}

/* A late write stands behind others of the same peer on the same rail: while those arrive, it is
 * not suspected. */
static bool still_coming(const struct land *land, const struct landing *landing, uint32_t rail,
                         kvr_ns now, const struct land_suspects *suspects)
{
    kvr_ns last = rail < KVR_RAILS_MAX ? land->arrived_at[landing->peer][rail] : 0;

    if ((suspects->at_once >> rail % KVR_RAILS_MAX & 1) != 0)
        return false;
    return (suspects->later >> rail % KVR_RAILS_MAX & 1) != 0 ||
           (last != 0 && now - last < suspects->quiet_ns);
}

static void report_suspect(struct land *land, const struct landing *landing,
                           const struct kvr_epoch_count *count)
{
    land_report(land, landing, LAND_MESSAGE(LAND_SUSPECT, .epoch = {count->rail, count->epoch}));
}

void land_quiet_suspects(struct land *land, const struct landing *landing, kvr_ns now,
                         const struct land_suspects *suspects)
{
    const struct landing_quiet *quiet = landing->arrived.claim;
    bool coming = false;

    if (quiet == NULL)
        return; /* the source is posting: its counts are not known */
    for (uint32_t i = 0; i < quiet->count; i++) {
        const struct kvr_epoch_count *count = &quiet->counts[i];

        if (settled(land, landing, count))
            continue;
        if (still_coming(land, landing, count->rail, now, suspects))
            coming = true;
        else
            report_suspect(land, landing, count);
    }
    for (uint32_t i = 0; i < landing->arrived.count_count; i++)
        if (suspects->later == 0 && unnamed(land, quiet, &landing->arrived.counts[i]))
            report_suspect(land, landing, &landing->arrived.counts[i]);
    if (coming)
        land_report(land, landing, LAND_MESSAGE(LAND_COMING));
}

void land_quiet_epoch_closed(struct land *land, uint32_t rail, uint32_t epoch)
{
    land->epoch_closed[rail] = epoch;
    for (uint32_t i = 0; i < KVR_TRANSFERS_MAX; i++)
        if (land->landings[i] != NULL)
            land_quiet_check(land, land->landings[i]);
}
