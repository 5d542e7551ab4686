/* The questions behind the pages of the dashboard, put to the scheduler's API in this process: what
 * SQLite, the rows and their JSON take, without HTTP. */
#ifndef KVR_TOOLS_BENCH_QUESTIONS_H
#define KVR_TOOLS_BENCH_QUESTIONS_H

#include "tools/bench/bench_fleet.h"

/* Caches are warm, so an answer waits for the processor alone: p50_ms and p95_ms are the time that
 * the thread ran. p95_wall_ms has what other programs took as well. */
#define BENCH_QUESTION_NAME_BYTES 96
#define BENCH_QUESTIONS_MAX       256
#define BENCH_QUESTION_WORST_MS   50.0 /* p95: longer is too long */

struct bench_question_time {
    char name[BENCH_QUESTION_NAME_BYTES];
    bool answered; /* false: the API gave up, or refused, after so long */
    double p50_ms, p95_ms, p95_wall_ms;
    double slower; /* bench_pace_slower() meanwhile; 1 where no try needed it */
};
struct bench_question_times {
    uint32_t count;
    struct bench_question_time list[BENCH_QUESTIONS_MAX];
};

/* p95_ms on a core that nothing else slows. */
double bench_question_cost_ms(const struct bench_question_time *time);

/* folder: of a database that bench_history_fill has filled for this fleet. Each question is asked
 * once, and then `rounds` times; one that takes BENCH_QUESTION_WORST_MS or more in four tries at
 * most, of which the best is kept. Beside a second try the pace of the processor is measured. */
KVR_MUST_CHECK kvr_status bench_questions_ask(const struct bench_fleet *fleet, const char *folder,
                                              uint32_t rounds,
                                              struct bench_question_times *ret_times,
                                              struct kvr_error *error);

#endif
