/* The writer's rollups: what was applied becomes rows of the current second, within the transaction
 * that stores it; and seconds become minutes, hours and days once these are over.
 *
 * The database has every row after each commit. So nothing is lost when the scheduler ends, and
 * what is in memory is only what need not be read again. Writer thread. */
#ifndef KVR_SCHEDULER_ROLLUPS_H
#define KVR_SCHEDULER_ROLLUPS_H

#include "scheduler/rollup_growth.h"
#include "scheduler/store.h"

struct rollups;

struct rollups *rollups_open(struct store *store); /* NULL: no memory */
struct rollups *rollups_close(struct rollups *rollups);

/* ---- within a transaction; false: the database or memory fails, roll back ---- */
bool rollups_take_transfer(struct rollups *rollups, const struct transfer *transfer,
                           const struct rollup_news *news, int64_t now_ns);
bool rollups_take_report(struct rollups *rollups, const struct kvr_report *report, int64_t now_ns);
bool rollups_flush(struct rollups *rollups);
/* Some rows are not in the database yet. */
bool rollups_changed(const struct rollups *rollups);
/* Sums up one step that is over; *ret_more: another one may be over, too. If none was, it removes
 * some rows past their time. */
bool rollups_sum_up(struct rollups *rollups, int64_t now_ns, bool *ret_more);

/* Another scheduler took this report and counted what grew: later ones count from it here, too. */
void rollups_hear_report(struct rollups *rollups, const struct kvr_report *report, int64_t now_ns);
/* Another scheduler has committed: rows are read again. */
void rollups_forget_rows(struct rollups *rollups);
/* The transaction was rolled back: what is in memory is not what the database has. */
void rollups_forget(struct rollups *rollups);

#endif
