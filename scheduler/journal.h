/* The reports that were acknowledged and that the database has not committed yet: the file
 * kvrail.journal in the state folder (journal_frames.h).
 *
 * The database says up to which frame it has them: the position of the agent "" with the journal's
 * id as its boot, which is set in the transaction that stores them. So a crash between the commit
 * and journal_clear stores nothing twice. A new journal has number 1, without a frame, so that the
 * database that it belongs to always knows it. A file that does not begin as a journal is renamed
 * to kvrail.journal.damaged-<time>, and a new one begins.
 *
 * Writer thread. */
#ifndef KVR_SCHEDULER_JOURNAL_H
#define KVR_SCHEDULER_JOURNAL_H

#include "base/status.h"
#include "scheduler/journal_frames.h"

#define JOURNAL_REPORTS_MAX 256 /* of one frame */

struct journal;

KVR_MUST_CHECK kvr_status journal_open(const char *folder, struct journal **ret_journal,
                                       struct kvr_error *error);
struct journal *journal_close(struct journal *journal); /* keeps the file; returns NULL */

/* A scheduler that was killed left reports in the journal of this folder. */
bool journal_was_left(const char *folder);

uint64_t journal_id(const struct journal *journal);
/* Of the last frame; 1: there was none. 0: not known before journal_replay. */
uint64_t journal_number(const struct journal *journal);
/* Of the frames that the database has not, with their headers. */
uint64_t journal_bytes(const struct journal *journal);

/* The reports are on the disk when this returns KVR_OK. Else there is no frame of them. */
KVR_MUST_CHECK kvr_status journal_append(struct journal *journal, int64_t arrived_ns,
                                         const struct journal_report *reports, uint32_t count,
                                         struct kvr_error *error);
/* After an append that failed: its reports go to the database without a frame, and what the disk
 * may have taken of it is not read again once that is committed. */
void journal_skip(struct journal *journal);

/* It belongs to another database, which had all of it or is lost: it begins anew, with another id.
 */
KVR_MUST_CHECK kvr_status journal_begin_anew(struct journal *journal, struct kvr_error *error);
/* Each report behind frame `after`, in their order, until one is not KVR_OK. Borrowed for the call.
 * Logs what is lost. The next frame goes behind these, also after a failure. */
typedef kvr_status journal_visit(void *self, int64_t arrived_ns,
                                 const struct journal_report *report, struct kvr_error *error);
KVR_MUST_CHECK kvr_status journal_replay(struct journal *journal, uint64_t after,
                                         journal_visit *visit, void *self, struct kvr_error *error);

/* The database has committed all frames. */
void journal_clear(struct journal *journal);
/* Where nothing is in it: gives the disk its room back. */
void journal_trim(struct journal *journal);

#endif
